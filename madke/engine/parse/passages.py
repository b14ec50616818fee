"""Read which passages a reply selects, ranks, cites and quotes, and what it wants to search for."""

import re
from collections.abc import Collection, Container, Iterator
from itertools import pairwise
from typing import NamedTuple

from madke.core.transcript import Selection
from madke.engine.parse.grammar import (
    MOST,
    NEAR,
    Mark,
    Parsed,
    has_word,
    is_placeholder,
    last_sentence,
    lead,
    line_before,
    nothing,
    outermost,
    pairs,
    parsed_at,
    sentences,
    settle,
    states,
    text_before,
)
from madke.engine.parse.reply import NO_CONTEXT, WINDOW, ParseContext, Reply, gives_back, reading

_PASSAGE = r"(?:(?:knowledge|passage|entry|entrie|item|document|doc|source|snippet|no)s?\.?\s{0,9})"
_JOIN = r"\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?"  # noqa: RUF001
IDS = rf"{_PASSAGE}?[#(]?\d{{1,4}}\)?(?:{_JOIN}{_PASSAGE}?[#(]?\d{{1,4}}\)?)*"
_ID_LIST = re.compile(rf"\W*{IDS}\W*", re.IGNORECASE)
_NUMBERS = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001
_BRACKETS = str.maketrans("[]()\"'*", "       ")
_QUOTED_LINE = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)


def ids_of(content: str) -> list[int]:
    """The numbers that a text lists, in order: "2", "[1, 3]", "passages 4-6"; none if it says anything else."""
    bare = content.translate(_BRACKETS) if len(content) <= NEAR else ""
    return _numbers(bare) if _ID_LIST.fullmatch(bare) else []


def _numbers(text: str) -> list[int]:
    ends = ((int(first), int(last or first)) for first, last in _NUMBERS.findall(text))
    return list(dict.fromkeys(n for low, high in ends for n in range(low, min(high, low + NEAR) + 1)))


# Selections.

_MARKER = re.compile(rf"\[[^\[\]\n]{{1,80}}\]|\b(?=[kpeids]){IDS}", re.IGNORECASE)
_ASKED_LINE = re.compile(
    r"^[^\w\n]{0,9}(?:(?:my|the|final)\s+){0,2}select(?:ed|ions?)\b[^:\n]{0,40}:[*_]*\s{0,9}([^\n]*)", re.I | re.M
)
_NO_FOUND = re.compile(
    r"\[\W{0,9}no(?:t|ne)?\s{0,9}found\W{0,9}\]|^[^\w\n]{0,9}(?:no(?:t|ne)?\s+found|none)[^\w\n]{0,9}$"
    r"|\bi\s+do(?:\s+not|n['’]t)\s+need\s+(?:any\s+)?(?:of\s+the\s+)?(?:knowledge|passages?)\b"  # noqa: RUF001
    r"|\bno\s+(?:knowledge|passages?)\s+(?:(?:is|are)\s+)?(?:needed|helpful|relevant)\b",
    re.IGNORECASE | re.MULTILINE,
)
_DECLINES = re.compile(r"\W*(?:none|no(?:t|ne)?\s+found)\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r";\s|,\s+(?!(?:(?:and|or)\s+)?(?:\w+\s+)?[\[\d])|\b(?:but|while|whereas|although)\b", re.I)
_USELESS = re.compile(
    r"(?:\b(?:does|did|do|would)\s+not|n['’]t|\bneither|\bnor)(?!.{0,100}\bwithout)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:help|mention|contain|provide|answer|address|say|state|give|cover|relate|support|need|pick|choose|select|\[)"
    r"|\b(?:not|n['’]t)\s+(?:\w+\s+){0,2}?(?:relevant|helpful|useful|related|needed|about)\b"  # noqa: RUF001
    r"|\b(?:irrelevant|unrelated|unhelpful|useless|ignor(?:e|ed|ing))\b|\babout\s+(?:something|someone|an?other)\b",
    re.IGNORECASE,
)


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
    ``selected``), or none if the line declines (``no_found``). Without such a line, those of all sentences (``ids``),
    except in clauses that reject passages, unless the text declines all knowledge after them. If there are too many,
    those of the concluding sentence (``concluding``), else the first ones (``first``); the others are ``dropped``.
    """
    parsed = _selection(text, size=size, limit=limit, shown=shown, context=context)
    is_requested = parsed.rule in ("selected", "no_found")
    return nothing(Selection(), "copy") if not is_requested and gives_back(text, context) else parsed


@reading(sources=False)
def _selection(
    reply: Reply, *, size: int, limit: int, shown: Container[int] | None, context: ParseContext
) -> Parsed[Selection]:
    text = reply.text
    valid = [n for n in range(size) if shown is None or n in shown]
    named = list(_in_sentences(text, valid))
    settled = settle(text, list(_on_asked_lines(text, valid)), _same_ids)
    if settled is not None and settled.span is None:
        return nothing(Selection(), "contradictory")
    if settled is not None and settled.value and settled.span:
        counted, rule = [(settled.value, settled.span)], "selected"
    elif settled is not None and settled.span:
        return parsed_at(Selection(), "no_found", settled.span)
    else:
        counted, rule = named, "ids"
        declined = [one.span() for one in _NO_FOUND.finditer(text)]
        if declined and not (named and named[-1][1] > declined[-1]):
            return parsed_at(Selection(), "no_found", declined[-1])
    if not counted:
        return nothing(Selection())
    mentioned = list(dict.fromkeys(n for ids, _ in counted for n in ids))
    chosen, (concluding, last) = mentioned[:limit], counted[-1]
    if len(mentioned) > limit:
        chosen, rule = (concluding[:limit], "concluding") if len(counted) > 1 else (chosen, "first")
    dropped = tuple(dict.fromkeys(n for ids, _ in [*counted, *named] for n in ids if n not in chosen))
    return parsed_at(Selection(ids=tuple(chosen), dropped=dropped), rule, last)


def _same_ids(one: list[int] | None, other: list[int] | None) -> bool:
    return set(one or ()) == set(other or ())


def _on_asked_lines(text: str, valid: Container[int]) -> Iterator[Mark[list[int]]]:
    """The numbers of each line in the requested form, or of a last line with only numbers; none if it declines."""
    lines = [line.span(1) for line in _ASKED_LINE.finditer(text)]
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    if not lines and ids_of(text[start:end]):
        lines = [(start, end)]
    for start, end in lines:
        declines = _DECLINES.match(text, start, end)
        ids = [] if declines else [n for n in _numbers(text[start : min(end, start + NEAR)]) if n in valid]
        if ids or declines:
            yield Mark(value=ids, span=(start, end), rule="selected")


def _in_sentences(text: str, valid: Container[int]) -> Iterator[tuple[list[int], tuple[int, int]]]:
    for start, end in sentences(text):
        cuts = [start, *(cut.end() for cut in _CLAUSE_END.finditer(text, start, end)), end]
        clauses = [clause for clause in pairwise(cuts) if not _USELESS.search(text, *clause)]
        markers = [marker for clause in clauses for marker in _MARKER.finditer(text, *clause)]
        named = [(marker, n) for marker in markers for n in ids_of(marker[0]) if n in valid]
        if named:
            yield list(dict.fromkeys(n for _, n in named)), named[-1][0].span()


# Searches and rankings.

_SEARCH = re.compile(r"\s*search\s*:\s*", re.IGNORECASE)
_LONGEST_QUERY = 300


@reading()
def parse_searches(reply: Reply, *, limit: int, context: ParseContext = NO_CONTEXT) -> Parsed[tuple[str, ...]]:
    """The last ``limit`` distinct queries ``[Search: query]`` of a reply, in its order, each cut to 300 characters."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for start, end in reversed(outermost(reply.text)):
        marker = _SEARCH.match(reply.text, start + 1, end - 1)
        query = " ".join(reply.text[marker.end() : end - 1].split()).strip("\"'") if marker else ""
        if not is_placeholder(query):
            before = re.sub(r"\[[^\[\]]*\]", "", line_before(reply.text, start))
            found[not has_word(before)].append(query[:_LONGEST_QUERY].rstrip())
    # The requested form is a line of its own.
    queries = list(dict.fromkeys(found[True] or found[False]))[:limit]
    return parsed_at(tuple(reversed(queries)), "marker", (0, len(reply.text))) if queries else nothing(())


# Quotes and citations.

_SPAN = re.compile(
    '["\u201c\u201d](?P<double>[^"\u201c\u201d\n]{1,2000})["\u201d\u201c]|\u201e(?P<low>[^\u201e\u201c\u201d\n]{1,2000})[\u201c\u201d]'
    "|\u00ab(?P<angle>[^\u00ab\u00bb\n]{1,2000})\u00bb|\u300c(?P<corner>[^\u300c\u300d\n]{1,2000})\u300d"
)
_AFTER = re.compile(
    rf"[\s.,;:)]{{0,4}}(?:[(\[]\s*(?:[a-z]{{1,9}}\s+){{0,2}})?(?P<ids>\[[^\[\]\n]{{1,40}}\]|{IDS})", re.I
)
_NUMBERED = re.compile(r"\[[^\[\]\n]{1,40}\]|\b(?:passage|knowledge|document|source)s?\s+\[?\d{1,4}\b", re.I)
_MOST_QUOTES = 20


class Quoted(NamedTuple):
    """A text in quotation marks."""

    text: str
    passage: int | None
    """The number that stands next to it, shown or not; None if there is none."""


def parse_quotes(text: str) -> list[Quoted]:
    """The first 20 texts in quotation marks, each with the number of the passage that stands after it or before it.

    Lines that begin with ``>`` quote other debaters, and are left out.
    """
    text = _QUOTED_LINE.sub(lambda line: " " * len(line[0]), text[-WINDOW:])
    spans = list(_SPAN.finditer(text))[:_MOST_QUOTES]
    return [Quoted(span[span.lastgroup or 0].strip(), _passage(text, span)) for span in spans]


def _passage(text: str, span: re.Match[str]) -> int | None:
    if after := _AFTER.match(text, span.end()):
        return next(iter(ids_of(after["ids"])), None)
    rest = text[span.end() : span.end() + NEAR].split("\n", 1)[0].split(". ", 1)[0]
    near = [*reversed(_NUMBERED.findall(lead(text, span.start()))), *_NUMBERED.findall(rest)[:1]]
    return next((ids[0] for marker in near if (ids := ids_of(marker))), None)


def parse_citations(text: str, shown: Collection[int]) -> tuple[int, ...]:
    """The numbers in square brackets that name passages, in order of mention; only those that were ``shown``."""
    brackets = re.findall(r"\[[^\[\]\n]{1,80}\]", _QUOTED_LINE.sub("", text[-WINDOW:]))
    return tuple(n for n in dict.fromkeys(n for bracket in brackets for n in ids_of(bracket)) if n in shown)


_FOLLOWS_SENTENCE = re.compile(r"[.!?](?:\s*\[[\d, -]{1,20}\])*\s*\Z")
_SOURCE = re.compile(r"\b(?:knowledge|passages?|documents?|sources?|evidence|relevant|know)\b", re.IGNORECASE)
_RESULT = re.compile(
    r"(?:\b(?:is|are|was|were|equals)|=|\b(?:so|thus|hence|therefore|total|result)\W{0,3}:)[\s*_]*\Z", re.IGNORECASE
)
_INTERVAL = re.compile(r"\d{1,4}(?:\s?,\s?\d{1,4})+")
_MEMBER = re.compile(r"(?:∈|\\in|\b(?:lies?|interval))(?:\s+in)?[\s*_$]*\Z", re.IGNORECASE)


def without_citations(text: str, shown: Container[int], *, intervals: bool = False) -> str:
    """The text with its citations replaced by spaces, so that all positions stay the same.

    A bracket of shown numbers is kept if it ends the reply, is stated as the answer ("the answer is [7]"), or is inside
    another bracket and not after a sentence. With ``intervals``, several numbers may end a reply as one does.
    """
    characters, outer = list(text), 0
    spans = sorted(pairs(text, "[]").items())
    closing = last_sentence(text) if spans else 0
    for n, (start, end) in enumerate(spans):
        near, nested, outer = text_before(text, start), start < outer, max(outer, end)
        ids = ids_of(text[start + 1 : end - 1])
        if not ids or not all(n in shown for n in ids) or (nested and not _FOLLOWS_SENTENCE.search(near)):
            continue
        if len(spans) - n <= MOST and (states(near) or _closes(text, start, end, closing, intervals=intervals)):
            continue
        characters[start:end] = " " * (end - start)
        if text.startswith((".", "!", "?"), end):  # Move the full stop to the end of its sentence.
            characters[end] = " "
            while start and characters[start - 1] in " \t":
                start -= 1
            characters[start] = " " if _FOLLOWS_SENTENCE.search(near) else text[end]
    return "".join(characters)


def _closes(text: str, start: int, end: int, closing: int, *, intervals: bool) -> bool:
    """Whether a number is the result that ends a reply: alone on its last line, or after "is", "=" or "so:"."""
    content = text[start + 1 : end - 1]
    is_interval = intervals and bool(_INTERVAL.fullmatch(content))
    if not (content.isdecimal() or is_interval) or has_word(text[end:]):
        return False
    line = line_before(text, start)
    if not has_word(line):
        return not text[: start - len(line)].rstrip().endswith(":")
    words = lead(text, start).rpartition(",")[2]
    is_result = _RESULT.search(words) or (is_interval and _MEMBER.search(words))
    return start >= closing and bool(is_result) and not _SOURCE.search(words)
