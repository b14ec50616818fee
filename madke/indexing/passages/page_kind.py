"""Which pages of a wiki are articles: redirects, disambiguation pages and lists are none."""

from __future__ import annotations

import re
from typing import Literal

PageKind = Literal["article", "redirect", "disambiguation", "list"]

_REDIRECT = re.compile(
    r"\s*+#\s*+(?:redirect(?:ion)?|weiterleitung|redirección|rinvia|redirecionamento|doorverwijzing|patrz|"
    r"перенаправление|перенаправлення|omdirigering|yönlendirme|転送|重定向|넘겨주기|تحويل)\s*:?\s*\[\[",
    re.IGNORECASE,
)
_AMBIGUOUS = (
    r"disambig(?:uation|ua)?|disamb|homonymie|begriffsklärung|desambiguaci[oó]n|desambiguação|doorverwijspagina|"
    r"ujednoznacznienie|неоднозначность|багатозначність|förgrening|anlam ayr\u0131m\u0131|"
    r"曖昧さ回避|消歧义|消歧義|동음이의|توضيح"
)
# Templates of the English Wikipedia are called "... disambiguation"; "disambiguation needed" marks a link, not a page.
_DISAMBIGUATION = re.compile(
    rf"\{{\{{\s*+(?:(?:[^{{}}|\n<]{{1,40}}[ -])?(?:{_AMBIGUOUS})(?![^{{}}|\n]{{0,3}}(?:needed|link))(?:[ -]cleanup)?|"
    r"dab|hndis|geodis|mil-unit-dis|numberdis|schooldis|hospitaldis|roaddis|dp|aimai)\s*(?:\||\}\})"
    r"|__DISAMBIG__",
    re.IGNORECASE,
)
_AMBIGUOUS_TITLE = re.compile(rf"\((?:{_AMBIGUOUS})(?: page)?\)\Z", re.IGNORECASE)
_LIST_TITLE = re.compile(r"Lists? of .|Outline of .|Index of .*\barticles\b")


def page_kind(title: str, wikitext: str) -> PageKind:
    """What a page of the article namespace is, by its title and its templates.

    Lists, outlines and indices are left out as DrQA does, whose pages DPR split; but of titles with "Index of" only
    the indices of articles: the index of refraction is a subject.
    """
    if _REDIRECT.match(wikitext):
        return "redirect"
    if _AMBIGUOUS_TITLE.search(title) or _DISAMBIGUATION.search(wikitext):
        return "disambiguation"
    if _LIST_TITLE.match(title):
        return "list"
    return "article"
