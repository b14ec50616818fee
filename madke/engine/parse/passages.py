"""Read which passages a reply selects, ranks, cites and quotes, and what it wants to search for."""

import re
from collections.abc import Collection, Container, Iterator
from itertools import pairwise
from operator import eq
from typing import NamedTuple

from madke.core.transcript import Selection
from madke.engine.parse.context import (
    MOST,
    NEAR,
    NO_CONTEXT,
    OTHER_SPEAKER,
    WINDOW,
    Conclusion,
    ParseContext,
    Parsed,
    nothing,
    outermost,
    parsed_at,
    sentences,
    settle,
    text_before,
)
from madke.engine.parse.markers import ID_LIST, IDS, NUMBERS, is_placeholder
from madke.engine.parse.own_words import gives_back, unquoted, windowed

_MARKER = re.compile(rf"\[([^\[\]\n]{{1,80}})\]|\b(?=[kpeids])({IDS})", re.IGNORECASE)
_ASKED_LINE = re.compile(
    r"^[^\w\n]{0,9}(?:(?:my|the|final)\s+){0,2}select(?:ed|ions?)\b[^:\n]{0,40}:[*_]*\s{0,9}([^\n]*)", re.I | re.M
)
_IDS_ONLY = re.compile(rf"\W*{IDS}\W*", re.IGNORECASE)
_BRACKETS = str.maketrans("[]()\"'*", "       ")
_NO_FOUND = re.compile(
    r"\[\W{0,9}no(?:t|ne)?\s{0,9}found\W{0,9}\]"
    r"|^[^\w\n]{0,9}(?:select\w{0,4}\W{1,9})?(?:no(?:t|ne)?\s+found|none)[^\w\n]{0,9}$"
    r"|\bi\s+do(?:\s+not|n['’]t)\s+need\s+(?:any\s+)?(?:of\s+the\s+)?(?:knowledge|passages?)\b"  # noqa: RUF001
    r"|\bno\s+(?:knowledge|passages?)\s+(?:(?:is|are)\s+)?(?:needed|helpful|relevant)\b",
    re.IGNORECASE | re.MULTILINE,
)
_REPORTED = re.compile(
    r"(?:passage|knowledge|document|entry|source|text|it|which|that)\W+(?:\[?\d{1,4}\]?\W+)?"
    r"(?:contains?|says?|states?|mentions?|reads|holds|has|writes|with)\W{1,9}(?:\w+\W{1,3}){0,3}\Z"
    rf"|(?:{OTHER_SPEAKER}|\b(?:not|n['’]t))[^.!?\n]{{0,60}}\Z",  # noqa: RUF001
    re.IGNORECASE,
)
"""Words before a marker that only reports what another says, or that is denied."""
_CLAUSE_END = re.compile(r";\s|,\s+(?!(?:(?:and|or)\s+)?(?:\w+\s+)?[\[\d])|\b(?:but|while|whereas|although)\b", re.I)
_USELESS = re.compile(
    r"(?:\b(?:does|did|do|would)\s+not|n['’]t|\bneither|\bnor)(?!.{0,100}\bwithout)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|say|state|give|cover|relate|support|need|pick|choose|select|write|\[)"
    r"|\b(?:not|n['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\[\W{0,9}no(?:t|ne)?\s+found\b|\b(?:irrelevant|unrelated|unhelpful|useless|ignore|ignored|ignoring)\b|\babout\s+(?:something|someone|an?other)\b",
    re.IGNORECASE,
)
_Named = tuple[list[int], tuple[int, int]]


def parse_selection(
    text: str,
    *,
    size: int,
    limit: int,
    shown: Container[int] | None = None,
    context: ParseContext = NO_CONTEXT,
) -> Parsed[Selection]:
    """The pool numbers that a reply selects, among those ``shown`` (None: all) of a pool of ``size`` passages.

    Up to ``limit`` distinct numbers: those of the line "Selected: ..." or of a last line with only numbers (rule
    ``selected``); else those of all sentences (``ids``), except in clauses that reject passages. If there are too many,
    those of the concluding sentence (``concluding``), else the first ones (``first``); the others are ``dropped``. If
    there is no such line, and the text also declines all knowledge (``no_found``), the later statement counts.
    """
    parsed = _selection(text, size=size, limit=limit, shown=shown, context=context)
    is_requested = parsed.rule in ("selected", "no_found")
    return nothing(Selection(), "copy") if not is_requested and gives_back(text, context) else parsed


def _selected(
    text: str, *, size: int, limit: int, shown: Container[int] | None, context: ParseContext
) -> Parsed[Selection]:
    text = unquoted(text)
    valid = [n for n in range(size) if shown is None or n in shown]
    named = list(_in_sentences(text, valid))
    asked = _on_asked_lines(text, valid)
    settled = settle(text, [Conclusion(value=ids, span=span, rule="selected") for ids, span in asked], _same_ids, [])
    if settled is not None and settled.span is None:
        return nothing(Selection(), "contradictory")
    line = [(settled.value, settled.span)] if settled is not None and settled.span else []
    counted, rule = (line, "selected") if line else (named, "ids")
    # What stands after the requested line is a remark.
    until = line[-1][1][1] if line else len(text)
    start = text.rfind("\n", 0, line[-1][1][0]) + 1 if line else 0
    declined = [one.span() for one in _NO_FOUND.finditer(text, start, until) if not _REPORTED.search(*_lead(text, one))]
    if declined and not (counted and counted[-1][0] and counted[-1][1] > declined[-1]):
        return parsed_at(Selection(), "no_found", declined[-1])
    if not counted:
        return nothing(Selection())
    mentioned = list(dict.fromkeys(n for ids, _ in counted for n in ids))
    chosen, (concluding, last) = mentioned[:limit], counted[-1]
    if len(mentioned) > limit:
        chosen, rule = (concluding[:limit], "concluding") if len(counted) > 1 else (chosen, "first")
    dropped = tuple(dict.fromkeys(n for ids, _ in [*line, *named] for n in ids if n not in chosen))
    return parsed_at(Selection(ids=tuple(chosen), dropped=dropped), rule, last)


_selection = windowed(_selected, sources=False)


def _same_ids(one: list[int], other: list[int]) -> bool:
    return set(one) == set(other)


def _lead(text: str, marker: re.Match[str]) -> tuple[str, int]:
    """The text before a marker, and where its line or the last part of it begins."""
    start = max(text.rfind("\n", 0, marker.start()) + 1, marker.start() - NEAR)
    return text[: marker.start()], start


def _on_asked_lines(text: str, valid: Container[int]) -> list[_Named]:
    """The numbers of each line in the requested form, or of a last line with only numbers, bracketed or not."""
    lines = [line.span(1) for line in _ASKED_LINE.finditer(text)]
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    if not lines and end - start <= NEAR and _IDS_ONLY.fullmatch(text[start:end].translate(_BRACKETS)):
        lines = [(start, end)]
    found = []
    for start, end in lines:
        declines = _NO_FOUND.match(text, start, end) or re.match(r"\W*none\b", text[start:end], re.IGNORECASE)
        ids = [] if declines else _numbers(text[start : min(end, start + NEAR)], valid)
        found += [(ids, (start, end))] if ids or declines else []
    return found


def _in_sentences(text: str, valid: Container[int]) -> Iterator[_Named]:
    for start, end in sentences(text):
        cuts = [start, *(cut.end() for cut in _CLAUSE_END.finditer(text, start, end)), end]
        clauses = [clause for clause in pairwise(cuts) if not _USELESS.search(text, *clause)]
        markers = [marker for clause in clauses for marker in _MARKER.finditer(text, *clause)]
        named = [marker for marker in markers if ID_LIST.fullmatch((marker[1] or "0").translate(_BRACKETS).strip())]
        if ids := list(dict.fromkeys(n for marker in named for n in _numbers(marker[0], valid))):
            yield ids, named[-1].span()


def _numbers(content: str, valid: Container[int]) -> list[int]:
    ends = ((int(first), int(last or first)) for first, last in NUMBERS.findall(content))
    return list(dict.fromkeys(n for low, high in ends for n in range(low, min(high, low + NEAR) + 1) if n in valid))


_SEARCH = re.compile(r"\s*search\s*:\s*", re.IGNORECASE)
_LONGEST_QUERY = 300


@windowed
def parse_searches(text: str, *, limit: int, context: ParseContext = NO_CONTEXT) -> Parsed[tuple[str, ...]]:
    """The last ``limit`` distinct queries ``[Search: query]`` of a reply, in its order, each cut to 300 characters."""
    found = list(_searches(unquoted(text)))
    # The requested form is a line of its own.
    queries = list(dict.fromkeys([query for query, has_line in found if has_line] or [query for query, _ in found]))[
        :limit
    ]
    return parsed_at(tuple(reversed(queries)), "marker", (0, len(text))) if queries else nothing(())


def _searches(text: str) -> Iterator[tuple[str, bool]]:
    """Each ``[Search: query]``, the last one first, and whether it begins a line."""
    for start, end in reversed(outermost(text)):
        marker = _SEARCH.match(text, start + 1, end - 1)
        query = " ".join(text[marker.end() : end - 1].split()).strip("\"'") if marker else ""
        if not is_placeholder(query):
            before = text[text.rfind("\n", 0, start) + 1 : start]
            begins_line = not re.search(r"\w", re.sub(r"\[[^\[\]]*\]", "", before))
            yield query[:_LONGEST_QUERY].rstrip(), begins_line


def _paragraph_end(text: str, start: int) -> int:
    end = text.find("\n\n", start, start + NEAR * NEAR)
    return min(len(text), start + NEAR * NEAR) if end < 0 else end


_RANKING = re.compile(r"^[^\w\n]{0,9}(?:(?:my|the|final)\s+){0,2}ranking\b[^:\n]{0,40}:", re.IGNORECASE | re.MULTILINE)
_RANKED = re.compile(r"\[\s{0,9}(\d{1,4})\s{0,9}\]")


@windowed
def parse_ranking(text: str, *, size: int, context: ParseContext = NO_CONTEXT) -> Parsed[tuple[int, ...]]:
    """The numbers 0 to ``size - 1`` in the order of a reply's last "Ranking: [2] > [0] > [1]".

    Rule ``ranking`` if they are a permutation. Otherwise ``repaired``: unknown and repeated numbers are dropped, and
    missing ones follow in ascending order.
    """
    text = unquoted(text)
    lines = [(line.end(), "final" in line[0].lower()) for line in _RANKING.finditer(text)][-MOST:]
    found = [
        Conclusion(value=[int(n) for n in numbers], span=(start, len(text)), rule="ranking", is_final=is_final)
        for start, is_final in lines
        for numbers in [_RANKED.findall(text, start, _paragraph_end(text, start))]
        if any(int(n) < size for n in numbers)
    ]
    settled = settle(text, found, eq, [])
    if settled is None or settled.span is None:
        return nothing((), "none" if settled is None else "contradictory")
    listed = settled.value
    valid = [n for n in dict.fromkeys(listed) if n < size]
    missing = (n for n in range(size) if n not in set(valid))
    rule = "ranking" if len(listed) == len(valid) == size else "repaired"
    return parsed_at((*valid, *missing), rule, settled.span)


_SPAN = re.compile(
    '["\u201c\u201d](?P<double>[^"\u201c\u201d\n]{1,2000})["\u201d\u201c]|\u201e(?P<low>[^\u201e\u201c\u201d\n]{1,2000})[\u201c\u201d]'
    "|\u00ab(?P<angle>[^\u00ab\u00bb\n]{1,2000})\u00bb|\u300c(?P<corner>[^\u300c\u300d\n]{1,2000})\u300d"
)
_AFTER = re.compile(
    rf"[\s.,;:)]{{0,4}}(?:[(\[]\s*(?:[a-z]{{1,9}}\s+){{0,2}})?(?P<ids>\[[^\[\]\n]{{1,40}}\]|{IDS})", re.I
)
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,40})\]|\b(?:passage|knowledge|document|source)s?\s+\[?(\d{1,4})\b", re.I)
_QUOTED_LINE = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)
_MOST = 20
"""Quotes of one reply that are read."""


class Quoted(NamedTuple):
    """A text in quotation marks."""

    text: str
    passage: int | None
    """The number that stands next to it, shown or not; None if there is none."""


def parse_quotes(text: str) -> list[Quoted]:
    """The texts in quotation marks, each with the number of the passage that stands after it or before it.

    Lines that begin with ``>`` quote other debaters, and are left out.
    """
    text = _QUOTED_LINE.sub(lambda line: " " * len(line[0]), text[-WINDOW:])
    spans = list(_SPAN.finditer(text))[:_MOST]
    return [Quoted(_content(span), _passage(text, span)) for span in spans]


def _content(span: re.Match[str]) -> str:
    return next(group for group in span.groups() if group is not None).strip()


def _passage(text: str, span: re.Match[str]) -> int | None:
    if after := _AFTER.match(text, span.end()):
        return _first(after["ids"])
    near = text_before(text, span.start())
    lead = near[max(start for start, _ in sentences(near)) :]
    named = list(_BRACKETED.finditer(lead))
    for marker in reversed(named):
        if (number := _first(marker[1] or marker[2])) is not None:
            return number
    rest = text[span.end() : span.end() + NEAR].split("\n", 1)[0].split(". ", 1)[0]
    following = _BRACKETED.search(rest)
    return _first(following[1] or following[2]) if following else None


def _first(ids: str) -> int | None:
    number = NUMBERS.search(ids)
    return int(number[1]) if number and re.fullmatch(rf"[\[(]?\s*{IDS}\s*[\])]?", ids.strip(), re.I) else None


_CITED_IDS = re.compile(rf"\[(\s*{IDS}\s*)\]", re.IGNORECASE)


def parse_citations(text: str, shown: Collection[int]) -> tuple[int, ...]:
    """The numbers in square brackets that name passages, in order of mention; only those that were ``shown``."""
    text = _QUOTED_LINE.sub("", text[-WINDOW:])
    named = (
        int(n) for ids in _CITED_IDS.findall(text) for first, last in NUMBERS.findall(ids) for n in _range(first, last)
    )
    return tuple(n for n in dict.fromkeys(named) if n in shown)


def _range(first: str, last: str) -> range:
    return range(int(first), min(int(last or first), int(first) + NEAR) + 1)
