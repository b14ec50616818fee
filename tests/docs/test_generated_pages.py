"""The generated pages of docs/ say what the program says."""

from pathlib import Path
from typing import Any

import pytest

from docs import llms
from docs.check_site import fetches
from docs.cli_page import _escaped
from docs.generate import FOLDER, PAGES
from docs.sphinx_roles import to_markdown


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: Any) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "python -m docs.generate writes it"


def test_roles_of_docstrings_become_links_or_code() -> None:
    text = "Like :class:`BaseTask` of :func:`madke.ask`, :func:`~madke.engine.simulate.simulated`, ``None`` or `code`"
    links = "Like [`BaseTask`][madke.BaseTask] of [`madke.ask`][madke.ask]"
    assert to_markdown(text) == f"{links}, `madke.engine.simulate.simulated`, ``None`` or `code`"


def test_help_texts_are_no_markdown_by_accident() -> None:
    assert _escaped("a_b *c* [d] `--e|f` <g>") == r"a\_b \*c\* \[d\] `--e|f` \<g\>"
    assert _escaped("e.g. http://localhost:8000/v1.") == "e.g. `http://localhost:8000/v1`."


def test_what_a_page_loads_from_other_hosts_is_found() -> None:
    loads = '<script src="https://c.example/x.js"></script><link rel="preconnect stylesheet" href="//d.example/y.css">'
    loads_nothing = '<a href="https://a.example">read</a><link rel="canonical" href="https://b.example">'
    assert fetches(loads + loads_nothing) == ["https://c.example/x.js", "//d.example/y.css"]


def test_llms_txt_lists_every_page_with_a_line(tmp_path: Path) -> None:
    llms.write(tmp_path)

    listed = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    pages = {path.name for path in FOLDER.glob("*.md")}
    assert {name for name in pages if f"]({name}): " not in listed} == set()
    assert {path.name for path in tmp_path.glob("*.md")} == pages
    assert all(line.partition("): ")[2] for line in listed.splitlines() if line.startswith("- "))
