"""The grammar that all parsers share: sentences, brackets, and the marks with which a reply states a value.

A mark is a conclusion if it begins a line or sentence ("Answer: X", "The answer is X.", ``[X]`` on a line of its own,
``#### X``), a cue inside a sentence ("so it must be [X]"), or a plain bracket. Conclusions come first and must agree.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from madke.core.transcript import ParseStatus

T = TypeVar("T")

CONTEXT_WIDTH = 200
"""Characters around a place that are read as its context."""
MAX_MARKS = 200
"""Marks of one kind that are read, counted from the end of a text."""
EMPHASIS = " \t\n*_`\"'“”‘’"  # noqa: RUF001
OTHER_SPEAKER = (
    r"\b(?:(?:debater|agent|speaker|expert|participant|panelist|assistant)[ _#-]?(?:\w*\d\w*|[a-z]\b)"
    r"|(?:(?:my|the)\s+)?opponents?|(?:my|the|an)\s?other\s+(?:debater|agent|expert|side)s?"
    r"|(?:affirmative|negative)\s+side)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed(Generic[T]):
    """What a parser read from a text."""

    value: T
    status: ParseStatus
    """``ok``, ``abstained`` (the text declines), ``contradictory`` (its conclusions differ), ``echoed`` (it gives back
    its request) or ``unmarked`` (it has no value)."""
    rule: str
    span: tuple[int, int] | None = None
    """Where the value is in the text."""


def parsed_at(value: T, rule: str, span: tuple[int, int]) -> Parsed[T]:
    """The result for a value at ``span``."""
    return Parsed(value=value, status="ok", rule=rule, span=span)


_STATUS: dict[str, ParseStatus] = {
    "declined": "abstained",
    "contradictory": "contradictory",
    "placeholder": "echoed",
    "example": "echoed",
    "copy": "echoed",
}


def nothing(value: T, rule: str = "none") -> Parsed[T]:
    """The result for a text without a value; ``value`` is the parser's empty value. The rule decides the status."""
    return Parsed(value=value, status=_STATUS.get(rule, "unmarked"), rule=rule)


# Sentences, lines and brackets.

_SENTENCE_END = re.compile(r"(?<=[.!?])(?:[\"'”)*\]]{0,3})\s+(?=[\"'“*(]*[A-Z\d\[])|\n+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|St|Mr|Ms|Mrs|Dr|Jr|Sr|Mt|No|vs|e\.g|i\.e|ca|approx)|(?:\b[A-Z]\.)+[A-Z])\.\Z"
)
_BRACKETS = {kind: re.compile(rf"\\?[{re.escape(kind)}]") for kind in ("[]", "()", "{}")}


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences of a text; a line break ends one."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if "\n" in end[0] or not _ABBREVIATION.search(text, max(start, end.start() - 12), end.start()):
            yield start, end.start()
            start = end.end()
    yield start, len(text)


def last_sentence(text: str) -> int:
    """The start of the last sentence with a letter or a digit; 0 if there is none."""
    return next((start for start, end in reversed(list(sentences(text))) if has_word(text[start:end])), 0)


def has_word(text: str) -> bool:
    """Whether a text has a letter or a digit."""
    return re.search(r"\w", text) is not None


def line_before(text: str, at: int) -> str:
    """The part of the line before a position."""
    return text[text.rfind("\n", 0, at) + 1 : at]


def line_after(text: str, at: int) -> str:
    """The part of the line after a position."""
    end = text.find("\n", at)
    return text[at:] if end < 0 else text[at:end]


def text_before(text: str, at: int) -> str:
    """Up to :data:`CONTEXT_WIDTH` characters before a position."""
    return text[max(0, at - CONTEXT_WIDTH) : at]


def lead(text: str, at: int) -> str:
    """The part of the sentence before a position."""
    near = text_before(text, at)
    return near[max(start for start, _ in sentences(near)) :]


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with spaces for these spans, which are in order; line breaks and positions stay."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def pairs(text: str, kind: str) -> dict[int, int]:
    r"""Start -> end of balanced brackets of a kind (``"[]"``, ``"()"``, ``"{}"``); escaped brackets are ignored."""
    opened: list[int] = []
    closed: dict[int, int] = {}
    for bracket in _BRACKETS[kind].finditer(text):
        if bracket.group() == kind[0]:
            opened.append(bracket.start())
        elif bracket.group() == kind[1] and opened:
            closed[opened.pop()] = bracket.end()
    return closed


def outermost(text: str, kind: str = "[]") -> list[tuple[int, int]]:
    """Spans of the last balanced brackets that are not inside others, in order."""
    other = "()" if kind == "[]" else "[]"
    spans: list[tuple[int, int]] = []
    end = 0
    for start, stop in sorted(pairs(text, kind).items()):
        if start >= end:
            # "[[0, 1)]" and "[(0, 1]]" are markers around half-open intervals: the unpaired bracket is part of them.
            odd_left = start > end and text[start - 1] == kind[0] and text[stop - 2] == other[1]
            odd_right = text.startswith(kind[1], stop) and text[start + 1] == other[0]
            spans.append((start - odd_left, stop + odd_right))
            end = stop + odd_right
    return spans[-MAX_MARKS:]


MAX_PHRASE_WORDS = 6
"""Words of a line that is an answer by itself."""
_VERB = re.compile(
    r"\b(?:is|are|was|were|am|has|have|had|do|does|did|can|cannot|could|will|would|should|must|means?|became|made|wrote|gave"
    r"|went|came|took|got|lies|lived|plays?|played|helps?|contains?|mentions?|cites?|differs?|agrees?|provides?|shows?|won"
    r"|hope|see|think|know|believe)\b|n['’]t\b",  # noqa: RUF001
    re.IGNORECASE,
)


def is_phrase(line: str) -> bool:
    """Whether a line is a few words that are no sentence."""
    words = line.split()
    is_sentence = _VERB.search(line) or re.search(r"[.!?]\s|[:?]\W*\Z", line) or (len(words) > 3 and line.endswith("."))
    return 0 < len(words) <= MAX_PHRASE_WORDS and not is_sentence


# Values in their wrappings.

MAX_ANSWER = 1000
"""Characters of the longest final answer that is accepted."""
_S = r"[\s_]+"
_PLACEHOLDER = re.compile(
    rf"<?(?:(?:the|your|my|an?|final|correct|short|exact|best){_S}){{0,4}}answers?"
    rf"(?:{_S}(?:is|here|only|goes{_S}here))?:?>?"
    rf"|<?(?:(?:your|insert|chosen|final|correct|the{_S}chosen){_S}){{0,3}}"
    rf"(?:letter|label|option|choice|number|translation|verdict|value|result|response|query)(?:{_S}here)?>?"
    rf"|(?:answer|option){_S}letter|letter{_S}of{_S}(?:the|your){_S}\w+|(?:your{_S})?name|(?-i:\(X\))|\.{{2,}}|…|_+"
    rf"|an?{_S}number{_S}(?:from|between)\b.*|yes\s*(?:or|/|\|)\s*no|true\s*(?:or|/|\|)\s*false"
    r"|(?:</?[a-z_]{1,20}>\s{0,9})+|no\s+found|citation\s+needed|(?:search|confidence)\s*:.*",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\W*in\s+(?:the\s+|this\s+)?(?:\w+\s+)?(?:passages?|sentences?|documents?|paragraphs?|text)(?:\s\d+)?\W*",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"(?:(?:the|my)\s+)?(?:final\s+|correct\s+)?answer\s*(?:is\b|:|=)[\s:]*(?=\S)", re.IGNORECASE)
_LATEX_WRAP = re.compile(r"\\(?:boxed|fbox|text\w{0,2}|mathrm|mathbf)\s*(?=\{)")
_MATH_WRAPS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_CITED = re.compile(r"\s{1,9}(?:\[\d{1,3}(?:\s?[,-]\s?\d{1,3})*\]\s*)+\Z")
_QUOTES = frozenset("\"'“”‘’")  # noqa: RUF001
_HTML = re.compile(r"</?(?:b|i|u|em|strong|p|br|span|div|mark|center)(?:\s[^<>]{0,100})?/?>", re.IGNORECASE)
_TUPLE = re.compile(r"(?![(\[]|\d{1,3}(?:,\d{3})+\Z)[^,]+(?:,[^,]+)+")
"""Coordinates or an interval without their brackets, but not a number with commas."""
_INTERVAL = re.compile(r"\[(?!.*(?<!\\)\b[A-Za-z]{2})[^,]+(?:,[^,]+)+\]")


def unwrap(content: str) -> str:
    """The content without emphasis, lead-in words ("the answer is"), or a second marker around it."""
    for _ in range(4 if len(content) <= MAX_ANSWER else 0):
        wrapped, content = content, _unwrap_once(content)
        if content == wrapped:
            break
    return content


def _unwrap_once(content: str) -> str:
    content = _HTML.sub("", content).strip(" \t\n*_`")
    # A closing quotation mark whose opening one is inside stays.
    quotes = sum(content.count(mark) for mark in _QUOTES)
    if quotes % 2 or (content[:1] in _QUOTES and content[-1:] in _QUOTES):
        content = content.strip(EMPHASIS)
    content = _CITED.sub("", content)
    for opening, closing in _MATH_WRAPS if content.startswith(("$", "\\")) else ():
        if len(content) > len(opening + closing) and content.startswith(opening) and content.endswith(closing):
            inner = content[len(opening) : -len(closing)]
            return content if opening in inner else inner
    if content.startswith("[") and not _INTERVAL.fullmatch(content) and pairs(content, "[]").get(0) == len(content):
        return content[1:-1]
    wrap = _LATEX_WRAP.match(content)
    if wrap and pairs(content, "{}").get(wrap.end()) == len(content):
        return content[wrap.end() + 1 : -1]
    lead_in = _LEAD_IN.match(content)
    return content[lead_in.end() :] if lead_in else content


def is_placeholder(content: str) -> bool:
    """Whether the content is an echoed placeholder, or belongs to another grammar, such as a search."""
    return not content or (len(content) <= MAX_ANSWER and bool(_PLACEHOLDER.fullmatch(content.removesuffix("."))))


def says_only_where(content: str) -> bool:
    """Whether the content names the text that holds the answer, but no answer: "in the first sentence"."""
    return bool(_WHERE.fullmatch(content))


# What the words around a mark say of it.

_NOUN = r"\b(?:answer(?!\s+(?:choices|options))|verdict|label|option|choice|letter|result|solution|translation)\b"
_GAP = r"[\s*_`\"'“‘]+"  # noqa: RUF001
_QUIET = r"[^\w.!?]*"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_STATES = _any(
    rf"{_NOUN}(?:[^.!?\n]{{0,80}}\b(?:is|are|was|were|be|equals)|[^.!?\n]{{0,40}}[:=]){_QUIET}\Z",
    rf"^\W{{0,9}}(?:(?:the|my|our|final|correct|best)\s+){{0,3}}{_NOUN}[^\w.!?\n]*\n{_QUIET}\Z",
    rf"\bfinish\Z|\b(?:i|we)\s+(?:\w+\s+){{0,2}}(?:answer|choose|pick|select|say|go\s+with|settle\s+on|conclude){_QUIET}\Z",
    rf"\b(?:must|has\s+to)\s+be{_QUIET}\Z",
)
_SAYING = (
    r"(?:sa(?:id|ys?)|answer(?:s|ed)|claim(?:s|ed)|argue[sd]|stat(?:es|ed)|g(?:ave|ives)|th(?:inks|ought)|believe[sd]"
    r"|cho(?:se|oses)|conclude[sd]|propose[sd]|suggest(?:s|ed)|wr(?:ote|ites))"
)
_NOT_COUNTED_BEFORE = _any(
    # Asked or conditional: "whether the answer is", "if it were", "the reason for the answer".
    r"\b(?:for|behind|support\w{0,3}|about|to\s+(?:determine|identify|find|choose|select)|what|where|why|how|whether|if"
    rf"|unless|suppose)\s+(?:(?:the|my|your|an?)\s+)?(?:(?:final|correct|right|best)\s+)?{_NOUN}"
    rf"(?:\s+(?:is|was|would\s+be))?{_QUIET}\Z",
    r"\b(?:if|unless|whether|when|either)\b[^.\n]{0,120}\b(?:reply|answer|respond|say|write|put|it\s+were)\W*\Z",
    r"\b(?:if|unless|whether|when)\b[^.,\n]{0,80}:\W*\Z",
    # Denied.
    r"(?:\b(?:not|never|neither|nor|than|instead\s+of|over|cannot|can't|unable\s+to|impossible\s+to|far\s+from)"
    rf"|n't(?:\s+(?:be|think|say))?){_GAP}"
    rf"(?:(?:the|an?|simply|just|say|write|reply|answer|deserve|with|label|option|is){_GAP}){{0,4}}\Z",
    # Another's answer, or an example.
    r"\b(?:this|that|these|those|each|both|all|gold|reference|first|second|other|his|her|their|its)\s+(?:(?!the\b|my\b)\w+\s+)?"
    rf"{_NOUN}[^.!?\n]{{0,40}}\Z",
    r"(?:\bfor\s+(?:instance|example)|\be\.g\.?|\bsuch\s+as|,\s*like|\b(?:form|format|style|placeholder)(?:\s+of)?|\bone\s+of)"
    r"[^\w.!?\n]*\Z",
    rf"(?:{OTHER_SPEAKER}[^.\n]{{0,40}}\b{_SAYING}\b|{OTHER_SPEAKER}'s\s+(?:\w+\s+){{0,2}}{_NOUN}"
    rf"|\b(?:it|he|she|they|both|all|someone|others?)\s+{_SAYING}\b|{_NOUN}\s+(?:given\s+)?(?:of|from|by)\s+{OTHER_SPEAKER})"
    r"(?:(?!\b(?:but|I|however|differ|so)\b)[^.\n])*\Z",
)
_NOT_COUNTED_AFTER = _any(
    r"[ \t*_`\"']*(?:(?:is|was|are|were|seems|does|do|did|could|would)\s*(?:n't\b|(?:(?:\w+ly|just|also)\s+)?(?:not"
    r"|wrong|incorrect|false|unlikely|impossible|ruled\s+out)\b)|can(?:not|'t)\b)",
    r"[^.!?\n]{0,120}\?",
)
_CONDITIONAL = _any(r"[^\w\n]{0,9}(?:(?:only\s+)?(?:if|when|unless|provided)|would|might)\b")
_GOES_ON = re.compile(r"[\w(^_]")
_WORD_END = re.compile(r"[\w)}^#/&]\Z")
_CALL = _any(r"\b(?:finish|answer|is)\Z")


def states(near: str) -> bool:
    """Whether the words before a mark introduce an answer: "the answer, then, is", "Verdict:"."""
    return bool(_STATES.search(near)) and not _NOT_COUNTED_BEFORE.search(near)


def standing(text: str, start: int, end: int) -> Literal["stated", "plain", "none"]:
    """The standing of what is at ``start .. end``, from the words around it.

    ``stated``: the words directly before it say "the answer is" or "it must be". ``plain``: they do not. ``none``: it
    is denied, hypothetical, an example, another speaker's, or part of a word, a link or a formula.
    """
    near = text_before(text, start).replace("’", "'").removesuffix("\\left")  # noqa: RUF001
    after = text[end : end + CONTEXT_WIDTH].replace("’", "'")  # noqa: RUF001
    stated = bool(_STATES.search(near))
    is_denied = _NOT_COUNTED_BEFORE.search(near) or _NOT_COUNTED_AFTER.match(after)
    # Part of a word, a call (``f[0]``, but not ``Finish[Paris]``), a link or a formula.
    glued_to = text[max(0, start - 9) : start].removesuffix("\\left")
    is_glued = _GOES_ON.match(text, end) or (_WORD_END.search(glued_to) and not _CALL.search(glued_to))
    if is_denied or is_glued or (not stated and _CONDITIONAL.match(after)):
        return "none"
    return "stated" if stated else "plain"


# Marks.


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark(Generic[T]):
    """A place where a reply states a value."""

    value: T | None
    span: tuple[int, int]
    rule: str
    """What kind of mark it is; if it has no value, why."""
    rank: Literal["conclusion", "cue", "plain"] = "conclusion"
    is_final: bool = False
    """The reply calls it final."""
    in_list: bool = False


class Reader(ABC, Generic[T]):
    """What a parser reads: the nouns that name its value, and the value in a text."""

    nouns: str
    """Pattern of the nouns in "NOUN: value" and "the NOUN is value"."""
    labels: str = r"(?!)"
    """Pattern of further nouns that need a colon."""
    is_open: bool = False
    """Whether any words can be a value. If not, a line that holds nothing else is a conclusion."""
    takes_round: bool = False
    """Whether values were asked for in parentheses."""

    @abstractmethod
    def value(self, content: str) -> T | None:
        """The value that a whole text is."""

    @abstractmethod
    def read_statement(self, statement: str, *, is_label: bool) -> tuple[T | None, str]:
        """The value at the beginning of what follows a cue, and the rule; ``none`` if nothing is stated."""

    def lone(self, line: str) -> T | None:
        """The value of a line that holds nothing else."""
        return self.value(line)

    def extent(self, text: str, start: int, *, is_label: bool) -> int:
        """Where the text that follows a cue ends."""
        return start + len(line_after(text, start))

    def same(self, one: T | None, other: T | None) -> bool:
        """Whether two values agree."""
        return one == other

    def offers(self, text: str, span: tuple[int, int], closing: int) -> bool:
        """Whether a plain bracket may hold the value; ``closing`` is the start of the last sentence."""
        return True

    def marks(self, text: str) -> list[Mark[T]]:
        """The marks of a reply, in order of their ends."""
        every = (*self._label_marks(text), *self._bracket_marks(text), *self._lone_lines(text))
        return sorted(every, key=lambda mark: mark.span[1])

    def _label_marks(self, text: str) -> Iterator[Mark[T]]:
        for cue in list(_cues(self.nouns, self.labels).finditer(text))[-MAX_MARKS:]:
            near = text_before(text, cue.start())
            beginning = _BEGINNING.search(near)
            opening = _OPENING.fullmatch(near, beginning.end() if beginning else 0)
            is_label = not cue["sentence"] and not cue["loose"]
            if is_label and opening and opening["thinks"]:
                opening = None
            if not opening and (cue["heading"] or cue["strict"]):
                continue
            end = self.extent(text, cue.end(), is_label=is_label)
            statement = text[cue.end() : end]
            start = cue.end() + len(statement) - len(statement.lstrip())
            end = start + len(statement.strip())
            if start == end or standing(text, start, end) == "none":
                continue
            value, rule = self.read_statement(text[start:end], is_label=is_label)
            if rule == "none":
                continue
            if opening and not cue["loose"]:
                yield Mark(
                    value=value,
                    span=(start, end),
                    rule=rule or ("labelled" if is_label else "stated"),
                    is_final=bool(_FINAL.search(opening[0] + cue[0])),
                    in_list=bool(opening["bullet"]),
                )
            elif rule != "placeholder":
                yield Mark(value=value, span=(start, end), rule=rule or "cue", rank="cue")

    def _bracket_marks(self, text: str) -> Iterator[Mark[T]]:
        closing = last_sentence(text)
        for start, end in [*outermost(text), *outermost(text, "()")]:
            content, is_round = text[start + 1 : end - 1].removesuffix("\\right"), text[start] == "("
            how = standing(text, start, end)
            is_alone = not has_word(line_before(text, start) + line_after(text, end))
            if how == "none" or (is_round and not self.takes_round and (self.is_open or not is_alone)):
                continue
            if is_round and _TUPLE.fullmatch(content):
                content = f"({content})"
            if (value := self.value(content)) is None:
                continue
            if is_alone and not (is_round and self.is_open and has_word(text[end:])):
                yield Mark(value=value, span=(start, end), rule="alone")
            elif how == "stated":
                yield Mark(value=value, span=(start, end), rule="cue", rank="cue")
            elif self.offers(text, (start, end), closing):
                yield Mark(value=value, span=(start, end), rule="last", rank="plain")

    def _lone_lines(self, text: str) -> Iterator[Mark[T]]:
        """The words of a closed list on the first or last line, or letters on any, if all such lines agree."""
        every = () if self.is_open else re.finditer(r"[^\n]+", text)
        lines = [line for line in every if not line[0].isspace()][-MAX_MARKS:]
        read = [(line, value) for line in lines if (value := self.lone(line[0])) is not None]
        if all(self.same(value, read[0][1]) for _, value in read):
            for line, value in read:
                if line in (lines[0], lines[-1]) or re.fullmatch(r"\W*[A-Z]\W*", line[0]):
                    yield Mark(value=value, span=line.span(), rule="alone")

    def conclusion(self, text: str, marks: Sequence[Mark[T]]) -> Parsed[T | None] | None:
        """The value on which the conclusions agree. Those in a list count only if there are no others."""
        conclusions = [mark for mark in marks if mark.rank == "conclusion"]
        chosen = [mark for mark in conclusions if not mark.in_list] or conclusions
        agreed = settle(text, [mark for mark in chosen if mark.rule != "placeholder"], self.same)
        is_placeholder = agreed is None and chosen and not has_word(text[chosen[-1].span[1] :])
        return nothing(None, "placeholder") if is_placeholder else agreed

    def last_mention(self, text: str, marks: Sequence[Mark[T]]) -> Parsed[T | None] | None:
        """The value of the last cue, else of the plain brackets, if all of them or those of the last sentence agree."""
        if cues := [mark for mark in marks if mark.rank != "plain" and mark.rule != "placeholder"]:
            return settle(text, cues[-1:], self.same)
        plain = [mark for mark in marks if mark.rank == "plain"]
        if any(not self.same(mark.value, plain[-1].value) for mark in plain):
            closing = last_sentence(text)
            plain = [mark for mark in plain if mark.span[0] >= closing]
        if self.is_open and any(not self.same(mark.value, plain[-1].value) for mark in plain):
            return None
        return settle(text, plain, self.same)

    def read(self, text: str, marks: Sequence[Mark[T]]) -> Parsed[T | None] | None:
        """The value on which the conclusions agree, else that of what is only mentioned."""
        return self.conclusion(text, marks) or self.last_mention(text, marks)


_FOR = r"(?:\s+(?:to|for|of)\s+[^.,:;\n]{1,60}?|\s+here)?,?(?:\s+(?:then|therefore|thus|hence),?)?"
_IS = (
    r"(?:(?:is|are|was|remains|goes\s+to|(?:would|should|must|will|has\s+to)\s+be)"
    r"(?:\s+(?:still|therefore|thus|then|clearly))?)\b:?"
)
_AROUND = r"[*_ \t]{0,4}"
_COLON = rf"{_AROUND}(?:[:=]|[ \t][-\u2013\u2014](?=[ \t])){_AROUND}"
_OPENING = re.compile(
    r"(?P<bullet>[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+)?[*_#]{0,9}[ \t]*"
    r"(?:(?:so|thus|therefore|hence|consequently|finally|overall|then|and|but|no|however|wait|actually|sorry|also"
    r"|in\s+(?:conclusion|short|summary|the\s+end)|as\s+a\s+result"
    r"|(?:based\s+on|given|from|after|considering)\s[^.,:\n]{1,80})[,:.]?\s+){0,3}"
    r"(?P<thinks>(?:i|we)\s+(?:\w+\s+){0,2}(?:think|believe|conclude|say|agree)\s+(?:with\s+[^.,:\n]{1,40}?\s+)?(?:that\s+)?)?"
    r"(?:here\s+is\s+)?(?:(?:the|my|our)\s+)?",
    re.IGNORECASE,
)
"""What may stand between the beginning of a line or sentence and the noun of a conclusion."""
_BEGINNING = re.compile(r"(?:\n|[.!?\]][\"')*_\]]{0,3}[ \t])(?!.*(?:\n|[.!?\]][\"')*_\]]{0,3}[ \t]))", re.DOTALL)
_FINAL = re.compile(r"\bfinal\b", re.IGNORECASE)


@lru_cache(maxsize=64)
def _cues(nouns: str, labels: str) -> re.Pattern[str]:
    return re.compile(
        rf"\b(?:(?P<sentence>(?:{nouns}){_FOR}\s+{_IS})"
        rf"|(?P<label>(?:{nouns}){_COLON})|(?P<strict>(?:{labels}){_COLON})"
        rf"|(?P<heading>(?:{nouns}){_AROUND}:?{_AROUND})(?=\n)"
        rf"|(?P<loose>(?:{nouns})\b[^.!?:\n]{{0,40}}[:=][*_]{{0,3}}"
        r"|(?:i|we)(?:['’]d|\s+(?:would|will|must|therefore|thus))?\s+(?:answer|choose|pick|select|go\s+with|settle\s+on|opt\s+for)\b"  # noqa: RUF001
        r"(?:\s+(?:with|that|the\s+answer|option))?:?"
        r"|(?:must|has\s+to|can\s+only)\s+be(?=\s*[*_]{0,3}[\[(]))(?!\s*\n))\s{0,9}",
        re.IGNORECASE,
    )


_CORRECTS = re.compile(
    r"(?:^|[.!?\n][\s\"'*]*)(?:no|but|however|wait|actually|correction|sorry|oops|on\s+(?:second\s+thoughts?|(?:further\s+)?reflection)"
    r"|upon\s+\w+|hold\s+on|looking\s+again|i\s+was\s+wrong|(?:let\s+me|i)\s+(?:\w+\s+){0,2}(?:re-?\w+|correct|change|revise))\b",
    re.IGNORECASE,
)
"""Words between two conclusions with which a reply takes back the first."""


def settle(text: str, marks: Sequence[Mark[T]], same: Callable[[T | None, T | None], bool]) -> Parsed[T | None] | None:
    """The value on which conclusions agree; None if there are none.

    Where they differ, one that the reply calls final decides, or the last one if the reply takes the others back in
    words between them. Otherwise the reply is ``contradictory``.
    """
    if not marks:
        return None
    last = marks[-1]
    rivals = [one for one in marks if not same(one.value, last.value)]
    if rivals and not last.is_final:
        corrected = _CORRECTS.search(text, rivals[-1].span[1] - 1, last.span[1])
        if any(one.is_final for one in rivals) or not corrected:
            return nothing(None, "contradictory")
    return nothing(None, last.rule) if last.value is None else parsed_at(last.value, last.rule, last.span)
