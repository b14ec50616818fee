"""``python -m docs.check_site SITE`` fails if a page of the built site loads anything from another host."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
LINKS = {"stylesheet", "preconnect", "preload", "icon", "dns-prefetch", "modulepreload"}


class _Fetches(HTMLParser):
    """What a page loads when it is opened; links that a reader may follow do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in FETCHED:
            self.addresses.append(values.get(FETCHED[tag], ""))
        if tag == "link" and LINKS & set(values.get("rel", "").split()):
            self.addresses.append(values.get("href", ""))
        if "mermaid" in values.get("class", "").split():
            self.addresses.append("https: the program that draws Mermaid pictures")


def fetches(page: str) -> list[str]:
    """The addresses on other hosts that a page of HTML loads from."""
    parser = _Fetches()
    parser.feed(page)
    return [address for address in parser.addresses if re.match(r"(https?:)?//|https:", address)]


def _found(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*.html")):
        yield from (f"{path}: loads {address}" for address in fetches(path.read_text(encoding="utf-8")))
    for path in sorted(site.rglob("*.css")):
        outside = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8"))
        yield from (f"{path}: loads {address}" for address in outside)


if __name__ == "__main__":
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        sys.exit(f"{site}: there is no index.html; build the site first")
    if found := list(_found(site)):
        sys.exit("\n".join(found))
