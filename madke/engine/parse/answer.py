r"""Read the answer of a reply: one reader for every protocol, role and requested form.

What comes first decides: a conclusion at the start of a line or sentence ("Answer: X", "The answer is X.", ``[X]`` on
a line of its own, ``\boxed{X}``, ``<answer>X</answer>``, ``#### X``); a record that begins a line; a cue inside a
sentence ("so it must be [X]"); and what needs no cue: a letter alone, the last number, and for free text the plain
sentence or phrase itself.
"""

import re
from collections.abc import Container, Iterator
from itertools import pairwise
from typing import Literal

from madke.core.question import Question
from madke.engine.parse.context import (
    MOST,
    NO_CONTEXT,
    OTHER_SPEAKER,
    Conclusion,
    ParseContext,
    Parsed,
    last_sentence,
    nothing,
    outermost,
    pairs,
    parsed_at,
    sentences,
    settle,
    text_before,
)
from madke.engine.parse.markers import (
    EMPHASIS,
    LONGEST_ANSWER,
    is_formula,
    is_placeholder,
    offers_several,
    says_only_where,
    standing,
    unwrap,
    without_citations,
)
from madke.engine.parse.own_words import gives_back, is_example, unquoted, windowed, without
from madke.engine.parse.plain import plain_answer, yes_or_no
from madke.engine.parse.records import ANSWER_KEY, REASON_KEY, own_records, records
from madke.tasks.answer_text import declines, has_words
from madke.tasks.base import Task

Marker = Literal["plain", "alone", "brackets", "parentheses", "boxed", "text"]
r"""How a protocol asks for answers: "The answer is X.", the answer alone, in ``[X]``, ``(X)``, ``\boxed{X}``, free."""

LABELLED_WORDS = 12
"""Words of an answer that is kept as it is; a longer one ends at the first clause that only explains."""


class Reader:
    """A task's reader of one question, and what it says of the form of answers."""

    def __init__(self, task: Task, question: Question) -> None:
        self._task, self._question = task, question
        asks = getattr(task, "asks_yes_or_no", None)
        self.is_math = bool(getattr(task, "reads_last_number", False))
        self.is_yes_no = bool(asks is not None and asks(question))
        self.whole_line = bool(getattr(task, "reads_whole_line", False))
        self.is_list = bool(getattr(task, "is_list", False))
        self.is_open = task.read("words that stand for no answer", question) is not None
        """Whether it accepts free text; a reader of labels or letters does not."""

    def __call__(self, content: str) -> str | None:
        """The answer in the content, without what models write around one; None if the content is not an answer."""
        content = unwrap(content)
        if len(content) > LONGEST_ANSWER or is_placeholder(content) or (offers_several(content) and not self.is_open):
            return None
        return self._task.read(content, self._question)

    def agree(self, one: str | None, other: str | None) -> bool:
        """Whether two conclusions agree: they are the same, or one says the other in more words."""
        if one is None or other is None:
            return one is other
        is_open = self.is_open and not self.is_math
        return self._task.same(one, other, self._question) or (
            is_open and (has_words(one, other) or has_words(other, one))
        )


def answer_of(
    text: str,
    task: Task,
    question: Question,
    marker: Marker = "brackets",
    *,
    shown: Container[int] = (),
    cut: bool = False,
    context: ParseContext = NO_CONTEXT,
) -> Parsed[str | None]:
    r"""The answer of a reply. Every form is read, whatever the requested one is.

    Args:
        text: The reply, without reasoning.
        task: Its reader decides what is an answer, and its matcher which conclusions agree.
        question: The question asked.
        marker: The requested form: ``text`` takes the whole reply, ``parentheses`` also reads ``(X)``.
        shown: The numbers of the passages shown to this call. In brackets they are citations, unless one ends the
            reply or is stated as the answer ("the answer is [7]").
        cut: The reply was stopped at ``max_tokens``: free text at its very end may be incomplete and is not read.
        context: The request. An answer that is only an example of it is ``echoed``.

    Returns:
        Rules: ``labelled``, ``stated``, ``alone``, ``boxed``, ``tag``, ``hashes``, ``finish`` (conclusions);
        ``record``; ``cue``, ``last`` (the marked text of the last sentence); ``yes_no``, ``last_number``, ``phrase``,
        ``sentence``. Without a value: ``declined``, ``contradictory``, ``unreadable``, ``placeholder``, ``example``,
        ``copy``, ``none``.
    """
    reader = Reader(task, question)
    if marker == "text":
        return _whole(text, reader, task, question)
    parsed = _said(text, reader, marker, shown=shown, cut=cut, context=context)
    if parsed.value is None or parsed.span is None or not reader.is_open:
        return parsed
    if parsed.rule in ("sentence", "phrase") and gives_back(text, context):
        return nothing(None, "copy")
    if cut and not reader.is_math and not re.search(r"\W", text[parsed.span[1] - 1 :].rstrip()):
        return nothing(None)
    is_yes_no = reader.is_yes_no and parsed.value.lower() in ("yes", "no")
    return nothing(None, "example") if not is_yes_no and is_example(parsed.value, context) else parsed


def _whole(text: str, reader: Reader, task: Task, question: Question) -> Parsed[str | None]:
    reply = text.strip()
    # The bare word "answer" may be a translation; in brackets it is an echoed placeholder.
    is_marked = reply.strip(EMPHASIS).startswith(("[", "(", "<", "\\"))
    is_echo = is_marked and is_placeholder(unwrap(reply))
    value = task.read(reply, question) if reply and not is_echo else None
    if value is None:
        return nothing(None, "declined" if declines(reply) else "none")
    return parsed_at(value, "text", (0, len(text)))


@windowed
def _said(
    text: str, reader: Reader, marker: Marker, *, shown: Container[int], cut: bool, context: ParseContext
) -> Parsed[str | None]:
    # Replacements keep the length, so that spans refer to the reply.
    cited = _ECHO.sub(lambda echo: "answer:".rjust(len(echo[0])), _DISPLAYED.sub(r" [\1] ", unquoted(text)))
    plain = without_citations(cited, shown, intervals=reader.is_math)
    recorded = _recorded(text, reader)
    outside = without(plain, (record.span for record in records(text)))
    return (
        _concluded(outside, reader, marker, cut=cut)
        or recorded
        or _cued(plain, reader, marker)
        or _marked(plain, reader, marker)
        or (yes_or_no(plain, reader) if reader.is_yes_no else None)
        or (_last_number(plain, reader) if reader.is_math else None)
        or _without_cue(plain, reader, context, cited=cited, cut=cut)
    )


_DISPLAYED = re.compile(r"\\\[([^\[\]\\=+^_{}\n]{1,100})\\\]")
"""Words or a number in LaTeX's display brackets; they count as a marker."""
_ECHO = re.compile(
    r"\[(?:(?:the|my|your|final)[ _]){0,2}(?:answer|letter|label|number|translation|result|option)\]"
    r"(?=[\s*_:]{0,9}[\w\[(\"“$\\*])",
    re.IGNORECASE,
)
"""The placeholder of the requested form, echoed before an answer: "[answer] Jane Austen"."""

_DECOR = r"[*_# \t]{0,9}"
_BULLET = r"(?P<bullet>[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+)?"
_QUALIFIERS = r"(?:(?:final|correct|right|best|closest|only|short|overall|most\s+\w+)\s+){0,3}"
_ANSWER = (
    rf"(?:{_QUALIFIERS}answer(?:\s+(?:choice|option|letter|label))?"
    r"|(?:final|correct|right|best|closest|most\s+\w+)\s+(?:choice|option|label|conclusion|result))"
    r"(?:\s*\([^()\n]{1,40}\))?"
)
_TASK_NOUN = r"(?:label|letter|option|choice|translation|result|solution)"
_FOR = r"(?:\s+(?:to|for)\s+[^.,:;\n]{1,60}?|\s+here)?,?(?:\s+(?:then|therefore|thus|hence),?)?"
_IS = (
    r"(?:(?:is|are|was|remains|(?:would|should|must|will|has\s+to)\s+be)"
    r"(?:\s+(?:still|therefore|thus|then|clearly))?)\b:?"
)
_CONNECTIVES = (
    r"(?:(?:so|thus|therefore|hence|consequently|finally|overall|then|and|but|no|however|wait|actually|sorry|also"
    r"|in\s+(?:conclusion|short|summary|the\s+end)|as\s+a\s+result"
    r"|(?:based\s+on|given|from|after|considering)\s[^.,:\n]{1,80})[,:.]?\s+)"
    r"{0,3}(?:(?:i|we)\s+(?:\w+\s+){0,2}(?:think|believe|conclude|say|agree)\s+(?:with\s+[^.,:\n]{1,40}?\s+)?(?:that\s+)?)?"
)
_CONCLUSION = re.compile(
    rf"(?:^{_BULLET}|(?<=[.!?])[\"')*_\]]{{0,3}}[ \t]{{1,9}}|(?<=[\].])[ \t]+){_DECOR}(?:"
    rf"(?P<label>(?:(?:so|thus|therefore|hence),?\s+)?(?:(?:the|my|our|here\s+is\s+(?:my|the))\s+)?(?P<noun>{_ANSWER}|{_TASK_NOUN})"
    r"[*_ \t]{0,4}(?:[:=]|[ \t][-\u2013\u2014](?=[ \t]))[*_ \t]{0,4})"
    rf"|(?P<heading>(?:(?:the|my|our)\s+)?{_ANSWER}[*_ \t]{{0,4}}:?[*_ \t]{{0,4}})(?=\n)"
    rf"|(?P<sentence>{_CONNECTIVES}(?:(?:the|my|our)\s+)?{_ANSWER}{_FOR}\s+{_IS})"
    r"|(?P<closed>(?:the|my)\s+(?:label|verdict)\s+is\b)"
    r")\s{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a conclusion. The text after it holds the answer."""
_FINAL = re.compile(r"\bfinal\b", re.IGNORECASE)
_LONE_BRACKET = re.compile(r"^[^\w\n\[(]{0,9}(?P<content>\[[^\n]{1,300}\]|\([^()\n]{1,100}\))[^\w\n]*$", re.MULTILINE)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}(?=\{)")
_FORMS = re.compile(
    r"<(?P<tag>(?:final_?)?answer)>(?P<tagged>[^<]{0,1000}(?:<(?!/?(?:final_?)?answer>)[^<]{0,1000}){0,9})</(?P=tag)>"
    r"|^####\s{0,9}(?P<hashes>[-+$€£]?\d[^\n]{0,60})$|\bfinish\[(?P<finish>[^\[\]\n]{1,300})\]",
    re.IGNORECASE | re.MULTILINE,
)
_REQUESTED = "X"  # what prompts write for the answer in the forms (X) and boxed
_ABBREVIATION = "".join(rf"(?<!\b{word})" for word in ("[A-Z]", "St", "Mr", "Ms", "Mrs", "Dr", "Jr", "Sr", "Mt", "No"))
_SENTENCE = re.compile(rf"[^\n]{{0,300}}?(?=\n|\Z|\?|{_ABBREVIATION}[.!](?:[\s\"*]|\Z))[.!]?")
_LONG_SENTENCE = re.compile(r"[^\n]{0,999}")
_PARAGRAPH = re.compile(r"(?:[^\n]+\n?)+")


def _concluded(text: str, reader: Reader, marker: Marker, *, cut: bool) -> Parsed[str | None] | None:
    """The value on which the conclusions agree. Those in a list count only if there are no others."""
    found = sorted(
        [*_stated(text, reader, cut=cut), *_alone(text, reader, marker), *_formed(text, reader)],
        key=lambda one: one[0].span[1],
    )
    plain = [one for one, in_list in found if not in_list]
    chosen = plain or [one for one, _ in found]
    readable = [one for one in chosen if one.rule != "placeholder"]
    settled = settle(text, readable, reader.agree, None)
    if settled is not None and settled.value is None and settled.status == "ok":
        return nothing(None, settled.rule)
    if settled is None and chosen and not any(re.search(r"\w", text[end:]) for end in [chosen[-1].span[1]]):
        return nothing(None, "placeholder")
    return settled


_Found = tuple[Conclusion[str | None], bool]


def _stated(text: str, reader: Reader, *, cut: bool) -> Iterator[_Found]:
    for cue in list(_CONCLUSION.finditer(text))[-MOST:]:
        if cue["closed"] and reader.is_open:
            continue
        span = _after(text, cue, reader)
        is_cut_off = cut and not re.search(r"\W", text[span[1] - 1 :].rstrip())
        if not text[slice(*span)].strip() or standing(text, *span) == "none" or is_cut_off:
            continue
        is_label = not cue["sentence"] and not cue["closed"]
        value, rule = _content(text[slice(*span)], reader, is_label=is_label)
        if rule != "none":
            rule = rule or ("labelled" if is_label else "stated")
            is_final = bool(_FINAL.search(cue[0]))
            yield Conclusion(value=value, span=span, rule=rule, is_final=is_final), bool(cue["bullet"])


def _after(text: str, cue: re.Match[str], reader: Reader) -> tuple[int, int]:
    """The span of what a cue introduces: the rest of its sentence or line, or the next line."""
    if reader.whole_line and not cue["sentence"]:
        line = (_PARAGRAPH if reader.is_list else _LONG_SENTENCE).match(text, cue.end())
    else:
        line = _SENTENCE.match(text, cue.end()) or _LONG_SENTENCE.match(text, cue.end())
    said = line[0] if line else ""
    start = cue.end() + len(said) - len(said.lstrip())
    return start, start + len(said.strip())


def _alone(text: str, reader: Reader, marker: Marker) -> Iterator[_Found]:
    """Brackets on a line of their own; without free text also a label or letter on the first or last line."""
    balanced = pairs(text, "[]") | pairs(text, "()")
    for line in list(_LONE_BRACKET.finditer(text))[-MOST:]:
        start, end = line.span("content")
        is_round = text[start] == "("
        if balanced.get(start) != end or (
            is_round and reader.is_open and (marker != "parentheses" or re.search(r"\w", text[line.end() :]))
        ):
            continue
        if standing(text, start, end) != "none" and (value := reader(text[start + 1 : end - 1])) is not None:
            yield Conclusion(value=value, span=line.span("content"), rule="alone"), False
    if reader.is_open:
        return
    lines = [line for line in re.finditer(r"[^\n]+", text) if not line[0].isspace()][-MOST:]
    read = [(line, value) for line in lines if (value := _lone_label(line[0], reader)) is not None]
    if len({value for _, value in read}) == 1:
        for line, label in read:
            if line in (lines[0], lines[-1]) or re.fullmatch(r"\W*[A-Z]\W*", line[0]):
                yield Conclusion(value=label, span=line.span(), rule="alone"), False


_LABEL_LINE = re.compile(r"(?![a-z]?\W*\Z)(?:.{0,30}|\W*[A-Z][).:]\s.*)")
"""A line that may be only a label: a short line, or one that begins with an option letter."""
_TURNED_DOWN = re.compile(r"\b(?:not(?!\s+enough)|wrong|incorrect|false|cannot)\b|n['’]t\b", re.IGNORECASE)  # noqa: RUF001


def _lone_label(line: str, reader: Reader) -> str | None:
    return reader(line) if _LABEL_LINE.fullmatch(line) and not _TURNED_DOWN.search(line) else None


def _formed(text: str, reader: Reader) -> Iterator[_Found]:
    """Boxes, tags, hashes and calls of Finish that begin or end a line. Others are cues: see :func:`_cued`."""
    for content, span, rule in list(_forms(text))[-MOST:]:
        line = text[text.rfind("\n", 0, span[0]) + 1 : span[0]]
        if (
            re.search(r"\w", line)
            and rule != "finish"
            and not re.search(r"\b(?:answer|verdict)\b", line, re.IGNORECASE)
        ):
            continue
        if standing(text, span[0], span[1]) == "none" and rule != "finish":
            continue
        value = reader(content)
        if value is not None or not is_placeholder(unwrap(content)):
            yield Conclusion(value=value, span=span, rule=rule if value else "unreadable"), False


def _forms(text: str) -> Iterator[tuple[str, tuple[int, int], str]]:
    braces = pairs(text, "{}") if "\\" in text else {}
    for box in _BOXED.finditer(text) if braces else ():
        end = braces.get(box.end())
        # The length limit keeps nested boxes from taking quadratic time.
        if end is not None and end - box.end() <= LONGEST_ANSWER and text[box.end() + 1 : end - 1] != _REQUESTED:
            yield text[box.end() + 1 : end - 1], (box.start(), end), "boxed"
    for form in _FORMS.finditer(text):
        rule = next(name for name in ("tagged", "hashes", "finish") if form[name] is not None)
        yield form[rule], form.span(), "tag" if rule == "tagged" else rule


_FILLER = re.compile(
    r"[\s:]{0,9}(?:(?:most\s+likely|likely|probably|definitely|clearly|indeed|still|simply|therefore|thus|hence|then|that"
    r"|option|choice|letter|(?:final\s+)?answer)\b[\s,:]{1,9}){0,4}",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"(?:the|my)\s+(?:final\s+)?answer\s+is\b", re.IGNORECASE)
_SEVERAL = re.compile(r"\W{0,9}(?:either|neither|both|yes\s+and\s+no)\b", re.IGNORECASE)
_UNDECIDED = re.compile(
    r"\W{0,9}(?:unclear|uncertain|ambiguous|debatable|subjective|not\s+(?:clear|certain|known|possible|sure|provided|given"
    r"|listed|stated|mentioned|specified|in\s+(?:the|this|any|these)\b)|(?:that\s+)?(?:nobody|no\s+one)\s+knows|(?:hard|difficult)\s+to)",
    re.IGNORECASE,
)
_OF_THE_ANSWER = re.compile(
    r"\W*(?:(?:also|still|indeed|clearly)\s+){0,2}(?:(?:(?:in)?(?:correct|accurate|consistent)|right|wrong|(?:un)?supported"
    r"|reasonable|plausible|based|derived|(?:directly\s+|explicitly\s+|clearly\s+)?(?:stated|mentioned|given|found|provided))(?=\W*\Z|[,:;]|\s+(?:and|because|since|as|in|on|by|for|with|but)\b)"
    rf"|also\s|(?:[Tt]he|[Mm]y)\s+(?:final\s+)?answer(?:\s+is?)?\W*\Z|(?i:{OTHER_SPEAKER})\W*\Z)"
)
"""Words after "the answer is" that say something of the answer, or begin to say it again."""
_NO_ANSWER = re.compile(
    r"(?:not\b|i\s+(?:do|can|am|would|will)\b|we\s+(?:do|can)\b|cannot\b|see\b|there\s+(?:is|are)\b)", re.I
)
_INSTRUCTS = re.compile(
    r"\bfor\s+(?:instance|example)\b|\bin\s+the\s+form\b|\bone\s+of\s+(?:two|three|four)\b", re.IGNORECASE
)
"""Words of a rule of the request, not of an answer."""
_LEADS_TO_MARK = re.compile(rf"(?:{_FILLER.pattern}|\W*(?:either|not\b[^.!?\n]*\bbut)\b)[^\w\[]*", re.IGNORECASE)
_JOINED = re.compile(r"[\s*_`\"'$]*(?:[,;/&|]|(?:[^.!?\n]{0,60}[\s,])?(?:or|and|and/or))[\s*_`\"'$]*", re.IGNORECASE)
_GROUP = re.compile(
    r"\*\*(?P<bold>[^*\n]{1,200})\*\*|[\"“](?P<quoted>[^\"“”\n]{1,200})[\"”]|\$(?P<math>[^$\n]{1,200})\$"
    r"|\((?P<round>[^()\n]{1,100})\)(?![\w(^])"
)
_EXPLAINS = re.compile(
    r",\s+(?:which|who|where|when|as|because|since|and)\s|\s+(?:because|since)\s|;|\s+\(", re.IGNORECASE
)
_REMARKS = re.compile(r",\s+(?=[a-z])")
_HEDGE = re.compile(r",\s+(?:i|we)\s+(?:believe|think|guess|suppose|would\s+say)\W*\Z", re.IGNORECASE)
_CITED = re.compile(r"\s{1,9}(?:\[\d{1,3}(?:\s?[,-]\s?\d{1,3})*\]\s*)+\Z")
_ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?[$€£]?\d")
_NAME = re.compile(r"(?:the )?[A-Z][\w'’.&/-]*(?:,? (?:[A-Z\d][\w'’.&/-]*|of|the|and|in|de|la|von|van|der)){0,9}")  # noqa: RUF001
_DASH = re.compile(r"\s+[-\u2013\u2014]\s|,")
_LETTERS = re.compile(r"\W*[A-Z]\W*(?:\b(?:or|and)\b|[/&,])\W*[A-Z]\b(?!\w)")
_LETTER = re.compile(r"(?:option\s+|choice\s+|answer\s+)?[(\[*]{0,3}([A-Z])[)\]*.:]{0,3}(?=\s|\W*\Z)")


def _content(raw: str, reader: Reader, *, is_label: bool) -> tuple[str | None, str]:
    """The answer in the text after a cue, and a rule if it decides otherwise: ``none`` if the text states nothing."""
    said = _FILLER.sub("", raw, count=1).strip(EMPHASIS)
    if not reader.is_list and (_UNDECIDED.match(raw) or declines(raw.strip(EMPHASIS)) or declines(said)):
        return None, "declined"
    bare = unwrap(raw.strip(EMPHASIS).rstrip(".!"))
    if is_placeholder(bare) or is_placeholder(raw.strip()):
        return None, "placeholder" if raw.strip(EMPHASIS) else "none"
    spans = outermost(raw)
    marks = [(start, end) for start, end in spans if standing(raw, start, end) != "none"]
    if marks and not reader.is_list and _LEADS_TO_MARK.fullmatch(raw, 0, marks[0][0]):
        contents = [raw[start + 1 : end - 1] for start, end in marks]
        values = [value for content in contents if (value := reader(content)) is not None]
        if not values:
            first = unwrap(contents[0])
            return None, "declined" if declines(first) else "placeholder" if is_placeholder(first) else "unreadable"
        joined = any(_JOINED.fullmatch(raw, one[1], other[0]) for one, other in pairwise(marks))
        return (None, "contradictory") if len(set(values)) > 1 and joined else (values[0], "")
    if raw.count("[") != raw.count("]") and not reader.is_math:
        return None, "none"
    if not reader.is_list and (_OF_THE_ANSWER.match(raw) or says_only_where(bare)):
        return None, "none"
    if not reader.is_open:
        if _SEVERAL.match(raw) or offers_several(raw) or _LETTERS.match(raw):
            return None, "contradictory"
        value = next((value for part in _closed_parts(raw) if (value := reader(part)) is not None), None)
        return (
            (value, "")
            if value is not None
            else (None, "unreadable" if is_label or re.match(r"\W*none\b", raw) else "none")
        )
    if (re.search(r"[{}]", raw) and "\\" not in raw) or _INSTRUCTS.search(raw):
        return None, "none"
    value = next((value for part in _open_parts(raw, reader) if (value := reader(part)) is not None), None)
    return (value, "") if value is not None else (None, "none")


def _closed_parts(raw: str) -> Iterator[str]:
    filler = _FILLER.match(raw)
    whole = raw[filler.end() if filler else 0 :].strip(" \t\n,;").rstrip(".!")
    group = _GROUP.match(whole)
    clause = _EXPLAINS.split(whole, maxsplit=1)[0].strip(EMPHASIS)
    letter = _LETTER.match(whole)
    for part in (whole, group[group.lastgroup or 0] if group else "", clause, _DASH.split(clause, maxsplit=1)[0]):
        if part and not re.fullmatch(r"[a-z]\W*", part):
            yield part
    if letter and not re.match(r"A\s+[a-z]", whole):
        yield letter[1]


def _open_parts(raw: str, reader: Reader) -> Iterator[str]:
    if reader.is_list or reader.whole_line:
        yield _ITEM.sub("", raw).strip().removesuffix(".") if reader.is_list else raw
        return
    said = _FILLER.sub(
        "", unwrap(_FILLER.sub("", raw, count=1)) if _LEAD_IN.match(raw.lstrip(EMPHASIS)) else raw, count=1
    )
    said = said.strip(" \t\n,;")
    said = said if re.search(r"\b[A-Z]\.\Z", said) else said.rstrip(".!")
    if reader.is_yes_no and (word := re.match(r"\W{0,9}(yes|no)\b(?=\W|\Z)", said, re.IGNORECASE)):
        yield word[1]
    said = _CITED.sub("", _HEDGE.sub("", said))
    group = _GROUP.match(said)
    if (
        group
        and re.match(r"\W*\Z|[,.;:]", said[group.end() :])
        and not (group["round"] and _TUPLE.fullmatch(group["round"]))
    ):
        yield group[group.lastgroup or 0]
    if yes_no := re.match(r"\W{0,9}(yes|no|true|false)(?=,|\s+[-\u2013\u2014]\s)", said, re.IGNORECASE):
        yield yes_no[1]
    if said.startswith("((") and said.endswith("))"):
        yield said[1:-1]
    if _NO_ANSWER.match(said):
        return
    clause = _EXPLAINS.split(said, maxsplit=1)[0].rstrip(" ,")
    if reader.is_math:
        yield from (part for part in (said, clause) if re.search(r"\d|\\|^\W*\w{1,3}\W*$", part))
    elif _NUMBER.match(said):
        yield _REMARKS.split(clause, maxsplit=1)[0]
    elif clause and (len(said.split()) > LABELLED_WORDS or _NAME.fullmatch(clause.strip(EMPHASIS))):
        yield clause
    yield said


def _recorded(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The answer on which the records of the reply agree; None if they have no field for one."""
    found: list[Conclusion[str | None]] = []
    for record in own_records(text)[-MOST:]:
        fields = [f for f in record.fields if f.value and ANSWER_KEY.search(f.key) and not REASON_KEY.search(f.key)]
        # The record's own answer, not that of a nested record.
        outer = min((field.depth for field in fields), default=0)
        for field in fields:
            if field.whole and field.depth == outer:
                content, value = unwrap(field.value), reader(field.value)
                rule = "placeholder" if is_placeholder(content) else "declined" if declines(content) else "unreadable"
                found.append(Conclusion(value=value, span=field.span, rule=rule if value is None else "record"))
    settled = settle(text, found, reader.agree, None)
    return nothing(None, settled.rule) if settled is not None and settled.value is None else settled


_CUE = re.compile(
    rf"\b{_ANSWER}{_FOR}\s+{_IS}|\b{_ANSWER}\b[^.!?:\n]{{0,40}}[:=][*_]{{0,3}}"
    r"|\b(?:i|we)(?:['’]d|\s+(?:would|will|must|therefore|thus))?\s+(?:answer|choose|pick|select|go\s+with|settle\s+on|opt\s+for)\b"  # noqa: RUF001
    r"(?:\s+(?:with|that|the\s+answer|option))?:?"
    r"|\b(?:it\s+)?(?:must|has\s+to|can\s+only)\s+be(?=\s*[*_]{0,3}[\[(])|\b(?:label|verdict)\s+is\b",
    re.IGNORECASE,
)
"""Words inside a sentence that introduce the answer."""
_BEST = r"(?:correct|right|best|(?:most\s+)?(?:likely|plausible|suitable|appropriate|reasonable)|only)"
_NAMED = re.compile(
    rf"(?<![\w'’])[(\[*]{{0,3}}([A-Z])[)\]*]{{0,3}}\s+is\s+the\s+(?:{_BEST}\s+){{1,2}}(?:answer|choice|option|one)\b"  # noqa: RUF001
    rf"|\b(?:[Ss]o|[Tt]hus|[Hh]ence|[Tt]herefore),?\s+(?:(?:option|choice|answer)\s+)?[(\[*]{{0,3}}([A-Z])[)\]*]{{0,3}}"
    rf"\s+is\s+(?:the\s+)?{_BEST}\b(?=[^.!?\n]*[^\w\n]*\Z)"
)


def _cued(text: str, reader: Reader, marker: Marker) -> Parsed[str | None] | None:
    """The last answer that a cue inside a sentence introduces, or that stands in a box inside one."""
    found: list[tuple[str | None, tuple[int, int], str]] = []
    for cue in list(_CUE.finditer(text))[-MOST:]:
        sentence = _SENTENCE.match(text, cue.end()) or _LONG_SENTENCE.match(text, cue.end())
        if sentence is None or not sentence[0].strip():
            continue
        if standing(text, sentence.end() - len(sentence[0].lstrip()), sentence.end()) == "none":
            continue
        if cue[0].lower().startswith(("label", "verdict")) and reader.is_open:
            continue
        value, rule = _content(sentence[0], reader, is_label=False)
        if value is not None or rule in ("contradictory", "declined", "unreadable"):
            found.append((value, sentence.span(), rule or "cue"))
    found += [
        (value, span, rule)
        for content, span, rule in list(_forms(text))[-MOST:]
        if (value := reader(content)) is not None
    ]
    if not reader.is_open:
        for named in list(_NAMED.finditer(text))[-MOST:]:
            group = named.lastindex or 0
            if (value := reader(named[group])) is not None:
                found.append((value, named.span(group), "cue"))
    found += [(mark[1], mark[0], "cue") for mark in _bracketed(text, reader, marker) if mark[2] == "stated"]
    if not found:
        return None
    value, span, rule = max(found, key=lambda one: one[1][1])
    return nothing(None, rule) if value is None else parsed_at(value, rule, span)


_TERSE = re.compile(r"[\s*_]*[A-Z\d$€£-]")
_BEFORE_RESULT = re.compile(r"(?:\b(?:is|are|was|were|equals|be)|[=:])[\s*_]*\Z", re.IGNORECASE)
_REMARK = re.compile(r"\s*(?:(?:note|n)\s+\d+|sic|see\s.*|.*\bet al\b.*|'.*',\s*'.*|\".*\",\s*\".*)\s*", re.DOTALL)
_ENDING = r"[ \t*_`\"'”’$\\]*"  # noqa: RUF001
_ENDS_SENTENCE = re.compile(rf"{_ENDING}(?:[.!]?{_ENDING}(?:\n|\Z)|[.!][ \t])")
_TUPLE = re.compile(r"(?![(\[]|\d{1,3}(?:,\d{3})+\Z)[^,]+(?:,[^,]+)+")


def _bracketed(text: str, reader: Reader, marker: Marker) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Span, value and standing of the brackets that hold an answer."""
    kind = "()" if marker == "parentheses" else "[]"
    for start, end in outermost(text, kind) if marker != "boxed" else ():
        content = text[start + 1 : end - 1].removesuffix("\\right")
        if (kind == "()" and content == _REQUESTED) or _REMARK.fullmatch(content):
            continue
        if kind == "()" and _TUPLE.fullmatch(content):
            content = f"({content})"
        how = standing(text, start, end)
        if how != "none" and (value := reader(content)) is not None:
            yield (start, end), value, how


def _marked(text: str, reader: Reader, marker: Marker) -> Parsed[str | None] | None:
    """The answer in brackets without a cue, if all of them, or those of the last sentence, agree."""
    closing = last_sentence(text)
    read = [
        (span, value) for span, value, _ in _bracketed(text, reader, marker) if _is_offered(text, span, closing, reader)
    ]
    if len({value for _, value in read}) != 1:
        read = [(span, value) for span, value in read if span[0] >= closing]
    return parsed_at(read[-1][1], "last", read[-1][0]) if len({value for _, value in read}) == 1 else None


def _is_offered(text: str, span: tuple[int, int], closing: int, reader: Reader) -> bool:
    """Whether free text in brackets may be an answer and not a remark or a footnote.

    It ends the last sentence, or is a name or number in that sentence or after "is". In parentheses it must be
    mathematics that ends the reply.
    """
    start, end = span
    if not reader.is_open:
        return True
    if text[start] == "(":
        return is_formula(text[start + 1 : end - 1]) and not re.search(r"\w", text[end:])
    if start >= closing and _ENDS_SENTENCE.match(text, end):
        return True
    is_terse = _TERSE.match(text, start + 1)
    return bool(is_terse and (start >= closing or _BEFORE_RESULT.search(text_before(text, start))))


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


def _last_number(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The last number or formula of the last sentence, after an equals sign if there is one."""
    if _declined(text):
        return nothing(None, "declined")
    text = without(text, (span for span in outermost(text) if is_placeholder(text[span[0] + 1 : span[1] - 1])))
    text = _CONFIDENCE_LINE.sub(lambda line: " " * len(line[0]), text)
    closing = last_sentence(text)
    formula = next(reversed(list(_IN_MATH.finditer(text, closing))), None)
    if formula and not re.search(r"\d", text[formula.end() :]):
        result = (formula[1] or formula[2]).rpartition("=")[2].strip()
        if is_formula(result) and (value := reader(result)) is not None:
            return parsed_at(value, "last_number", formula.span())
    closing = max(closing, text.rfind("=", closing))
    numbers = [n for n in _LAST_NUMBER.finditer(text, closing) if not _COUNTED.search(text_before(text, n.start()))]
    if not numbers:
        return None
    number = numbers[0 if text[closing] == "=" else -1]
    is_part = _TERM.search(text_before(text, number.start())) or text.startswith("^", number.end())
    value = None if is_part else reader(number.group())
    return None if value is None else parsed_at(value, "last_number", number.span())


def _declined(text: str) -> bool:
    return any(declines(text[start:end]) for start, end in list(sentences(text))[-MOST:])


def _without_cue(text: str, reader: Reader, context: ParseContext, *, cited: str, cut: bool) -> Parsed[str | None]:
    if reader.is_open and not reader.is_math:
        return plain_answer(text, reader, context, cited=cited, cut=cut)
    if _declined(text):
        return nothing(None, "declined")
    is_given_back = any(is_placeholder(unwrap(text[start:end])) for start, end in outermost(text))
    return nothing(None, "placeholder" if is_given_back else "none")


def marked(answer: str, marker: Marker) -> str:
    """Put an answer into its marker."""
    left, right = {
        "plain": ("", ""),
        "alone": ("", ""),
        "brackets": "[]",
        "parentheses": "()",
        "boxed": ("\\boxed{", "}"),
        "text": ("", ""),
    }[marker]
    return left + answer + right
