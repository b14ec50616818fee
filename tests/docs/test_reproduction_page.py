"""The page of published figures: what it names exists, and every figure of every recipe is on it."""

from pathlib import Path

import pytest

from docs.reproduction_page import documents, page
from madke.experiments.claims import DerivedClaim, read_claims
from madke.experiments.recipe import read_recipe, recipe_file, recipe_files
from madke.report.reproduction import claims_table, figures

ROOT = Path(__file__).parents[2]

ITEMS = [
    (f"{name}: {item}", command, test)
    for name, document in documents().items()
    for item, (_, command, test, _) in document.items.items()
]


@pytest.mark.parametrize(("item", "command", "test"), ITEMS, ids=[item for item, *_ in ITEMS])
def test_what_an_item_names_exists(item: str, command: str, test: str) -> None:
    file, _, function = test.partition("::")
    if test:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in text
    if command.startswith("madke ablate "):
        assert recipe_file(command.split()[2]).is_file()
    if command.startswith("python "):
        assert (ROOT / command.split()[1]).is_file()


def test_the_numbered_equations_of_the_papers_are_all_there() -> None:
    equations = {
        name: [item for item in each.items if item.startswith("Equation")] for name, each in documents().items()
    }
    assert [len(each) for each in equations.values()] == [8, 1, 5, 0, 0]


def test_each_figure_has_a_row() -> None:
    text = page()
    for name in recipe_files():
        for model, arm, dataset, _, _ in read_recipe(name).figures():
            assert any(
                f"| {model} |" in line and arm in line and f"| {dataset} |" in line for line in text.splitlines()
            )


def test_claims_follow_from_the_papers_own_tables() -> None:
    found = [each for name in recipe_files() for each in figures(read_recipe(name))]
    table = claims_table(read_claims(), found)
    assert table is not None
    six = next(row for row in table.rows if "six datasets" in row[0].text)
    # (90.2, 69.2, 56.6, 28.4, 60.8, 86.1) of GPT-4, and (87.4, 74.8, 62.2, 35.0, 68.6, 70.9) of MADKE.
    assert six[2].value == pytest.approx(7.6 / 6)
    for row in table.rows:
        assert row[2].value == pytest.approx(row[1].value, abs=0.06)


def test_a_relative_claim_is_a_part_of_the_second_arm() -> None:
    side = {"model": "m", "arm": "a"}
    fields = {"says": "x", "source": "y", "published": -0.2, "relative": True, "figures": {"d": "tokens"}}
    claim = DerivedClaim.model_validate({**fields, "of": side, "than": {**side, "arm": "b"}})
    assert claim.computed({("m", "a", "d", "tokens"): 80, ("m", "b", "d", "tokens"): 100}) == pytest.approx(-0.2)
    assert claim.computed({("m", "a", "d", "tokens"): 80}) is None
