"""Each dataset has a card, and each card a dataset."""

from madke._util.assets import asset
from madke.data.dataset import cards
from madke.data.formats import FORMATS


def test_cards_and_formats_match() -> None:
    assert {path.stem for path in asset("eval", "datasets").glob("*.yaml")} == set(FORMATS)
    assert list(cards()) == list(FORMATS)
