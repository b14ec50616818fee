"""Each dataset has a card, and each card a dataset."""

import shutil
from pathlib import Path

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.data import cards as module
from madke.data.cards import card, cards
from madke.data.formats import FORMATS


def test_cards_and_formats_match() -> None:
    assert {path.stem for path in asset("eval", "datasets").glob("*.yaml")} == set(FORMATS)
    assert list(cards()) == list(FORMATS)


def test_an_unknown_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(asset("eval", "datasets"), tmp_path / "eval" / "datasets")
    with (tmp_path / "eval" / "datasets" / "ciar.yaml").open("a") as file:
        file.write("size: 50\n")
    monkeypatch.setattr(module, "asset", tmp_path.joinpath)
    with pytest.raises(UserError, match=r"ciar\.yaml:\d+: unknown key 'size'"):
        card("ciar")
