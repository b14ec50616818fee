"""The report page's style (one meaning for each colour, readable in light and dark) and the names in its script."""

import re
from collections import Counter
from importlib.resources import files

import pytest

STYLE = files("madke.report").joinpath("page/style.css").read_text(encoding="utf-8")
SCRIPT = "\n".join(each.read_text(encoding="utf-8") for each in files("madke.report").joinpath("page/script").iterdir())
ROOT = STYLE[STYLE.index(":root {") : STYLE.index("}", STYLE.index(":root {"))]
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", ROOT)
}
MEANINGS = ("right", "wrong", "partly", "abstained", "failed", "selected", "gold", "accent")


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("ground", ["paper", "raised"])
@pytest.mark.parametrize("name", [*MEANINGS, "ink", "soft"])
def test_every_colour_is_readable_in_light_and_dark(name: str, ground: str) -> None:
    for text, behind in zip(COLOURS[name], COLOURS[ground], strict=True):
        assert contrast(text, behind) >= 4.5, (text, behind)


def test_no_two_scripts_declare_the_same_name() -> None:
    declared = re.findall(r"^(?:async )?(?:function\*?|const|let) (\w+)", SCRIPT, re.MULTILINE)
    assert [name for name, times in Counter(declared).items() if times > 1] == []
