r"""Read the answer of a reply: one reader for every protocol, role and requested form.

What comes first decides: a conclusion at the start of a line or sentence ("Answer: X", "The answer is X.", ``[X]`` on
a line of its own, ``\boxed{X}``, ``<answer>X</answer>``, ``#### X``); a record that begins a line; a cue inside a
sentence ("so it must be [X]"); and what needs no cue: a letter alone, the last number, and for free text the plain
sentence or phrase itself.
"""

import re
from collections.abc import Collection, Container, Iterator
from itertools import pairwise
from typing import Literal

from madke.core.question import Question
from madke.engine.parse.grammar import (
    CONTEXT_WIDTH,
    EMPHASIS,
    MAX_ANSWER,
    MAX_MARKS,
    OTHER_SPEAKER,
    Mark,
    Parsed,
    Reader,
    has_word,
    is_phrase,
    is_placeholder,
    last_sentence,
    lead,
    line_before,
    nothing,
    outermost,
    pairs,
    parsed_at,
    says_only_where,
    sentences,
    settle,
    standing,
    states,
    text_before,
    unwrap,
)
from madke.engine.parse.reply import (
    ANSWER_KEY,
    MAX_READ,
    NO_CONTEXT,
    QUOTED_LINE,
    REASON_KEY,
    ParseContext,
    Reply,
    gives_back,
    is_example,
    reading,
)
from madke.tasks.base import BaseTask, declines, has_words

Marker = Literal["plain", "alone", "brackets", "parentheses", "boxed", "text"]
r"""How a protocol asks for answers: "The answer is X.", the answer alone, in ``[X]``, ``(X)``, ``\boxed{X}``, free."""

MAX_LABELLED_WORDS = 12
"""Words of an answer that is kept as it is; a longer one ends at the first clause that only explains."""

_SENTENCE = re.compile(
    r"[^\n]{0,300}?(?=\n|\Z|\?|"
    + "".join(rf"(?<!\b{word})" for word in ("[A-Z]", "St", "Mr", "Ms", "Mrs", "Dr", "Jr", "Sr", "Mt", "No"))
    + r"[.!](?:[\s\"*]|\Z))[.!]?"
)
_LINE = re.compile(r"[^\n]{0,999}")
_PARAGRAPH = re.compile(r"(?:[^\n]+\n?)+")


class AnswerReader(Reader[str]):
    """A task's reader of one question, and what it says of the form of answers."""

    nouns = (
        r"(?:(?:(?:final|correct|right|best|closest|only|short|overall|most\s+\w+)\s+){0,3}"
        r"answer(?:\s+(?:choice|option|letter|label))?"
        r"|(?:final|correct|right|best|closest|most\s+\w+)\s+(?:choice|option|label|conclusion|result))"
        r"(?:\s*\([^()\n]{1,40}\))?"
    )
    labels = r"label|letter|option|choice|translation|result|solution"

    def __init__(self, task: BaseTask, question: Question, marker: Marker = "brackets") -> None:
        self._task, self._question = task, question
        self.is_math, self.is_list, self.whole_line = task.reads_last_number, task.is_list, task.reads_whole_line
        self.is_yes_no = task.asks_yes_or_no(question)
        self.is_open = task.read("words that stand for no answer", question) is not None
        self.takes_round = marker == "parentheses"
        if not self.is_open:
            self.nouns += r"|(?<=the )(?:label|verdict)|(?<=my )(?:label|verdict)"

    def value(self, content: str) -> str | None:
        """The answer in the content, without what models write around one; None if the content is not an answer."""
        content = unwrap(content)
        if len(content) > MAX_ANSWER or is_placeholder(content) or (not self.is_open and _OFFERS.match(content)):
            return None
        return self._task.read(content, self._question)

    def same(self, one: str | None, other: str | None) -> bool:
        """Whether two conclusions agree: they are the same, or one says the other in more words."""
        if one is None or other is None:
            return one is other
        is_open = self.is_open and not self.is_math
        return self._task.same(one, other, self._question) or (
            is_open and (has_words(one, other) or has_words(other, one))
        )

    def extent(self, text: str, start: int, *, is_label: bool) -> int:
        """The end of the sentence; with a label, of the line or paragraph for answers that are whole texts."""
        pattern = _SENTENCE if not (self.whole_line and is_label) else _PARAGRAPH if self.is_list else _LINE
        match = pattern.match(text, start) or _LINE.match(text, start)
        return match.end() if match else start

    def offers(self, text: str, span: tuple[int, int], closing: int) -> bool:
        """Whether free text in brackets may be an answer: it ends the reply, or is a name or number."""
        start, end = span
        ends = not has_word(text[end:])
        if not self.is_open or (ends and text[start] == "["):
            return True
        is_result = start >= closing or _BEFORE_RESULT.search(text_before(text, start))
        return bool(is_result and _TERSE.match(text, start + 1)) and (ends or text[start] == "[")

    def lone(self, line: str) -> str | None:
        """The label or letter that a line consists of, or that begins a short one."""
        return self.value(line) if _LONE_LINE.fullmatch(line) and not _TURNED_DOWN.search(line) else None

    def read_statement(self, statement: str, *, is_label: bool) -> tuple[str | None, str]:
        """The answer in the text after a cue, and a rule if it has none: ``none`` if the text states nothing."""
        plain = _FILLER.sub("", statement, count=1).strip(EMPHASIS)
        bare = unwrap(statement.strip(EMPHASIS).rstrip(".!"))
        if not self.is_list and (_UNDECIDED.match(statement) or declines(statement.strip(EMPHASIS)) or declines(plain)):
            return None, "declined"
        if is_placeholder(bare) or is_placeholder(statement):
            return None, "placeholder" if statement.strip(EMPHASIS) else "none"
        brackets = [span for span in outermost(statement) if standing(statement, *span) != "none"]
        if brackets and not self.is_list and _LEADS_TO_MARK.fullmatch(statement, 0, brackets[0][0]):
            return self._in_brackets(statement, brackets)
        if statement.count("[") != statement.count("]") and not self.is_math:
            return None, "none"
        if not self.is_list and (_OF_THE_ANSWER.match(statement) or says_only_where(bare)):
            return None, "none"
        if not self.is_open and (_SEVERAL.match(statement) or _OFFERS.match(statement) or _LETTERS.match(statement)):
            return None, "contradictory"
        if self.is_open and (_INSTRUCTS.search(statement) or (re.search(r"[{}]", statement) and "\\" not in statement)):
            return None, "none"
        parts = self._open_parts(statement) if self.is_open else _closed_parts(statement)
        value = next((value for part in parts if (value := self.value(part)) is not None), None)
        is_unreadable = value is None and not self.is_open and (is_label or re.match(r"\W*none\b", statement))
        return value, "unreadable" if is_unreadable else "none" if value is None else ""

    def _in_brackets(self, statement: str, spans: list[tuple[int, int]]) -> tuple[str | None, str]:
        contents = [statement[start + 1 : end - 1] for start, end in spans]
        values = [value for content in contents if (value := self.value(content)) is not None]
        if not values:
            first = unwrap(contents[0])
            return None, "declined" if declines(first) else "placeholder" if is_placeholder(first) else "unreadable"
        joined = any(_JOINED.fullmatch(statement, one[1], other[0]) for one, other in pairwise(spans))
        return (None, "contradictory") if len(set(values)) > 1 and joined else (values[0], "")

    def _open_parts(self, raw: str) -> Iterator[str]:
        if self.is_list or self.whole_line:
            yield _ITEM.sub("", raw).strip().removesuffix(".") if self.is_list else raw
            return
        text = unwrap(_FILLER.sub("", raw, count=1)) if _LEAD_IN.match(raw.lstrip(EMPHASIS)) else raw
        text = _FILLER.sub("", text, count=1).strip(" \t\n,;")
        text = text if re.search(r"\b[A-Z]\.\Z", text) else text.rstrip(".!")
        if self.is_yes_no and (word := re.match(r"\W{0,9}(yes|no)\b(?=\W|\Z)", text, re.IGNORECASE)):
            yield word[1]
        text = _HEDGE.sub("", text)
        group = _GROUP.match(text)
        if group and re.match(r"\W*\Z|[,.;:]", text[group.end() :]) and not (group["round"] and "," in group["round"]):
            yield group[group.lastgroup or 0]
        if yes_no := re.match(r"\W{0,9}(yes|no|true|false)(?=,|\s+[-\u2013\u2014]\s)", text, re.IGNORECASE):
            yield yes_no[1]
        if _NO_ANSWER.match(text):
            return
        clause = _EXPLAINS.split(text, maxsplit=1)[0].rstrip(" ,")
        if self.is_math:
            yield from (part for part in (text, clause) if re.search(r"\d|\\|^\W*\w{1,3}\W*$", part))
        elif _NUMBER.match(text):
            yield _REMARKS.split(clause, maxsplit=1)[0]
        elif clause and (len(text.split()) > MAX_LABELLED_WORDS or _NAME.fullmatch(clause.strip(EMPHASIS))):
            yield clause
        yield text

    def marks(self, text: str) -> list[Mark[str]]:
        """With boxes, tags, hashes, calls of Finish, and letters that are called right."""
        all_marks = [*super().marks(text), *self._form_marks(text)]
        for named in list(_NAMED.finditer(text))[-MAX_MARKS:] if not self.is_open else ():
            group = named.lastindex or 0
            if (value := self.value(named[group])) is not None:
                all_marks.append(Mark(value=value, span=named.span(group), rule="cue", rank="cue"))
        return sorted(all_marks, key=lambda mark: mark.span[1])

    def _form_marks(self, text: str) -> Iterator[Mark[str]]:
        """Forms of an answer. They are conclusions if they begin a line or follow "answer" on it."""
        for content, span, rule in list(_forms(text))[-MAX_MARKS:]:
            line = line_before(text, span[0])
            begins = not has_word(line) or re.search(r"\b(?:answer|verdict)\b", line, re.IGNORECASE)
            value = self.value(content)
            if rule == "finish" or (begins and standing(text, *span) != "none"):
                if value is not None or not is_placeholder(unwrap(content)):
                    yield Mark(value=value, span=span, rule=rule if value else "unreadable")
            elif value is not None:
                yield Mark(value=value, span=span, rule=rule, rank="cue")

    def from_records(self, reply: Reply) -> Parsed[str | None] | None:
        """The answer on which the records of the reply agree; None if they have no field for one."""
        marks: list[Mark[str]] = []
        for record in reply.records[-MAX_MARKS:]:
            fields = [f for f in record.fields if f.value and ANSWER_KEY.search(f.key) and not REASON_KEY.search(f.key)]
            # The record's own answer, not that of a nested record.
            outer = min((field.depth for field in fields), default=0)
            for field in fields:
                if field.whole and field.depth == outer:
                    content, value = unwrap(field.value), self.value(field.value)
                    rule = (
                        "placeholder" if is_placeholder(content) else "declined" if declines(content) else "unreadable"
                    )
                    marks.append(Mark(value=value, span=field.span, rule=rule if value is None else "record"))
        return settle(reply.unmasked, marks, self.same)

    def last_number(self, text: str) -> Parsed[str | None] | None:
        """The last number of the last sentence, or the first one after its last equals sign."""
        if _is_refusal(text):
            return nothing(None, "declined")
        text = ASIDE.sub(lambda line: " " * len(line[0]), text)
        closing = last_sentence(text)
        closing = max(closing, text.rfind("=", closing))
        numbers = list(_LAST_NUMBER.finditer(text, closing))
        if not numbers:
            return None
        number = numbers[0 if text[closing] == "=" else -1]
        is_part = _NO_RESULT.search(text_before(text, number.start())) or text.startswith("^", number.end())
        value = None if is_part else self.value(number.group())
        return None if value is None else parsed_at(value, "last_number", number.span())

    def yes_or_no(self, text: str) -> Parsed[str | None] | None:
        """The Yes or No with which the first or last sentence begins (rule ``yes_no``); if both do, they must agree."""
        spans = [(start, end) for start, end in sentences(text) if has_word(text[start:end])]
        words = [word for start, end in {*spans[:1], *spans[-1:]} if (word := _YES_OR_NO.match(text, start, end))]
        if not words:
            return nothing(None, "contradictory") if _BOTH.match(text) else None
        if len({word["word"].lower() for word in words}) > 1 or _BOTH.match(text):
            return nothing(None, "contradictory")
        value = self.value(words[-1]["word"])
        return None if value is None else parsed_at(value, "yes_no", words[-1].span("word"))

    def plain_answer(self, text: str, context: ParseContext, *, cited: str, cut: bool) -> Parsed[str | None]:
        """The sentence or phrase that answers, from a reply of free text without a marker.

        A phrase on the last line counts (rule ``phrase``), or a list of phrases; else the last sentence that concludes
        ("so", "therefore"), else the first one (``sentence``). Sentences about the debate or the task, questions and
        headings do not count, nor sentences that held a quotation. A reply that was cut off is not read.

        ``cited`` is the text with its citations, which are spaces in ``text`` as quotations are.
        """
        masked = ASIDE.sub(lambda line: " " * len(line[0]), text)
        spans = [*sentences(masked)]
        spans = spans if len(spans) <= 2 * MAX_MARKS else [*spans[:MAX_MARKS], *spans[-MAX_MARKS:]]
        spans = [
            span
            for span in spans
            if self.value(_bare(masked[slice(*span)])) is not None or has_word(masked[slice(*span)])
        ]
        bare = [(_bare(masked[slice(*span)]), span) for span in spans]
        if bare and all(is_placeholder(unwrap(one)) for one, _ in bare):
            return nothing(None, "placeholder")
        declined = any(declines(one) or _DECLINES.search(one) or _SILENT.search(one) for one, _ in bare)
        statements = [
            (one, span)
            for one, span in bare
            if not _QUOTED.search(_bare(cited[slice(*span)])) and not _says_nothing(one, context)
        ]
        concluding = [one for one in statements if _CONCLUDES.match(one[0])]
        if declined and not concluding:
            return nothing(None, "declined")
        if not statements or cut:
            return nothing(None)
        lines = [line.strip() for line in masked.splitlines() if has_word(line)]
        items = [_bare(line) for line in lines if not line.endswith(":")]
        if len(items) > 1 and all(map(is_phrase, items)):
            value = self.value("; ".join(items))
            return nothing(None) if value is None else parsed_at(value, "phrase", (bare[0][1][0], bare[-1][1][1]))
        last, span = statements[-1]
        if len(lines) > 1 and masked[slice(*span)].strip() == lines[-1] and is_phrase(last):
            value = self.value(last)
            if value is not None:
                return parsed_at(value, "phrase", span)
        sentence, span = concluding[-1] if concluding else statements[0]
        short = _CONNECTIVE.sub("", sentence, count=1)
        value = self.value(short if is_phrase(short) else sentence)
        return nothing(None) if value is None else parsed_at(value, "sentence", span)


_LONE_LINE = re.compile(r"(?![a-z]?\W*\Z)(?:.{0,30}|\W*[A-Z][).:]\s.*)")
"""A line that may be only a label: a short line, or one that begins with an option letter."""
_TURNED_DOWN = re.compile(r"\b(?:not(?!\s+enough)|wrong|incorrect|false|cannot)\b|n['’]t\b", re.IGNORECASE)  # noqa: RUF001
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
_INSTRUCTS = re.compile(r"\bfor\s+(?:instance|example)\b|\bin\s+the\s+form\b|\bone\s+of\s+(?:two|three|four)\b", re.I)
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
_ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?[$€£]?\d")
_NAME = re.compile(r"(?:the )?[A-Z][\w'’.&/-]*(?:,? (?:[A-Z\d][\w'’.&/-]*|of|the|and|in|de|la|von|van|der)){0,9}")  # noqa: RUF001
_DASH = re.compile(r"\s+[-\u2013\u2014]\s|,")
_OFFERS = re.compile(r"\W*[A-Z][.)\]:].*(?:\b(?:or|and)\W+(?:option\W+)?|,\s*\(?|\s\()[A-Z][.)\]:]\s+\S", re.DOTALL)
"""Several options: "(C) and (E)", "A. tin or B. mercury"."""
_LETTERS = re.compile(r"\W*[A-Z]\W*(?:\b(?:or|and)\b|[/&,])\W*[A-Z]\b(?!\w)")
_LETTER = re.compile(r"(?:option\s+|choice\s+|answer\s+)?[(\[*]{0,3}([A-Z])[)\]*.:]{0,3}(?=\s|\W*\Z)")


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


_TERSE = re.compile(r"[\s*_]*[A-Z\d$€£-]")
_BEFORE_RESULT = re.compile(r"(?:\b(?:is|are|was|were|equals|be)|[=:])[\s*_]*\Z", re.IGNORECASE)


def answer_of(
    text: str,
    task: BaseTask,
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
    if marker == "text":
        whole = text.strip()
        # The bare word "answer" may be a translation; in brackets it is an echoed placeholder.
        is_marked = whole.strip(EMPHASIS).startswith(("[", "(", "<", "\\"))
        is_echo = is_marked and is_placeholder(unwrap(whole))
        if whole and not is_echo and (value := task.read(whole, question)) is not None:
            return parsed_at(value, "text", (0, len(text)))
        return nothing(None, "declined" if declines(whole) else "none")
    reader = AnswerReader(task, question, marker)
    parsed = _read(text, reader, shown=shown, cut=cut, context=context)
    if parsed.value is None or parsed.span is None or not reader.is_open:
        return parsed
    if parsed.rule in ("sentence", "phrase") and gives_back(text, context):
        return nothing(None, "copy")
    if cut and not reader.is_math and not re.search(r"\W", text[parsed.span[1] - 1 :].rstrip()):
        return nothing(None)
    is_yes_no = reader.is_yes_no and parsed.value.lower() in ("yes", "no")
    return nothing(None, "example") if not is_yes_no and is_example(parsed.value, context) else parsed


@reading()
def _read(
    reply: Reply, reader: AnswerReader, *, shown: Container[int], cut: bool, context: ParseContext
) -> Parsed[str | None]:
    # Replacements keep the length, so that spans refer to the reply.
    cited = _ECHO.sub(lambda echo: "answer:".rjust(len(echo[0])), _DISPLAYED.sub(r" [\1] ", reply.text))
    text = without_citations(cited, shown, intervals=reader.is_math)
    outside = reply.outside(text)
    marks = reader.marks(outside)
    if cut:
        marks = [mark for mark in marks if re.search(r"\W", text[mark.span[1] - 1 :].rstrip()) or mark.rule == "alone"]
    parsed = (
        reader.conclusion(outside, marks)
        or reader.from_records(reply)
        or reader.last_mention(text, marks if outside == text else reader.marks(text))
        or (reader.yes_or_no(text) if reader.is_yes_no else None)
        or (reader.last_number(text) if reader.is_math else None)
    )
    if parsed is not None:
        return parsed
    if reader.is_open and not reader.is_math:
        return reader.plain_answer(text, context, cited=cited, cut=cut)
    is_given_back = any(is_placeholder(unwrap(text[start:end])) for start, end in outermost(text))
    return nothing(None, "declined" if _is_refusal(text) else "placeholder" if is_given_back else "none")


_DISPLAYED = re.compile(r"\\\[([^\[\]\\=+^_{}\n]{1,100})\\\]")
"""Words or a number in LaTeX's display brackets; they count as a marker."""
_ECHO = re.compile(
    r"\[(?:(?:the|my|your|final)[ _]){0,2}(?:answer|letter|label|number|translation|result|option)\]"
    r"(?=[\s*_:]{0,9}[\w\[(\"“$\\*])",
    re.IGNORECASE,
)
"""The placeholder of the requested form, echoed before an answer: "[answer] Jane Austen"."""
_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}(?=\{)")
_FORMS = re.compile(
    r"<(?P<tag>(?:final_?)?answer)>(?P<tagged>[^<]{0,1000}(?:<(?!/?(?:final_?)?answer>)[^<]{0,1000}){0,9})</(?P=tag)>"
    r"|^####\s{0,9}(?P<hashes>[-+$€£]?\d[^\n]{0,60})$|\bfinish\[(?P<finish>[^\[\]\n]{1,300})\]",
    re.IGNORECASE | re.MULTILINE,
)
_BEST = r"(?:correct|right|best|(?:most\s+)?(?:likely|plausible|suitable|appropriate|reasonable)|only)"
_NAMED = re.compile(
    rf"(?<![\w'’])[(\[*]{{0,3}}([A-Z])[)\]*]{{0,3}}\s+is\s+the\s+(?:{_BEST}\s+){{1,2}}(?:answer|choice|option|one)\b"  # noqa: RUF001
    rf"|\b(?:[Ss]o|[Tt]hus|[Hh]ence|[Tt]herefore),?\s+(?:(?:option|choice|answer)\s+)?[(\[*]{{0,3}}([A-Z])[)\]*]{{0,3}}"
    rf"\s+is\s+(?:the\s+)?{_BEST}\b(?=[^.!?\n]*[^\w\n]*\Z)"
)


def _forms(text: str) -> Iterator[tuple[str, tuple[int, int], str]]:
    braces = pairs(text, "{}") if "\\" in text else {}
    for box in _BOXED.finditer(text) if braces else ():
        end = braces.get(box.end())
        # The length limit keeps nested boxes from taking quadratic time. Prompts write X for the answer.
        if end is not None and end - box.end() <= MAX_ANSWER and text[box.end() + 1 : end - 1] != "X":
            yield text[box.end() + 1 : end - 1], (box.start(), end), "boxed"
    for form in _FORMS.finditer(text):
        rule = next(name for name in ("tagged", "hashes", "finish") if form[name] is not None)
        yield form[rule], form.span(), "tag" if rule == "tagged" else rule


_DIGITS = r"\d+(?:(?:,|\{,\}|,\\!)\d{3})*(?:\.\d+)?|\.\d+"
_LAST_NUMBER = re.compile(
    r"(?:(?<![\w)}])[-\u2212])?(?:\\[dt]?frac\{[^{}\n]{1,60}\}\{[^{}\n]{1,60}\}"
    rf"|\\?[$€£]?(?:{_DIGITS})(?:/\d+)?(?:\s?\\?%)?)"
)
_NO_RESULT = re.compile(
    r"(?:\b(?:agent|debater|step|knowledge|equation|eq)\W{0,3}|[\w^_]|[\w)}]\s?[+*·/]\s?|\d,\s?)\Z", re.IGNORECASE
)
"""Text before a number that counts something, or is part of a word or a sum."""


def _is_refusal(text: str) -> bool:
    return any(declines(text[start:end]) for start, end in list(sentences(text))[-MAX_MARKS:])


def marked(answer: str, marker: Marker) -> str:
    """Put an answer into its marker."""
    left, right = {"brackets": ("[", "]"), "parentheses": ("(", ")"), "boxed": ("\\boxed{", "}")}.get(marker, ("", ""))
    return left + answer + right


# Citations: numbers of passages.

_PASSAGES = r"(?:(?:knowledge|passage|entry|entrie|item|document|doc|source|snippet|no)s?\.?\s{0,9})"
_JOIN = r"\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?"  # noqa: RUF001
IDS = rf"{_PASSAGES}?[#(]?\d{{1,4}}\)?(?:{_JOIN}{_PASSAGES}?[#(]?\d{{1,4}}\)?)*"
_ID_LIST = re.compile(rf"\W*{IDS}\W*", re.IGNORECASE)
_NUMBERS = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001
_BRACKETS = str.maketrans("[]()\"'*", "       ")


def ids_of(content: str) -> list[int]:
    """The numbers that a text lists, in order: "2", "[1, 3]", "passages 4-6"; none if it says anything else."""
    bare = content.translate(_BRACKETS) if len(content) <= CONTEXT_WIDTH else ""
    return numbers_in(bare) if _ID_LIST.fullmatch(bare) else []


def numbers_in(text: str) -> list[int]:
    """All numbers of a text and of its ranges, each once."""
    ends = ((int(first), int(last or first)) for first, last in _NUMBERS.findall(text))
    return list(dict.fromkeys(n for low, high in ends for n in range(low, min(high, low + CONTEXT_WIDTH) + 1)))


def parse_citations(text: str, shown: Collection[int]) -> tuple[int, ...]:
    """The numbers in square brackets that name passages, in order of mention; only those that were ``shown``."""
    brackets = re.findall(r"\[[^\[\]\n]{1,80}\]", QUOTED_LINE.sub("", text[-MAX_READ:]))
    return tuple(n for n in dict.fromkeys(n for bracket in brackets for n in ids_of(bracket)) if n in shown)


_FOLLOWS_SENTENCE = re.compile(r"[.!?](?:\s*\[[\d, -]{1,20}\])*\s*\Z")
_ABOUT_SOURCE = re.compile(r"\b(?:knowledge|passages?|documents?|sources?|evidence|relevant|know)\b", re.IGNORECASE)
_RESULT = re.compile(
    r"(?:\b(?:is|are|was|were|equals)|=|\b(?:so|thus|hence|therefore|total|result)\W{0,3}:)[\s*_]*\Z", re.IGNORECASE
)
_NUMBERS_LIST = re.compile(r"\d{1,4}(?:\s?,\s?\d{1,4})+")
_MEMBER = re.compile(r"(?:∈|\\in|\b(?:lies?|interval))(?:\s+in)?[\s*_$]*\Z", re.IGNORECASE)


def without_citations(text: str, shown: Container[int], *, intervals: bool = False) -> str:
    """The text with its citations replaced by spaces, so that all positions stay the same."""
    characters, outer = list(text), 0
    spans = sorted(pairs(text, "[]").items())
    closing = last_sentence(text) if spans else 0
    for n, (start, end) in enumerate(spans):
        near, nested, outer = text_before(text, start), start < outer, max(outer, end)
        ids = ids_of(text[start + 1 : end - 1])
        if not ids or not all(n in shown for n in ids) or (nested and not _FOLLOWS_SENTENCE.search(near)):
            continue
        if len(spans) - n <= MAX_MARKS and (states(near) or _closes(text, start, end, closing, intervals=intervals)):
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
    is_interval = intervals and bool(_NUMBERS_LIST.fullmatch(content))
    if not (content.isdecimal() or is_interval) or has_word(text[end:]):
        return False
    line = line_before(text, start)
    if not has_word(line):
        return not text[: start - len(line)].rstrip().endswith(":")
    words = lead(text, start).rpartition(",")[2]
    is_result = _RESULT.search(words) or (is_interval and _MEMBER.search(words))
    return start >= closing and bool(is_result) and not _ABOUT_SOURCE.search(words)


# Answers in plain words: the sentence or phrase that a reply of free text consists of, or that concludes it.

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


def _bare(text: str) -> str:
    text = _DECORATION.sub("", text).strip(EMPHASIS)
    inner = re.fullmatch(r"\(([^()]+)\)\.?|((?:yes|no))[.!]", text, re.IGNORECASE)
    return (inner[1] or inner[2]) if inner else text


def _says_nothing(text: str, context: ParseContext) -> bool:
    if re.search(r"\\boxed|[{}]|<answer", text):  # It is a form without an end.
        return True
    bare = unwrap(text)
    given_back = any(is_placeholder(text[start + 1 : end - 1]) for start, end in outermost(text)) or any(
        is_placeholder(text[start:end]) and standing(text, start, end) == "none" for start, end in outermost(text, "()")
    )  # "In the form (X)"; in "Twitter (X)" it is a name.
    if is_placeholder(bare) or given_back or says_only_where(bare) or text.endswith(("?", ":")):
        return True
    if (
        declines(text)
        or _DECLINES.search(text)
        or _SILENT.search(text)
        or _ABOUT.match(text)
        or _BROKEN_OFF.search(text)
    ):
        return True
    return bool(context.question) and _key(text) == _key(context.question)


def _key(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
