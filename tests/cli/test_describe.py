"""``madke describe``, and verbs of earlier versions."""

import json
from typing import Any

import pytest

from tests.support.cli import madke, refused


def test_it_describes_everything_as_one_object() -> None:
    found: dict[str, Any] = json.loads(madke("describe", "--json").stdout)
    verbs = {verb["name"]: verb for verb in found["verbs"]}
    assert len([name for name in verbs if name.count(" ") == 1]) <= 15
    out = next(each for each in verbs["madke index build"]["parameters"] if "--out" in each["names"])
    assert (out["usage"], out["required"]) == ("--out DIR", True)
    protocols = {each["name"]: each for each in found["protocols"]}
    assert protocols["madke"]["calls"] == {"fewest": 5, "most": 16}
    rounds = found["functions"][protocols["madke"]["function"]]["parameters"]["rounds"]
    assert (rounds["default"], rounds["minimum"], rounds["type"]) == (3, 1, "integer")
    assert found["settings"]["properties"]["select"]["enum"] == ["adaptive", "all", "one_each", "views", "none"]
    assert found["sources"]["wiki"] == "built in"


def test_the_guide_for_agents_is_printed() -> None:
    done = madke("describe")
    assert done.stdout.startswith("---\nname: madke\n")


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ("mcp", "madke serve --mcp"),
        ("export", "madke report PATH --answers"),
        ("calibrate", "madke score PATH --calibrate"),
        ("prompts", "madke protocols prompt"),
    ],
)
def test_a_verb_of_earlier_versions_names_todays(former: str, today: str) -> None:
    assert today in refused(former, "anything")
