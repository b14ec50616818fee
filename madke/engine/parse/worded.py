"""Answers stated in words, without a marker: "Answer: X", "the answer is X", a lone label, a last number."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from madke.engine.parse import context
from madke.engine.parse.context import Parsed, Reader, nothing, parsed_at
from madke.engine.parse.short import possible_answers
from madke.tasks.answer_text import declines


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """What the reading of an answer depends on, besides the task's reader."""

    is_math: bool = False
    """The answer is a number or an expression. Nothing is a citation then, and a last number counts."""
    is_yes_no: bool = False
    """The question asks for yes or no, so a sentence that begins with one of them answers it."""
    whole_line: bool = False
    """The answer is a whole text, such as a translation: after "Answer:" all of the line counts."""
    is_list: bool = False
    """The answer is a list: after "The answer is" all of the sentence counts."""


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
_LONG_SENTENCE = re.compile(r"[^\n]{0,999}")
"""The text after a cue whose sentence does not end within 300 characters."""
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
_DEBATER = r"[Dd]ebater\s+\d+\W*\Z"
"""A debater in place of an answer."""
_NO_ANSWER = re.compile(rf"(?:i|we|it|there|this|that|cannot|not|see|based|in\s+\w+)\b|{_DEBATER}", re.IGNORECASE)
_NO_LABELLED_ANSWER = re.compile(r"(?:i|we|cannot|not|see|there)\b", re.IGNORECASE)
_ASIDE = re.compile(r"^[^\w\n]{0,9}(?:confidence|side)\b[^\n]*", re.IGNORECASE | re.MULTILINE)
"""Lines that may follow the last line of an answer."""
_BEGINS = re.compile(r"\W*(?:(?:so|thus|therefore|hence|then|and|my|the|final|answer|is)\W+)*", re.IGNORECASE)
"""Words before "answer is" at the beginning of a sentence, which may say it twice."""
_OF_THE_ANSWER = re.compile(
    r"\W*(?:(?:also|still|not|indeed|clearly)\s+){0,2}(?:(?:in)?(?:correct|accurate|consistent)|right|wrong|(?:un)?supported"
    r"|reasonable|plausible|based|stated|mentioned|given|found|provided)(?=\W*\Z|[,:;]|\s+(?:and|because|since|as|in|on|by|for|with|but)\b)"
    rf"|\W*(?:[Tt]he|[Mm]y)\s+(?:final\s+)?answer\b|\W*{_DEBATER}"
)
"""Words after "the answer is" that say something of the answer, or begin to say it again."""
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


def stated_in_words(text: str, reader: Reader, form: Form, *, last_line: bool = False) -> Parsed[str | None] | None:
    """The last readable answer that the text states without a marker. Rules: ``labelled``, ``stated``.

    With ``last_line`` only a label on the last line, the requested form. It abstains if its content declines or is a
    placeholder.
    """
    for cue, (start, end) in reversed(_cues(text)):
        if last_line and (not cue["label"] or re.search(r"\w", _ASIDE.sub("", text[end:]).partition("\n")[2])):
            return None
        if (cue["closed"] and reader.is_open) or context.standing(text, start, end) != "stated":
            continue
        if cue["label"] and form.whole_line:
            end = _line_end(text, start)
        said = text[start:end].strip(context.EMPHASIS + ".")
        if cue["label"] and (context.is_placeholder(said) or declines(said)):
            if last_line:
                return nothing(None, "placeholder" if context.is_placeholder(said) else "declined")
            continue
        for content in _contents(text[start:end], labelled=bool(cue["label"]), reader=reader, form=form):
            if (value := reader(content)) is not None:
                return parsed_at(value, "labelled" if cue["label"] else "stated", (start, end))
    for match in reversed([] if reader.is_open else list(_CONCLUDED.finditer(text))[-context.MOST :]):
        if (value := reader(match.group(match.lastindex or 0))) is not None:
            return parsed_at(value, "stated", match.span(match.lastindex or 0))
    return None


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def undecided(text: str) -> Iterator[tuple[int, int]]:
    """Spans where the text does not decide on an answer: "the answer is either (A) or (B)"."""
    for cue, (start, end) in _cues(text):
        several = _UNDECIDED.match(text, start) or context.offers_several(text[start:end])
        if several and context.standing(text, start, end) == "stated":
            yield cue.span()


def declined(text: str) -> bool:
    """Whether a sentence of the text says that there is no answer."""
    return any(declines(text[start:end]) for start, end in list(context.sentences(text))[-context.MOST :])


def lone_label(text: str, reader: Reader) -> Parsed[str | None] | None:
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
        return parsed_at(outer[-1][1], "alone", outer[-1][0].span())
    return None


def last_number(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The last number or formula of the last sentence, after an equals sign if there is one."""
    text = _CONFIDENCE_LINE.sub(lambda line: " " * len(line[0]), text)
    closing = context.last_sentence(text)
    formula = next(reversed(list(_IN_MATH.finditer(text, closing))), None)
    if formula and not re.search(r"\d", text[formula.end() :]):
        result = (formula[1] or formula[2]).rpartition("=")[2].strip()
        if context.is_formula(result) and (value := reader(result)) is not None:
            return parsed_at(value, "last_number", formula.span())
    closing = max(closing, text.rfind("=", closing))
    numbers = [
        n for n in _LAST_NUMBER.finditer(text, closing) if not _COUNTED.search(context.text_before(text, n.start()))
    ]
    if not numbers:
        return None
    number = numbers[0 if text[closing] == "=" else -1]
    is_part = _TERM.search(context.text_before(text, number.start())) or text.startswith("^", number.end())
    value = None if is_part else reader(number.group())
    return None if value is None else parsed_at(value, "last_number", number.span())


@lru_cache(maxsize=8)  # several readings of one text need them
def _cues(text: str) -> tuple[tuple[re.Match[str], tuple[int, int]], ...]:
    """Cues, also quoted ones, each with the span of the words after it in its sentence."""
    cues = list(_CUE.finditer(text))[-context.MOST :]
    sentences = ((cue, _SENTENCE.match(text, cue.end()) or _LONG_SENTENCE.match(text, cue.end())) for cue in cues)
    return tuple((cue, sentence.span()) for cue, sentence in sentences if sentence and sentence.group().strip())


def requested_sentence(text: str, reader: Reader, form: Form) -> Parsed[str | None] | None:
    """The answer of the last sentence that begins with "The answer is", in any words (``stated``).

    This is the requested form. Small models often write it first and their reason after it.
    """
    for cue, (start, end) in reversed(_cues(text)):
        begins = not cue["label"] and not cue["closed"] and _BEGINS.fullmatch(context.lead(text, cue.start()))
        if not begins or context.standing(text, start, end) != "stated":
            continue
        if _UNDECIDED.match(text, start) or re.search(r"[][\\{}]", text[start:end]):
            continue
        said = text[start:end].strip(context.EMPHASIS).removeprefix("that ")
        said = said if re.search(r"\b[A-Z]\.\Z", said) else said.rstrip(".!")
        if context.is_placeholder(said):
            continue
        if declines(said):
            return nothing(None, "declined")
        if _NO_LABELLED_ANSWER.match(said) or _OF_THE_ANSWER.match(said) or context.says_only_where(said):
            continue
        for content in [said] if form.whole_line else possible_answers(said, is_yes_no=form.is_yes_no):
            if (value := reader(content)) is not None:
                return parsed_at(value, "stated", (start, end))
    return None


def _contents(sentence: str, *, labelled: bool, reader: Reader, form: Form) -> Iterator[str]:
    if form.is_list or (labelled and form.whole_line):
        yield sentence
        return
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
    elif labelled:
        if not _NO_LABELLED_ANSWER.match(clause):
            yield from possible_answers(whole, is_yes_no=form.is_yes_no)
    elif not _NO_ANSWER.match(clause):
        yield from (part for part in (sentence, clause) if _NAME.fullmatch(part))
        if _NUMBER.match(clause):
            yield re.split(r",\s+(?=[a-z])", clause, maxsplit=1)[0]
        if context.is_formula(sentence):
            yield sentence
        if _YES_NO.fullmatch(head):
            yield head
