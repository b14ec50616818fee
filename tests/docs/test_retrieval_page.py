"""docs/retrieval.md lists every kind of source, and the protocols whose debaters can select."""

import re

import pytest

from docs.generate import FOLDER
from madke.core.errors import UserError
from madke.knowledge.source_spec import spec_from_yaml
from madke.variants import load_variant, variant_folders

PAGE = (FOLDER / "retrieval.md").read_text(encoding="utf-8")


def test_every_kind_of_source_is_in_the_table() -> None:
    with pytest.raises(UserError, match="expected one of") as refused:
        spec_from_yaml({"unknown": 1}, file="sources.yaml")
    kinds = str(refused.value).split("one of ")[1].split(", found")[0].split(", ")
    table = PAGE.split("| kind | value |")[1].split("\n\n")[0]

    listed = {kind for row in table.splitlines()[2:] for kind in re.findall(r"`(\w+)`", row.split("|")[1])}

    assert listed == set(kinds)


def test_the_protocols_whose_debaters_can_select_are_named() -> None:
    def selects(name: str) -> bool:
        try:
            load_variant(name).with_sources(["wiki"], {"knowledge.select": "adaptive"})
        except UserError as error:
            assert "select.j2: missing" in str(error)
            return False
        return True

    row = next(line for line in PAGE.splitlines() if line.startswith("| `knowledge.select=adaptive`"))

    assert {name for name in variant_folders() if selects(name)} == set(re.findall(r"`([\w-]+)`", row.split("|")[2]))
