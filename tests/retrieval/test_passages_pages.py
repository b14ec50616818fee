"""Reading a dump's pages, and telling articles from what is none."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.retrieval.passages.raw_pages import page_kind, read_dump
from tests.support.dump import Page, articles, write_dump

PAGES = [
    Page(title="Lake & <sea>", text="A lake, größer als ein See: «озеро».", earlier="An old text."),
    Page(title="Old lake", text="#REDIRECT [[Lake]]", redirect="Lake"),
    Page(title="Diskussion:Lake", text="Talk.", namespace=1),
    Page(title="Empty", text=""),
]


@pytest.mark.parametrize("name", ["d.xml", "d.xml.gz", "d.xml.bz2"])
def test_pages_come_with_their_latest_revision(name: str, tmp_path: Path) -> None:
    pages = list(read_dump(write_dump(tmp_path / name, PAGES)))

    assert [(p.page_id, p.title, p.namespace, p.redirect, p.revision, p.text) for p in pages] == [
        ("1", "Lake & <sea>", 0, False, "1001", "A lake, größer als ein See: «озеро»."),
        ("2", "Old lake", 0, True, "2000", "#REDIRECT [[Lake]]"),
        ("3", "Diskussion:Lake", 1, False, "3000", "Talk."),
        ("4", "Empty", 0, False, "4000", ""),
    ]


def test_a_dump_that_is_cut_off_says_after_which_page(tmp_path: Path) -> None:
    whole = write_dump(tmp_path / "whole.xml.bz2", articles(30), streams_of=10).read_bytes()
    (tmp_path / "d.xml.bz2").write_bytes(whole[: len(whole) * 2 // 3])

    with pytest.raises(
        UserError, match=r"d\.xml\.bz2: the dump is truncated after page \d+ \('.+'\); download it again"
    ):
        list(read_dump(tmp_path / "d.xml.bz2"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain text", "not a Wikipedia XML dump, or damaged: syntax error"),
        (b"<html><body/></html>", "expected the XML element <mediawiki>, found <html>"),
        (b"<mediawiki><page></page></mediawiki>", "siteinfo"),
        (b"", "not a Wikipedia XML dump, or damaged: no element found"),
    ],
)
def test_what_is_no_dump_is_said(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "d.xml.bz2").write_bytes(bz2.compress(content))

    with pytest.raises(UserError, match=message):
        list(read_dump(tmp_path / "d.xml.bz2"))


@pytest.mark.parametrize(
    ("title", "text", "kind"),
    [
        ("Lake", "A lake.", "article"),
        ("Lake", "#REDIRECT [[Sea]]", "redirect"),
        ("See", "#WEITERLEITUNG [[Meer]]", "redirect"),
        ("Jezioro", "# patrz: [[Morze]]", "redirect"),
        ("Lake (disambiguation)", "", "disambiguation"),
        ("Lac (homonymie)", "", "disambiguation"),
        ("Lake", "* [[A]]\n{{disambig}}", "disambiguation"),
        ("Lake", "{{Disambiguation|geo|surname}}", "disambiguation"),
        ("Lake", "{{ hndis |Lake, A}}", "disambiguation"),
        ("Lake", "{{School disambiguation}}", "disambiguation"),
        ("See", "{{Begriffsklärung}}", "disambiguation"),
        ("Lake", "of a [[lake]]{{disambiguation needed|date=May 2020}}", "article"),
        ("Lake", "{{Other uses|Lake (disambiguation)}} A lake.", "article"),
        ("List of lakes", "text", "list"),
        ("Lists of lakes", "text", "list"),
        ("Outline of hydrology", "text", "list"),
        ("Index of hydrology articles", "text", "list"),
        ("Index of refraction", "text", "article"),
        ("Listening", "text", "article"),
    ],
)
def test_what_is_no_article(title: str, text: str, kind: str) -> None:
    assert page_kind(title, text) == kind
