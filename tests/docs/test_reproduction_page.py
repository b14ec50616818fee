"""The page of published figures: what it names exists, and every figure of every recipe is on it."""

import pytest

from docs.reproduction_page import ROUNDING, computed_claims, page
from madke.experiments.recipe import read_recipe, recipe_files
from madke.report.reproduction import figures


def test_claims_follow_from_the_papers_own_tables() -> None:
    found = [each for name in recipe_files() for each in figures(read_recipe(name))]
    computed = [(claim, 100 * value) for claim, value in computed_claims(found) if value is not None]
    six = next(value for claim, value in computed if "six datasets" in claim.says)
    # (90.2, 69.2, 56.6, 28.4, 60.8, 86.1) of GPT-4, and (87.4, 74.8, 62.2, 35.0, 68.6, 70.9) of MADKE.
    assert six == pytest.approx(7.6 / 6)
    differ = {claim.says for claim, value in computed if value != pytest.approx(100 * claim.published, abs=ROUNDING)}
    assert differ == {
        # By hand: (7.2 + 7.8 + 7.3 + 3.8 + 5.7 + 7.4 + 0.9 + 0.6 + 1.8) / 9 = 4.72, stated as 4.6.
        "MADKE is better than the best baseline, on average over all metrics of five datasets",
        # 64.0 - 41.2 = 22.8, stated as "up to 22%".
        "Truth Last gains most, over debate in a fixed order",
        # 72.0 - 70.4 = 1.6; the 3.6 of the text is that of Geometric Shapes.
        "MADC gains over debate on Logical Deduction, Qwen2.5-7B-Instruct",
        # 76.0 - 72.2 = 3.8; the table's own arrow says 4.0.
        "Truth Last gains on Geometric Shapes, GPT-4o-mini",
    }
    assert sum("**differs**" in line for line in page().splitlines()) == len(differ)
