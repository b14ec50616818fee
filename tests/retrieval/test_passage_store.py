from __future__ import annotations

from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.retrieval.indexes.index_folder import PassageStore, StoredPassage, write_passages
from tests.support.installed import needs

needs("pyarrow", "wiki")


@pytest.mark.parametrize("count", [1, 1_000, 2_500])
def test_every_row_comes_back(count: int, tmp_path: Path) -> None:
    passages = [StoredPassage(f"id{n}", f"Ünïcode {n}", f"text\n\t{n}") for n in range(count)]

    written = write_passages(tmp_path / "p.arrow", passages)
    store = PassageStore(tmp_path / "p.arrow")

    assert written == len(store) == count
    assert [store[row] for row in range(count)] == passages


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.arrow").write_text("not arrow")

    with pytest.raises(UserError, match=r"p\.arrow: cannot be read as a passage store"):
        PassageStore(tmp_path / "p.arrow")
