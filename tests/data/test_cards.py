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


def test_sizes_are_the_published_ones() -> None:
    assert sum(card("mmlu_med").splits.values()) == 1089
    assert sum(card("fever").splits[half] for half in ("paper dev", "paper test")) == card("fever").splits["dev"]
    assert card("ciar").splits == {"all": 50}


def test_samples_of_the_paper_are_named() -> None:
    for name in ("triviaqa", "nq_open", "hotpotqa", "2wikimultihopqa", "fever"):
        assert any("--limit 500 --sample-seed" in text for text in card(name).papers)
    assert any("--limit 595 --sample-seed" in text for text in card("mmlu_med").papers)
    assert "textbooks" in card("mmlu_med").knowledge


def test_an_unknown_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(asset("eval", "datasets"), tmp_path / "eval" / "datasets")
    with (tmp_path / "eval" / "datasets" / "ciar.yaml").open("a") as file:
        file.write("size: 50\n")
    monkeypatch.setattr(module, "asset", tmp_path.joinpath)
    with pytest.raises(UserError, match=r"ciar\.yaml:\d+: unknown key 'size'"):
        card("ciar")
