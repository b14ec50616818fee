"""pyserini's own REST server over a small index: ``python pyserini_server.py FOLDER PORT``."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

from madke.indexing.lucene import start_jvm
from tests.support.pyserini_format import lucene_folder

NAME = "msmarco-v1-passage"


def main(folder: Path, port: int) -> None:
    os.environ |= {"PYSERINI_CACHE": str(folder), "OPENAI_API_KEY": "none"}
    start_jvm()
    index = lucene_folder(folder / "indexes" / "lucene-index.mine.0")
    # The server imports a class for indexes of images, whose package pyserini does not install.
    images = types.ModuleType("pyserini.encode.optional._uniir")
    images.UniIRQueryEncoder = None  # type: ignore[attr-defined]
    sys.modules[images.__name__] = images

    import uvicorn
    from pyserini.index.lucene import LuceneIndexReader
    from pyserini.prebuilt_index_info import TF_INDEX_INFO

    # It serves only indexes that it knows by name; this one, its default, is in its cache already.
    known = {"urls": ["http://127.0.0.1:1/lucene-index.mine.tar.gz"], "md5": "0"}
    TF_INDEX_INFO[NAME] = known | LuceneIndexReader(str(index)).stats()

    from pyserini.server.rest.app import app

    uvicorn.run(app, host="127.0.0.1", port=port)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
