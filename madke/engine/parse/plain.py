"""Answers in plain words: the sentence or phrase that a reply of free text consists of, or that concludes it."""

import re
from collections.abc import Callable

from madke.engine.parse.grammar import (
    EMPHASIS,
    MOST,
    OTHER_SPEAKER,
    Parsed,
    has_word,
    is_phrase,
    is_placeholder,
    nothing,
    outermost,
    parsed_at,
    says_only_where,
    sentences,
    standing,
    unwrap,
)
from madke.engine.parse.own_words import ParseContext
from madke.tasks.answer_text import declines

Reads = Callable[[str], str | None]
"""A task's reader: a text -> the answer in it, or None."""
ASIDE = re.compile(
    r"^[^\w\n]{0,9}(?:confidence|side|selected|sources?|notes?|verdict)\b[^\n]{0,40}:[^\n]*", re.I | re.M
)
"""Lines next to an answer."""
_DECORATION = re.compile(
    r"^[ \t]*(?:[-*•+]|#{1,6}|\d{1,2}[.)])[ \t]+|[*_]{2}|^[*_ \t]+|(?<![*_ \t])[*_ \t]+$", re.MULTILINE
)
_ABOUT = re.compile(
    rf"\W*(?:(?:i|we)\b(?!\s+(?:\w+\s+)?(?:think|believe|guess|suppose|say|conclude)\b)|if\b|whether\b|both\s+(?:answers?|debaters?|texts?)\b"
    rf"|(?:the|his|her|its|their|my|your|this)\s+(?:\w+\s+)?(?:answers?|reasoning|sentences?|reply|replies|question|stances?|debaters?)\b"
    rf"|(?:all\s+(?:answers?|debaters?)|they\s+(?:\w+\s+)?(?:differ|agree|disagree))\b|(?:thought|action|observation)\s?\d*:|(?:give|put|write|reply|choose|select|complete|let|here|see|sure"
    rf"|okay|ok|certainly|please|thanks?|hope)\b|{OTHER_SPEAKER})",
    re.IGNORECASE,
)
"""The beginning of a sentence about the reply, the debate or the task."""
_DECLINES = re.compile(
    r"\b(?:i|we)\s+(?:\w+\s+)?(?:(?:do|can|could|would|am)\s*(?:not|n['’]t)|can['’]t|don['’]t|have\s+no)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:know|tell|find|determine|answer|say|have|decide|settle|choose|sure|certain|idea|clue)\b"
    r"|\bnothing\s+(?:\w+\s+)?helps\b|\A\W*(?:nobody|no\s+one)\s+(?:\w+\s+)?knows\b",
    re.IGNORECASE,
)
_SILENT = re.compile(
    r"\b(?:no|none\s+of\s+the|neither(?:\s+of\s+the)?|nothing\s+in\s+the)\s+(?:\w+\s+){0,2}?(?:passages?|documents?|texts?|sources?|information|evidence)\b"
    r"|\b(?:passages?|documents?|texts?|sources?|context|information|knowledge|they|it)\b[^.!?]{0,60}?(?:\b(?:do|does|did|is|are)\s+not|n['’]t)\s+(?:\w+\s+){0,2}?"  # noqa: RUF001
    r"(?:mention|contain|provide|specif|say|state|give|name|include|answer|tell|cover|help|address|enough)",
    re.IGNORECASE,
)
"""A sentence that says that the passages hold nothing."""
_BROKEN_OFF = re.compile(r"\b(?:is|are|was|in|by|from|on|of|the|and)\W*\Z", re.IGNORECASE)
"""The end of a sentence whose citation was its object: "The source is [3]."."""
_QUOTED = re.compile(r"\S[ \t]{3,}\S")
"""The spaces that stand for a quotation inside a sentence."""
_CONCLUDES = re.compile(
    r"\W*(?:so|thus|therefore|hence|consequently|accordingly|in\s+(?:conclusion|short|summary)|overall|finally|as\s+a\s+result)\b",
    re.IGNORECASE,
)
_CONNECTIVE = re.compile(
    rf"(?:{_CONCLUDES.pattern},?\s+)?(?:(?:i|we)\s+(?:\w+\s+)?(?:think|believe|guess|suppose|say|conclude)\s+)?(?:that\s+)?(?:(?:it|this)(?:['’]s|\s+(?:is|was))\s+)?(?=\S)",  # noqa: RUF001
    re.IGNORECASE,
)
"""Words around a phrase: "So I think it is ..."."""
_YES_OR_NO = re.compile(
    r"[^\w\n]{0,9}(?P<word>yes|no)\b(?=[*_]{0,3}(?:[,.;:!]|\s+[-\u2013\u2014]|\s*\Z))", re.IGNORECASE
)


_BOTH = re.compile(r"\W*yes\s+and\s+no\b", re.IGNORECASE)


def plain_answer(text: str, read: Reads, context: ParseContext, *, cited: str, cut: bool) -> Parsed[str | None]:
    """The sentence or phrase that answers, from a reply of free text without a marker.

    A phrase on the last line counts (rule ``phrase``), or a list of phrases; else the last sentence that concludes
    ("so", "therefore"), else the first one (``sentence``). Sentences about the debate or the task, questions and
    headings do not count, nor sentences that held a quotation. A reply that was cut off is not read.

    ``cited`` is the text with its citations, which are spaces in ``text`` as quotations are.
    """
    masked = ASIDE.sub(lambda line: " " * len(line[0]), text)
    spans = [*sentences(masked)]
    spans = spans if len(spans) <= 2 * MOST else [*spans[:MOST], *spans[-MOST:]]
    spans = [span for span in spans if read(_bare(masked[slice(*span)])) is not None or has_word(masked[slice(*span)])]
    said = [(_bare(masked[slice(*span)]), span) for span in spans]
    if said and all(is_placeholder(unwrap(one)) for one, _ in said):
        return nothing(None, "placeholder")
    declined = any(declines(one) or _DECLINES.search(one) or _SILENT.search(one) for one, _ in said)
    found = [
        (one, span)
        for one, span in said
        if not _QUOTED.search(_bare(cited[slice(*span)])) and not _says_nothing(one, context)
    ]
    concluding = [one for one in found if _CONCLUDES.match(one[0])]
    if declined and not concluding:
        return nothing(None, "declined")
    if not found or cut:
        return nothing(None)
    lines = [line.strip() for line in masked.splitlines() if has_word(line)]
    items = [_bare(line) for line in lines if not line.endswith(":")]
    if len(items) > 1 and all(map(is_phrase, items)):
        value = read("; ".join(items))
        return nothing(None) if value is None else parsed_at(value, "phrase", (said[0][1][0], said[-1][1][1]))
    last, span = found[-1]
    if len(lines) > 1 and masked[slice(*span)].strip() == lines[-1] and is_phrase(last):
        value = read(last)
        if value is not None:
            return parsed_at(value, "phrase", span)
    sentence, span = concluding[-1] if concluding else found[0]
    short = _CONNECTIVE.sub("", sentence, count=1)
    value = read(short if is_phrase(short) else sentence)
    return nothing(None) if value is None else parsed_at(value, "sentence", span)


def _bare(said: str) -> str:
    said = _DECORATION.sub("", said).strip(EMPHASIS)
    inner = re.fullmatch(r"\(([^()]+)\)\.?|((?:yes|no))[.!]", said, re.IGNORECASE)
    return (inner[1] or inner[2]) if inner else said


def _says_nothing(said: str, context: ParseContext) -> bool:
    if re.search(r"\\boxed|[{}]|<answer", said):  # It is a form without an end.
        return True
    bare = unwrap(said)
    given_back = any(is_placeholder(said[start + 1 : end - 1]) for start, end in outermost(said)) or any(
        is_placeholder(said[start:end]) and standing(said, start, end) == "none" for start, end in outermost(said, "()")
    )  # "In the form (X)"; in "Twitter (X)" it is a name.
    if is_placeholder(bare) or given_back or says_only_where(bare) or said.endswith(("?", ":")):
        return True
    if (
        declines(said)
        or _DECLINES.search(said)
        or _SILENT.search(said)
        or _ABOUT.match(said)
        or _BROKEN_OFF.search(said)
    ):
        return True
    return bool(context.question) and _key(said) == _key(context.question)


def _key(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def yes_or_no(text: str, read: Reads) -> Parsed[str | None] | None:
    """The Yes or No with which the first or the last sentence begins (rule ``yes_no``); if both do, they must agree."""
    spans = [(start, end) for start, end in sentences(text) if has_word(text[start:end])]
    words = [word for start, end in {*spans[:1], *spans[-1:]} if (word := _YES_OR_NO.match(text, start, end))]
    if not words:
        return nothing(None, "contradictory") if _BOTH.match(text) else None
    if len({word["word"].lower() for word in words}) > 1 or _BOTH.match(text):
        return nothing(None, "contradictory")
    value = read(words[-1]["word"])
    return None if value is None else parsed_at(value, "yes_no", words[-1].span("word"))
