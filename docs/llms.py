"""``python -m docs.llms SITE`` writes llms.txt (a list of the pages for language models) and each page as Markdown."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SETTINGS = FOLDER.parent / "zensical.toml"


def write(site: Path) -> None:
    """Write SITE/llms.txt and SITE/PAGE.md for every page of the navigation."""
    project = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for section in project["nav"]:
        for heading, entries in section.items():
            lines += ["", f"## {heading}", ""]
            for title, name in _pages(entries):
                text = (FOLDER / name).read_text(encoding="utf-8")
                (site / name).write_text(text, encoding="utf-8")
                lines.append(f"- [{title}]({name}): {first_sentence(text)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pages(entries: Any) -> Iterator[tuple[str, str]]:
    for entry in entries:
        yield from entry.items()


def first_sentence(text: str) -> str:
    """The first sentence of a page below its title, without links and marks."""
    body = re.sub(r"<!--.*?-->", "", re.split(r"^# .*$", text, maxsplit=1, flags=re.MULTILINE)[1], flags=re.DOTALL)
    paragraph = " ".join(body.strip().partition("\n\n")[0].split())
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", paragraph).replace("**", "")
    return re.split(r"(?<=[.?!]) ", plain)[0].rstrip(":")


if __name__ == "__main__":
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        sys.exit(f"{site}: there is no index.html; build the site first")
    write(site)
