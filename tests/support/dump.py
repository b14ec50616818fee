"""Writes small Wikipedia dumps in MediaWiki's export format, and longer ones of made-up articles."""

import bz2
import gzip
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <dbname>testwiki</dbname>
    <base>https://wiki.example/wiki/Main_Page</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
TAIL = "</mediawiki>\n"


@dataclass(frozen=True, kw_only=True)
class Page:
    title: str
    text: str
    namespace: int = 0
    redirect: str | None = None
    earlier: str | None = None
    """Text of an earlier revision, as dumps with history have."""


def page_xml(page: Page, number: int) -> str:
    redirect = "" if page.redirect is None else f"    <redirect title={quoteattr(page.redirect)} />\n"
    texts = [page.text] if page.earlier is None else [page.earlier, page.text]
    revisions = "".join(_revision_xml(text, 1000 * number + minor) for minor, text in enumerate(texts))
    return (
        f"  <page>\n    <title>{escape(page.title)}</title>\n    <ns>{page.namespace}</ns>\n    <id>{number}</id>\n"
        f"{redirect}{revisions}  </page>\n"
    )


def _revision_xml(text: str, revision: int) -> str:
    return (
        f"    <revision>\n      <id>{revision}</id>\n      <timestamp>2024-05-01T12:00:00Z</timestamp>\n"
        "      <contributor>\n        <username>Someone</username>\n        <id>7</id>\n      </contributor>\n"
        "      <comment>a comment</comment>\n      <model>wikitext</model>\n"
        f'      <text bytes="{len(text.encode())}" xml:space="preserve">{escape(text)}</text>\n    </revision>\n'
    )


def write_dump(path: Path, pages: Iterable[Page], *, streams_of: int | None = None) -> Path:
    """Write a dump; the ending chooses the compression.

    ``streams_of`` makes a multistream file: head, then so many pages, then the tail, each a stream of its own.
    """
    texts = [page_xml(page, number) for number, page in enumerate(pages, start=1)]
    if streams_of is not None:
        blocks = ["".join(texts[start : start + streams_of]) for start in range(0, len(texts), streams_of)]
        path.write_bytes(b"".join(bz2.compress(block.encode()) for block in (HEAD, *blocks, TAIL)))
    else:
        packed: Any = {".bz2": bz2.compress, ".gz": gzip.compress}.get(path.suffix, bytes)
        path.write_bytes(packed("".join([HEAD, *texts, TAIL]).encode()))
    return path


def articles(count: int, *, paragraphs: int = 8) -> Iterator[Page]:
    """Made-up articles with the markup real ones have, about 900 characters a paragraph; every seventh page is none."""
    rng = random.Random(1)
    letters = "bacedifoguhakilemonuparisotavuwy"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 8))) for _ in range(2_000)]

    def words(n: int) -> str:
        return " ".join(rng.choices(vocabulary, k=n))

    for number in range(count):
        title = f"{words(2).capitalize()} {number}"
        if number % 7 == 3:
            yield Page(title=title, text="#REDIRECT [[Elsewhere]]", redirect="Elsewhere")
            continue
        parts = [
            f"{{{{Short description|{words(4)}}}}}\n{{{{Infobox place\n| name = {title}\n",
            *(f"| {words(1)} = {words(3)}{{{{small|({rng.random():.3f})}}}}\n" for _ in range(8)),
            f"}}}}\n[[File:{title}.jpg|thumb|The [[{words(1)}]] of {title}]]\n'''{title}''' ({{{{lang|la|x}}}}) is ",
        ]
        for paragraph in range(paragraphs):
            parts += [f"\n== {words(1).capitalize()} ==\n"] if paragraph % 3 == 2 else []
            parts += [
                f"{words(9)} [[{words(1)}]] [[{words(1)}|{words(2)}]] ''{words(1)}'' {rng.randint(2, 99)}&nbsp;km."
                f"<ref>{{{{cite web|url=https://{words(1)}.example|title={words(5)}|date=2020}}}}</ref> "
                for _ in range(5)
            ]
            parts.append("\n\n")
        parts.append('{| class="wikitable"\n! a !! b\n|-\n| c || d\n|}\n\n== References ==\n{{Reflist}}\n')
        parts.append(f"* [[{words(2)}]]\n[[Category:{words(1)}]]\n")
        yield Page(title=title, text="".join(parts))
