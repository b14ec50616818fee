"""Links between the Markdown files of the checkout lead somewhere. (The strict build checks those within docs/.)"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "examples/*.md", "prompts/*.md", "indexes/*.md", "eval/**/*.md", "docs/*.md")
    for page in CHECKOUT.glob(pattern)
)


BUILT = {"example-report.html"}
"""Files that `make docs` writes; the build of the site checks links to them."""


def links(page: Any) -> Any:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:", link)]


def anchors(page: Any) -> Any:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(page: Any) -> Iterator[Any]:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if name in BUILT:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


def test_the_tests_of_defences_exist() -> None:
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8"))
    assert [name for name in named if not (CHECKOUT / "tests" / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_to_files_and_headings(page: Any) -> None:
    assert list(dead(page)) == []
