"""Parse the pool numbers that a reply selects."""

import re
from collections.abc import Container, Iterator
from itertools import pairwise

from madke.core.transcript import Selection
from madke.engine.parse.context import NEAR, Parsed, is_placeholder, nothing, outermost, parsed_at, sentences, windowed
from madke.engine.parse.echo import NOTHING_ASKED, Asked
from madke.engine.parse.forms import ID_LIST, IDS, NUMBERS
from madke.engine.parse.quotation import unquoted

_LONGEST_QUERY = 300
_SEARCH = re.compile(r"\s*search\s*:\s*", re.IGNORECASE)
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
_IS_REPORTED = re.compile(
    r"(?:passage|knowledge|document|entry|source|text|it|which|that)\W+(?:\[?\d{1,4}\]?\W+)?"
    r"(?:contains?|says?|states?|mentions?|reads|holds|has|writes|with)\W{1,9}(?:\w+\W{1,3}){0,3}\Z",
    re.IGNORECASE,
)
"""Words before a marker that only reports what a passage says."""
_CLAUSE_END = re.compile(r";\s|,\s+(?!(?:(?:and|or)\s+)?(?:\w+\s+)?[\[\d])|\b(?:but|while|whereas|although)\b", re.I)
_USELESS = re.compile(
    r"(?:\b(?:does|did|do|would)\s+not|n['’]t|\bneither|\bnor)(?!.{0,100}\bwithout)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|say|state|give|cover|relate|support|need|pick|choose|select|\[)"
    r"|\b(?:not|n['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\[\W{0,9}no(?:t|ne)?\s+found\b|\b(?:irrelevant|unrelated|unhelpful|useless|ignore|ignored|ignoring)\b|\babout\s+(?:something|someone|an?other)\b",
    re.IGNORECASE,
)


@windowed
def parse_selection(
    text: str,
    *,
    size: int,
    limit: int,
    shown: Container[int] | None = None,
    asked: Asked = NOTHING_ASKED,
) -> Parsed[Selection]:
    """The pool numbers that a reply selects, among those ``shown`` (None: all) of a pool of ``size`` passages.

    Up to ``limit`` distinct numbers: those of the line "Selected: ..." or of a last line with only numbers (rule
    ``selected``); else those of all sentences (``ids``), except in clauses that reject passages. If there are too many,
    those of the concluding sentence (``concluding``), else the first ones (``first``); the others are ``dropped``. If
    there is no such line, and the text also declines all knowledge (``no_found``), the later statement counts.
    """
    text = unquoted(text)
    valid = [n for n in range(size) if shown is None or n in shown]
    line, named = _on_asked_line(text, valid), list(_in_sentences(text, valid))
    counted, rule = (line, "selected") if line else (named, "ids")
    # What stands after the requested line is a remark.
    until = line[-1][1][1] if line else len(text)
    declined = [one.span() for one in _NO_FOUND.finditer(text, 0, until) if not _IS_REPORTED.search(*_lead(text, one))]
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


def _lead(text: str, marker: re.Match[str]) -> tuple[str, int]:
    """The text before a marker, and where its line or the last part of it begins."""
    start = max(text.rfind("\n", 0, marker.start()) + 1, marker.start() - NEAR)
    return text[: marker.start()], start


_Named = tuple[list[int], tuple[int, int]]


def _on_asked_line(text: str, valid: Container[int]) -> list[_Named]:
    """The numbers of the last line in the requested form, or of a last line with only numbers, bracketed or not."""
    lines = [line.span(1) for line in _ASKED_LINE.finditer(text)]
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    if not lines and end - start <= NEAR and _IDS_ONLY.fullmatch(text[start:end].translate(_BRACKETS)):
        lines = [(start, end)]
    if not lines:
        return []
    start, end = lines[-1]
    declines = _NO_FOUND.match(text, start, end)
    ids = [] if declines else _numbers(text[start : min(end, start + NEAR)], valid)
    return [(ids, (start, end))] if ids or declines else []


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


@windowed
def parse_searches(text: str, *, limit: int, asked: Asked = NOTHING_ASKED) -> Parsed[tuple[str, ...]]:
    """The last ``limit`` distinct queries ``[Search: query]`` of a reply, in its order, each cut to 300 characters."""
    queries = list(dict.fromkeys(_searches(unquoted(text))))[:limit]
    return parsed_at(tuple(reversed(queries)), "marker", (0, len(text))) if queries else nothing(())


def _searches(text: str) -> Iterator[str]:
    """Each ``[Search: query]``, the last one first."""
    for start, end in reversed(outermost(text)):
        marker = _SEARCH.match(text, start + 1, end - 1)
        query = " ".join(text[marker.end() : end - 1].split()).strip("\"'") if marker else ""
        if not is_placeholder(query):
            yield query[:_LONGEST_QUERY].rstrip()


_RANKING = re.compile(r"^[^\w\n]{0,9}(?:(?:my|the|final)\s+){0,2}ranking\b[^:\n]{0,40}:", re.IGNORECASE | re.MULTILINE)


@windowed
def parse_ranking(text: str, *, size: int, asked: Asked = NOTHING_ASKED) -> Parsed[tuple[int, ...]]:
    """The numbers 0 to ``size - 1`` in the order of a reply's last "Ranking: [2] > [0] > [1]".

    Rule ``ranking`` if they are a permutation. Otherwise ``repaired``: unknown and repeated numbers are dropped, and
    missing ones follow in ascending order.
    """
    text = unquoted(text)
    starts = [line.end() for line in _RANKING.finditer(text)]
    listed = [int(n) for n in _RANKED.findall(text, starts[-1])] if starts else []
    valid = [n for n in dict.fromkeys(listed) if n < size]
    if not valid:
        return nothing(())
    missing = (n for n in range(size) if n not in set(valid))
    rule = "ranking" if len(listed) == len(valid) == size else "repaired"
    return parsed_at((*valid, *missing), rule, (starts[-1], len(text)))


_RANKED = re.compile(r"\[\s{0,9}(\d{1,4})\s{0,9}\]")
