"""What a template may reach is decided anew for each type and name, and remembered for them alone."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from jinja2.exceptions import SecurityError

from madke.variants.sandbox import Sandbox


@dataclass
class _Record:
    name: str = "open"
    _secret: str = "closed"


def test_a_refused_attribute_is_refused_every_time(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{{ record[wanted] }}")
    template = Sandbox(tmp_path).get_template("t.j2")
    for _ in range(2):
        assert template.render(record=_Record(), wanted="name") == "open"
        with pytest.raises(SecurityError):
            template.render(record=_Record(), wanted="_secret")


def test_a_name_that_one_type_may_show_is_refused_of_another(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{{ value.pop() }}")
    template = Sandbox(tmp_path).get_template("t.j2")

    class Bottle:
        def pop(self) -> str:
            return "plop"

    assert template.render(value=Bottle()) == "plop"
    with pytest.raises(SecurityError):
        template.render(value=["kept"])
    assert template.render(value=Bottle()) == "plop"


def test_the_first_folder_wins(tmp_path: Path) -> None:
    for folder in ("mine", "shared"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.j2").write_text(folder)
    assert Sandbox(tmp_path / "mine", tmp_path / "shared").get_template("t.j2").render() == "mine"
