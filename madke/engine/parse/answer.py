"""Parse the final answer of a reply, in a marker or stated in words: "The answer is B.", "Final answer: Lake Baikal".

Stated free text counts only if it looks like an answer: a name, a number, yes or no, quoted text, or a labelled line.
"""

import re
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from madke.core.question import Question
from madke.engine.parse import context
from madke.engine.parse.context import Parsed, Reader, abstained, found, windowed
from madke.engine.parse.forms import Mark, bracketed, stated_forms, without_citations
from madke.tasks.answer_text import declines
from madke.tasks.base import Task

Marker = Literal["plain", "brackets", "parentheses", "boxed", "text"]
r"""How a protocol asks for answers: "The answer is X.", with ``[X]``, ``(X)`` or ``\boxed{X}``, or the whole reply."""

_DISPLAYED = re.compile(r"\\\[([^\[\]\\=+^_{}\n]{1,100})\\\]")
"""Words or a number in LaTeX's display brackets; they count as a marker."""
_ECHO = re.compile(
    r"\[(?:(?:the|my|your|final)[ _]){0,2}(?:answer|letter|label|number|translation|result|option)\]"
    r"(?=[\s*_:]{0,9}[\w\[(\"“$\\*])",
    re.IGNORECASE,
)
"""The placeholder of the requested form, echoed before an answer: "[answer] Jane Austen"."""
_REMARK = re.compile(r"\s*(?:(?:note|n)\s+\d+|sic|see\s.*|.*\bet al\b.*|'.*',\s*'.*|\".*\",\s*\".*)\s*", re.DOTALL)
_TERSE = re.compile(r"[\s*_]*[A-Z\d$€£-]")
_BEFORE_RESULT = re.compile(r"(?:\b(?:is|are|was|were|equals|be)|[=:])[\s*_]*\Z", re.IGNORECASE)
_AFTER = r"[ \t*_`\"'”’$\\]*"  # noqa: RUF001
_ENDS_SENTENCE = re.compile(rf"{_AFTER}(?:[.!]?{_AFTER}(?:\n|\Z)|[.!][ \t])")
_JOINED = re.compile(r"[\s*_`\"'$]*(?:[,;/&|]|(?:[^.!?\n]{0,60}[\s,])?(?:or|and|and/or))[\s*_`\"'$]*", re.IGNORECASE)


@windowed
def parse_answer(
    text: str,
    read: Callable[[str], str | None],
    marker: Marker = "plain",
    *,
    shown: Container[int] = (),
    is_math: bool = False,
) -> Parsed[str | None]:
    r"""The final answer of a reply.

    Ignored: an answer that the reply reports from another debater, and several alternatives without a choice.

    Args:
        text: The reply, without reasoning.
        read: The task's reader: a marker's content -> the answer, or None if the content is not an answer.
        marker: The requested form. With free text, ``(X)`` counts only directly after a cue or alone at the end.
        shown: The numbers of the passages shown to this call. In brackets they are citations, unless one ends the
            reply or is stated as the answer ("the answer is [7]").
        is_math: Whether the answer is a number or an expression. Nothing is a citation then, and a last number counts
            if nothing else is found.

    Returns:
        The first of these that the reply has:

        1. The last answer in the requested marker after a cue such as "the answer is" (rule ``cue``), or as ``boxed``,
           ``tag`` (``<answer>X</answer>``), ``hashes`` (``#### 42``), ``record`` (``{"answer": "X"}``).
        2. The later of an answer stated in words (``labelled``: "Answer: X"; ``stated``: "the answer is X") and one in
           a marker without a cue (``last``: if all such markers, or those of the last sentence, agree).
        3. A label on a line of its own (``alone``), or the last number (``last_number``).

        With ``marker="text"`` the whole reply (``text``). If it abstains, the rule is ``declined`` (the reply says that
        there is no answer), ``undecided``, ``unreadable`` (the marked text is not an answer of this task) or ``none``.
    """
    if marker == "text":
        return _whole(text, read)
    reader = Reader(read)
    # Replacements keep the length, so that spans refer to the reply.
    cleaned = _DISPLAYED.sub(r" [\1] ", text)
    cleaned = _ECHO.sub(lambda echo: "answer:".rjust(len(echo[0])), cleaned)
    cleaned = without_citations(cleaned, () if is_math else shown)
    marks = [] if marker == "boxed" else list(bracketed(cleaned, "()" if marker == "parentheses" else "[]"))
    return (
        _marked(cleaned, marks, reader)
        or _unmarked(cleaned, marks, reader)
        or _lone_label(cleaned, reader)
        or (abstained(None, "declined") if _declined(cleaned) else None)
        or (_last_number(cleaned, reader) if is_math else None)
        or abstained(None)
    )


def answer_of(
    text: str, task: Task, question: Question, marker: Marker = "plain", *, shown: Container[int] = ()
) -> Parsed[str | None]:
    """:func:`parse_answer` with the task's reader."""
    is_math = getattr(task, "reads_last_number", False)
    return parse_answer(text, lambda raw: task.read(raw, question), marker, shown=shown, is_math=is_math)


def _whole(text: str, read: Callable[[str], str | None]) -> Parsed[str | None]:
    reply = text.strip()
    # The bare word "answer" may be a translation; in brackets it is an echoed placeholder.
    is_echo = reply.startswith(("[", "(", "<", "\\")) and context.is_placeholder(context.unwrap(reply))
    value = read(reply) if reply and not is_echo else None
    if value is None:
        return abstained(None, "declined" if declines(reply) else "none")
    return found(value, "text", (0, len(text)))


def _marked(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    """The last stated answer in a marker; abstains if it cannot be read."""
    stated = [mark for mark in marks if mark.standing == "stated"]
    unsettled = [Mark(content="", span=span, rule="undecided") for span in _undecided(text)]
    for mark in sorted([*stated, *stated_forms(text), *unsettled], key=lambda mark: mark.span[1], reverse=True):
        if mark.rule == "undecided":
            worded = _stated_in_words(text, reader)
            if worded and worded.span and worded.span > mark.span:
                return worded
            return abstained(None, "declined" if _declined(text) else "undecided")
        content = context.unwrap(mark.content)
        if context.is_placeholder(content):
            continue
        value = reader(content)
        if value is None:
            return abstained(None, "declined" if declines(content) else "unreadable")
        rival = next((other for other in marks if other.span[0] >= mark.span[1]), None)
        if rival and _are_joined(text, mark, rival) and reader(rival.content) not in (None, value):
            return abstained(None, "undecided")
        return found(value, mark.rule, mark.span)
    return None


def _unmarked(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    worded, plain = _stated_in_words(text, reader), _plain(text, marks, reader)
    if worded and plain:
        return max(worded, plain, key=lambda parsed: parsed.span or (0, 0))
    return worded or plain


def _plain(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    """The answer of markers without a cue, if all of them, or those of the last sentence, agree."""
    closing = context.last_sentence(text)
    offered = [mark for mark in marks if _is_offered(text, mark, closing, reader)]
    read = [(mark, value) for mark in offered if (value := reader(mark.content)) is not None]
    own = [(mark, value) for mark, value in read if mark.standing == "plain"]
    closes = [(mark, value) for mark, value in own if mark.span[0] >= closing]
    if len({value for _, value in read}) != 1 or not (own or len(read) > 1):
        read = closes
    return found(read[-1][1], "last", read[-1][0].span) if len({value for _, value in read}) == 1 else None


def _is_offered(text: str, mark: Mark, closing: int, reader: Reader) -> bool:
    """Whether a marker without a cue may be an answer and not a remark or a footnote.

    Free text counts if it is alone on its line, ends the last sentence, or is a name or number in that sentence or
    after "is". In parentheses it must be alone on the last line, or a number that ends the reply.
    """
    start, end = mark.span
    if mark.standing != "plain" or _REMARK.fullmatch(mark.content):
        return mark.standing == "quoted"
    if not reader.is_open:
        return True
    has_line = not re.search(r"\w", text[text.rfind("\n", 0, start) + 1 : start] + context.tail(text, end))
    if text[start] == "(":
        return (has_line or context.is_formula(mark.content)) and not re.search(r"\w", text[end:])
    if has_line or (start >= closing and _ENDS_SENTENCE.match(text, end)):
        return True
    return bool(_TERSE.match(mark.content) and (start >= closing or _BEFORE_RESULT.search(context.before(text, start))))


def _are_joined(text: str, mark: Mark, other: Mark) -> bool:
    """Whether two markers are alternatives or a list: "[A] or [B]", "(A) tin and (B)"."""
    left, right = mark.span[1], other.span[0]
    return right - left < context.NEAR and bool(_JOINED.fullmatch(text, left, right))


_ANSWER = (
    r"(?:(?:(?:final|correct|right|best|closest|only|most\s+\w+)\s+){0,3}answer(?:\s+(?:choice|option|letter|label))?"
    r"|(?:final|correct|right|best|closest|most\s+\w+)\s+(?:choice|option|label|conclusion|result))"
    r"(?:\s*\([^()\n]{1,40}\))?"
)
_FOR = r"(?:\s+(?:to|for)\s+[^.,:;\n]{1,60}?|\s+here)?,?(?:\s+(?:then|therefore|thus|hence),?)?"
_START = r"(?:^|(?<=[.!?])[ \t]{1,9}|\b(?:my|our)\s+)[*_#> \t]{0,9}(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+)?"
_IS = r"(?:is|are|was|would\s+be|should\s+be|must\s+be)\b:?"
_TASK_NOUN = r"(?:label|letter|option|choice|translation|result|solution)"
_CUE = re.compile(
    rf"(?:(?P<label>{_START}(?:{_ANSWER}|{_TASK_NOUN})[*_\s]{{0,4}}[:=][*_]{{0,3}})|\b{_ANSWER}{_FOR}\s+{_IS}|(?P<closed>\b(?:label|verdict)\s+is\b))"
    r"\s{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
_LETTER = r"[(\[*]{0,3}([A-Z])[)\]*]{0,3}"
_BEST = r"(?:correct|right|best|(?:most\s+)?(?:likely|plausible|suitable|appropriate|reasonable)|only)"
_CONCLUDED = re.compile(
    rf"(?<![\w'’]){_LETTER}\s+is\s+the\s+(?:{_BEST}\s+){{1,2}}(?:answer|choice|option|one)\b"  # noqa: RUF001
    rf"|\b(?:[Ss]o|[Tt]hus|[Hh]ence|[Tt]herefore),?\s+(?:(?:option|choice|answer)\s+)?{_LETTER}"
    rf"\s+is\s+(?:the\s+)?{_BEST}\b(?=[^.!?\n]*[^\w\n]*\Z)"
)
_FILLER = re.compile(
    r"[\s:]{0,9}(?:(?:most\s+likely|likely|probably|definitely|clearly|indeed|still|simply|therefore|thus|hence|then"
    r"|option|choice|letter|(?:final\s+)?answer)\b[\s,:]{1,9}){0,4}",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"\W{0,9}(?:either|neither|both|none|unclear|unknown|uncertain|ambiguous|debatable|subjective|yes\s+and\s+no"
    r"|not\s+(?:one\s+of|among|provided|given|listed|clear|certain|known|possible|an?\s+\w+))\b",
    re.IGNORECASE,
)

_ABBREVIATION = "".join(rf"(?<!\b{word})" for word in ("[A-Z]", "St", "Mr", "Ms", "Mrs", "Dr", "Jr", "Sr", "Mt", "No"))
_SENTENCE = re.compile(rf"[^\n]{{0,300}}?(?=\n|\Z|\?|{_ABBREVIATION}[.!](?:[\s\"*]|\Z))[.!]?")
_CLAUSE = re.compile(r",\s+(?:which|who)\s|,?\s+(?:because|since|as|but|so)\s|;|\s+\(", re.IGNORECASE)
_DASH = re.compile(r"\s+[-\u2013\u2014]\s|,")
_GROUP = re.compile(
    r"\*\*(?P<bold>[^*\n]{1,200})\*\*|[\"“](?P<quoted>[^\"“”\n]{1,200})[\"”]|\$(?P<math>[^$\n]{1,200})\$"
    r"|\((?P<round>[^()\n]{1,100})\)(?![\w(^])|\[(?P<square>[^\[\]\n]{1,100})\](?!\w)"
)
_WORD = r"(?:[A-Z][\w'’.&/-]*|[\d$€£][\w.,/%:-]*)"  # noqa: RUF001
_SMALL = "of|the|and|in|on|at|to|by|for|de|la|le|von|van|der|du|del|da|di|&"
_NAME = re.compile(rf"(?:the )?{_WORD}(?:,? (?:{_WORD}|{_SMALL})){{0,9}}")
_NUMBER = re.compile(r"[-+]?[$€£]?\d")
_YES_NO = re.compile(r"yes|no|true|false", re.IGNORECASE)
_NO_ANSWER = re.compile(r"(?:i|we|it|there|this|that|cannot|not|see|based|in\s+\w+)\b", re.IGNORECASE)
_MOST_WORDS = 12
_LABEL_LINE = re.compile(r"(?![a-z]?\W*\Z)(?:.{0,30}|\W*[A-Z][).:]\s.*)")
"""A line that may be only a label: a short line, or one that begins with an option letter."""
_TURNED_DOWN = re.compile(r"\b(?:not(?!\s+enough)|wrong|incorrect|false|cannot)\b|n['’]t\b", re.IGNORECASE)  # noqa: RUF001

_DIGITS = r"\d+(?:(?:,|\{,\}|,\\!)\d{3})*(?:\.\d+)?|\.\d+"
_LAST_NUMBER = re.compile(
    r"(?:(?<![\w)}])[-\u2212])?(?:\\[dt]?frac\{[^{}\n]{1,60}\}\{[^{}\n]{1,60}\}"
    rf"|\\?[$€£]?(?:{_DIGITS})(?:/\d+)?(?:\s?\\?%)?)"
)
_COUNTED = re.compile(r"(?:\b(?:agent|debater|step|knowledge|equation|eq)\W{0,3}|[\w^_])\Z", re.IGNORECASE)
"""Text before a number that counts something or is part of a word."""
_TERM = re.compile(r"(?:[\w)}]\s?[+*^_×·/]|\d,|\bor(?:\s+\w+\s*=)?)\s?\Z", re.IGNORECASE)  # noqa: RUF001
"""Text before a number that is only one part of the result."""
_IN_MATH = re.compile(r"\$(?!\s)([^$\n]*[^$\s])\$(?!\d)|\\\(([^\n]+?)\\\)")
_CONFIDENCE_LINE = re.compile(r"^[^\w\n]{0,9}confidence\b[^\n]*", re.IGNORECASE | re.MULTILINE)


def _stated_in_words(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The last readable answer that the text states without a marker. Rules: ``labelled``, ``stated``."""
    for cue, (start, end) in reversed(_cues(text)):
        if (cue["closed"] and reader.is_open) or context.standing(text, start, end) != "stated":
            continue
        for content in _contents(text[start:end], labelled=bool(cue["label"]), reader=reader):
            if (value := reader(content)) is not None:
                return found(value, "labelled" if cue["label"] else "stated", (start, end))
    for match in reversed([] if reader.is_open else list(_CONCLUDED.finditer(text))[-context.MOST :]):
        if (value := reader(match.group(match.lastindex or 0))) is not None:
            return found(value, "stated", match.span(match.lastindex or 0))
    return None


def _undecided(text: str) -> Iterator[tuple[int, int]]:
    """Spans where the text does not decide on an answer: "the answer is either (A) or (B)"."""
    for cue, (start, end) in _cues(text):
        several = _UNDECIDED.match(text, start) or context.offers_several(text[start:end])
        if several and context.standing(text, start, end) == "stated":
            yield cue.span()


def _declined(text: str) -> bool:
    """Whether a sentence of the text says that there is no answer."""
    return any(declines(text[start:end]) for start, end in list(context.sentences(text))[-context.MOST :])


def _lone_label(text: str, reader: Reader) -> Parsed[str | None] | None:
    """A label or letter (never free text) alone on the first or last line, if no other line has a different one."""
    if reader.is_open:
        return None
    lines = [line for line in re.finditer(r"[^\n]+", text) if not line[0].isspace()]
    read = [
        (line, value)
        for line in lines[: context.MOST]
        if _LABEL_LINE.fullmatch(line[0]) and not _TURNED_DOWN.search(line[0])
        if (value := reader(line[0])) is not None
    ]
    outer = [(line, value) for line, value in read if line in (lines[0], lines[-1])]
    if outer and len({value for _, value in read}) == 1:
        return found(outer[-1][1], "alone", outer[-1][0].span())
    return None


def _last_number(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The last number or formula of the last sentence, after an equals sign if there is one."""
    text = _CONFIDENCE_LINE.sub(lambda line: " " * len(line[0]), text)
    closing = context.last_sentence(text)
    formula = next(reversed(list(_IN_MATH.finditer(text, closing))), None)
    if formula and not re.search(r"\d", text[formula.end() :]):
        result = (formula[1] or formula[2]).rpartition("=")[2].strip()
        if context.is_formula(result) and (value := reader(result)) is not None:
            return found(value, "last_number", formula.span())
    closing = max(closing, text.rfind("=", closing))
    numbers = [n for n in _LAST_NUMBER.finditer(text, closing) if not _COUNTED.search(context.before(text, n.start()))]
    if not numbers:
        return None
    number = numbers[0 if text[closing] == "=" else -1]
    is_part = _TERM.search(context.before(text, number.start())) or text.startswith("^", number.end())
    value = None if is_part else reader(number.group())
    return None if value is None else found(value, "last_number", number.span())


@lru_cache(maxsize=8)  # several readings of one text need them
def _cues(text: str) -> tuple[tuple[re.Match[str], tuple[int, int]], ...]:
    """Cues, also quoted ones, each with the span of the words after it in its sentence."""
    cues = list(_CUE.finditer(text))[-context.MOST :]
    sentences = ((cue, _SENTENCE.match(text, cue.end())) for cue in cues)
    return tuple((cue, sentence.span()) for cue, sentence in sentences if sentence and sentence.group().strip())


def _contents(sentence: str, *, labelled: bool, reader: Reader) -> Iterator[str]:
    filler = _FILLER.match(sentence)
    whole = sentence[filler.end() if filler else 0 :].strip(" \t\n,;")
    sentence = whole.rstrip(".!")
    if context.is_placeholder(sentence) or sentence.startswith("{"):
        return
    group = _GROUP.match(sentence)
    inner = group[group.lastgroup] if group and group.lastgroup else None
    clause = _CLAUSE.split(sentence, maxsplit=1)[0].strip(context.EMPHASIS)
    head = _DASH.split(clause, maxsplit=1)[0]
    if not reader.is_open:
        # "the answer is a ...", or a word cut off after its first letter, does not name an option.
        parts = (sentence, inner or "", clause, head)
        yield from (part for part in parts if labelled or not re.fullmatch(r"[a-z]\W*", part))
    elif inner and group and not re.search(r"\w", sentence[group.end() :]):
        yield inner
    elif not _NO_ANSWER.match(clause):
        if labelled and len(sentence.split()) <= _MOST_WORDS:
            yield whole
        yield from (part for part in (sentence, clause) if _NAME.fullmatch(part))
        if _NUMBER.match(clause):
            yield re.split(r",\s+(?=[a-z])", clause, maxsplit=1)[0]
        if context.is_formula(sentence):
            yield sentence
        if _YES_NO.fullmatch(head):
            yield head


_CONFIDENCE = re.compile(
    r"\bconfidence(?:\s+(?:level|score|rating|value))?(?:\s+(?:in|that|for)\s+[^.:\n]{0,60}?)?"
    r"(?:\s?\([^()\n]{0,60}\))?[\s*_`\"']{0,9}(?:is|of|at|=|:)?[\s*_`\"'\[(:~]{0,9}"
    r"(?P<number>-?(?:\d{1,9}(?:[.,]\d{1,20})?|\.\d{1,20}))"
    r"\s?(?P<share>%|percent\b|(?:/|out\s+of)\s?(?P<total>\d{1,4}))?(?!\s?[-\u2013]\s?\d|[\w/]|[.,]\d)"
    r"|(?<![\w.,/-])(?P<sure>\d{1,3}(?:\.\d{1,6})?)\s?(?:%|percent)\s+(?:confident|sure|certain)\b",
    re.IGNORECASE,
)


@windowed
def parse_confidence(text: str) -> Parsed[float | None]:
    """The last confidence that a reply states, 0 .. 1.

    "Confidence: 0.8", "80%", "8/10" and "80% sure" are 0.8 (rule ``stated``). None if none is stated (``none``) or the
    last one is out of range (``out_of_range``).
    """
    last = deque(_CONFIDENCE.finditer(text), maxlen=1)
    if not last:
        return abstained(None)
    stated = last[0]
    number = float((stated["number"] or stated["sure"]).replace(",", "."))
    total = float(stated["total"] or (100 if stated["share"] or stated["sure"] else 1))
    if not 0 <= number <= total or not total:
        return abstained(None, "out_of_range")
    return found(number / total, "stated", stated.span())


def marked(answer: str, marker: Marker) -> str:
    """Put an answer into its marker."""
    left, right = {
        "plain": ("", ""),
        "brackets": "[]",
        "parentheses": "()",
        "boxed": ("\\boxed{", "}"),
        "text": ("", ""),
    }[marker]
    return left + answer + right
