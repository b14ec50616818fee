"""What all parsers share: their result type, spans in a text, and the meaning of the words around a marker."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Concatenate, Generic, Literal, ParamSpec, TypeVar

from madke.core.chat import Completion
from madke.core.transcript import ParseStatus
from madke.engine.parse.echo import NOTHING_ASKED, Asked, without_copies
from madke.engine.parse.quotation import OTHER_SPEAKER, TAGS, own_words

T = TypeVar("T")
P = ParamSpec("P")

WINDOW = 200_000
"""Characters that are read, counted from the end of a text, where the answer is."""
NEAR = 200
"""Characters around a marker that are read as its context."""
MOST = 200
"""Markers that are read, counted from the end of a text."""
TRUNCATED = frozenset({"length", "max_tokens", "model_length"})
"""Finish reasons of a reply that was cut off at ``max_tokens``: OpenAI and most others, Cohere, Mistral."""
_THINK = re.compile(r"(?<![`\"'])<(/?)think(?:ing)?>(?!\s{0,3}(?:tags?|blocks?|tokens?)\b)", re.IGNORECASE)
_OPENING_PLACE = re.compile(r"(?:\A|[\n.!?:>…])\s{0,9}\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed(Generic[T]):
    """What a parser read from a text."""

    value: T
    status: ParseStatus
    """``ok``, ``abstained`` (the text declines), ``unmarked`` (it holds no value of this grammar) or ``echoed``."""
    rule: str
    span: tuple[int, int] | None = None
    """Where the value is in the text (for a selection: its last marker)."""


def parsed_at(value: T, rule: str, span: tuple[int, int]) -> Parsed[T]:
    """The result for a value at ``span``."""
    return Parsed(value=value, status="ok", rule=rule, span=span)


def nothing(value: T, rule: str = "none") -> Parsed[T]:
    """The result for a text without a value; ``value`` is the parser's empty value.

    It is ``abstained`` only if the text ``declined``; ``echoed`` if it gives back a ``placeholder``, an ``example``, or
    other parts of the request (``copy``).
    """
    status: ParseStatus = "abstained" if rule == "declined" else "echoed" if rule in _ECHOES else "unmarked"
    return Parsed(value=value, status=status, rule=rule)


_ECHOES = ("placeholder", "example", "copy")


def windowed(parse: Callable[Concatenate[str, P], Parsed[T]]) -> Callable[Concatenate[str, P], Parsed[T]]:
    """Decorator: the parser reads only what the reply says itself, in its last :data:`WINDOW` characters.

    Quotations, other speakers' lines, run-on text and copies of the request (keyword ``asked``) are spaces for it.
    Spans refer to the whole text.
    """

    @wraps(parse)
    def read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Parsed[T]:
        given = kwargs.get("asked")
        asked = given if isinstance(given, Asked) else NOTHING_ASKED
        start = max(0, len(text) - WINDOW)
        own = without_copies(text[start:], asked)
        said = own_words(own, speaker=asked.speaker, question=asked.question)
        parsed = parse(said, *args, **kwargs)
        if own != text[start:] and parsed.status == "unmarked" and 2 * len(own.split()) <= len(text[start:].split()):
            return replace(parsed, status="echoed", rule="copy")
        if not start or parsed.span is None:
            return parsed
        return replace(parsed, span=(parsed.span[0] + start, parsed.span[1] + start))

    return read


def without_reasoning(text: str) -> str:
    """The text without its reasoning blocks, also those cut off or opened by the server.

    A tag in quotes, a mention such as "the <think> tag", and a tag that opens in the middle of a sentence and is never
    closed are ordinary words.
    """
    if "<" not in text:
        return text.strip()
    tags = list(_THINK.finditer(text))
    last_close = max((tag.start() for tag in tags if tag[1]), default=-1)
    visible: list[str] = []
    inside, at = False, 0
    for tag in tags:
        if tag[1]:
            visible, inside, at = visible if inside else [], False, tag.end()
        elif not inside and (
            tag.start() < last_close or _OPENING_PLACE.search(text, max(0, tag.start() - 10), tag.start())
        ):
            visible.append(text[at : tag.start()])
            inside = True
    return "".join(visible if inside else [*visible, text[at:]]).strip()


def checked(completion: Completion, max_tokens: int) -> Completion:
    """The completion; an ``ok`` one without visible text gets the outcome ``empty``.

    A text of only reasoning blocks moves to ``reasoning``. The error of a truncated reply names ``max_tokens``.
    """
    if completion.outcome != "ok" or without_reasoning(completion.text):
        return completion
    reasoning = completion.reasoning + completion.text.strip()
    error = "the reply holds only hidden reasoning" if reasoning else "the reply is empty"
    if completion.finish_reason.casefold() in TRUNCATED:
        error += f"; it was cut off at max_tokens = {max_tokens}; raise it with --set max_tokens=N"
    else:
        error += f" (finish reason {completion.finish_reason!r})"
        error += _ALL_REASONING if reasoning else ""
    return replace(completion, text="", reasoning=reasoning, outcome="empty", error=error)


_ALL_REASONING = (
    ": either the server took the answer for reasoning, or the model ended before its answer; check the server's "
    "reasoning parser (vLLM: --reasoning-parser, llama.cpp: --reasoning-format) and the model's chat template"
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“*(]*[A-Z\[])|\n+")
_BRACKETS = {kind: re.compile(rf"\\?[{re.escape(kind)}]") for kind in ("[]", "()", "{}")}


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences of a text; a line break ends one."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        yield start, end.start()
        start = end.end()
    yield start, len(text)


def last_sentence(text: str) -> int:
    """The start of the last sentence with a letter or a digit; 0 if there is none."""
    return next((start for start, end in reversed(list(sentences(text))) if re.search(r"\w", text[start:end])), 0)


def text_before(text: str, at: int) -> str:
    """Up to :data:`NEAR` characters before a position."""
    return text[max(0, at - NEAR) : at]


def lead(text: str, at: int) -> str:
    """The part of the sentence before a position."""
    near = text_before(text, at)
    return near[max(start for start, _ in sentences(near)) :]


def tail(text: str, at: int) -> str:
    """The rest of the line after a position."""
    return text[at : at + NEAR].split("\n", 1)[0]


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
    return spans[-MOST:]


LONGEST_ANSWER = 1000
"""Characters of the longest final answer that is accepted."""
EMPHASIS = " \t\n*_`\"'“”‘’"  # noqa: RUF001

_S = r"[\s_]+"
_PLACEHOLDER = re.compile(
    rf"<?(?:(?:the|your|my|an?|final|correct|short|exact|best){_S}){{0,4}}answers?"
    rf"(?:{_S}(?:is|here|only|goes{_S}here))?:?>?"
    rf"|<?(?:(?:your|insert|chosen|final|correct|the{_S}chosen){_S}){{0,3}}"
    rf"(?:letter|label|option|choice|number|translation|verdict|value|result|response|query)(?:{_S}here)?>?"
    rf"|(?:answer|option){_S}letter|letter{_S}of{_S}(?:the|your){_S}\w+|(?:your{_S})?name|(?-i:\(X\))|\.{{2,}}|…|_+"
    rf"|an?{_S}number{_S}(?:from|between)\b.*|yes\s*(?:or|/|\|)\s*no|true\s*(?:or|/|\|)\s*false"
    rf"|(?:</?(?:{TAGS})>\s{{0,9}})+"
    r"|no\s+found|citation\s+needed|(?:search|confidence)\s*:.*",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\W*in\s+(?:the\s+)?(?:\w+\s+)?(?:passages?|sentences?|documents?|paragraphs?|text)(?:\s\d+)?\W*", re.IGNORECASE
)
_LEAD_IN = re.compile(r"(?:(?:the|my)\s+)?(?:final\s+|correct\s+)?answer\s*(?:is\b|:|=)[\s:]*(?=\S)", re.IGNORECASE)
_LATEX_WRAP = re.compile(r"\\(?:boxed|fbox|text\w{0,2}|mathrm|mathbf)\s*(?=\{)")
_MATH_WRAPS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_CITED = re.compile(r"\s{1,9}(?:\[\d{1,3}(?:\s?[,-]\s?\d{1,3})*\]\s*)+\Z")
_MATHS = r"(?:[^A-Za-z,\\]|\\(?:[A-Za-z]+|(?![A-Za-z]))|\b(?<!\\)[A-Za-z]\b)*"
_TUPLE = re.compile(rf"{_MATHS}(?:,{_MATHS})+")
_FORMULA = re.compile(rf"(?=[^\d\\=^]{{0,60}}[\d\\=^]){_MATHS}(?:,{_MATHS})*")
_ALTERNATIVES = re.compile(
    r"\W*[A-Z][.)\]:].*(?:\b(?:or|and)\W+(?:option\W+)?|,\s*\(?|\s\()[A-Z][.)\]:]\s+\S", re.DOTALL
)


def unwrap(content: str) -> str:
    """The content without emphasis, lead-in words ("the answer is"), or a second marker around it."""
    for _ in range(4 if len(content) <= LONGEST_ANSWER else 0):
        wrapped, content = content, _unwrap_once(content)
        if content == wrapped:
            break
    return content


def _unwrap_once(content: str) -> str:
    content = _CITED.sub("", content.strip(EMPHASIS))
    for opening, closing in _MATH_WRAPS if content.startswith(("$", "\\")) else ():
        if len(content) > len(opening + closing) and content.startswith(opening) and content.endswith(closing):
            inner = content[len(opening) : -len(closing)]
            return content if opening in inner else inner
    if content.startswith("[") and not _TUPLE.fullmatch(content[1:-1]) and pairs(content, "[]").get(0) == len(content):
        return content[1:-1]
    wrap = _LATEX_WRAP.match(content)
    if wrap and pairs(content, "{}").get(wrap.end()) == len(content):
        return content[wrap.end() + 1 : -1]
    lead_in = _LEAD_IN.match(content)
    return content[lead_in.end() :] if lead_in else content


def is_placeholder(content: str) -> bool:
    """Whether the content is an echoed placeholder, or belongs to another grammar, such as a search."""
    return not content or (len(content) <= LONGEST_ANSWER and bool(_PLACEHOLDER.fullmatch(content.removesuffix("."))))


def says_only_where(content: str) -> bool:
    """Whether the content names the text that holds the answer, but no answer: "in the first sentence"."""
    return bool(_WHERE.fullmatch(content))


def is_formula(content: str) -> bool:
    """Whether the content is only mathematics: ``(x+1)(x-2)``, ``y = 3``."""
    return bool(_FORMULA.fullmatch(content))


def offers_several(content: str) -> bool:
    """Whether the content names several options: "(C) and (E)", "A. tin or B. mercury"."""
    return bool(_ALTERNATIVES.match(content))


class Reader:
    """A task's reader that first removes what models write around an answer."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read

    @cached_property
    def is_open(self) -> bool:
        """Whether it accepts free text; a reader of labels or letters does not."""
        return self._read("words that stand for no answer") is not None

    def __call__(self, content: str) -> str | None:
        """The answer in a marker's content; None if the content is not an answer."""
        content = unwrap(content)
        if len(content) > LONGEST_ANSWER or is_placeholder(content) or (offers_several(content) and not self.is_open):
            return None
        return self._read(content)


Standing = Literal["stated", "plain", "quoted", "none"]
"""``stated``: the words directly before it say "the answer is". ``plain``: they do not. ``quoted``: another speaker's
answer. ``none``: it is denied, hypothetical, an example, or part of a word, a link or a formula."""

_NOUN = r"\b(?:answer(?!\s+(?:choices|options))|verdict|label|option|choice|letter|result|solution|translation)\b"
_SAYING = (
    r"(?:sa(?:id|ys?)|answer(?:s|ed)|claim(?:s|ed)|argue[sd]|stat(?:es|ed)|g(?:ave|ives)|th(?:inks|ought)|believe[sd]"
    r"|cho(?:se|oses)|conclude[sd]|propose[sd]|suggest(?:s|ed))"
)
_GAP = r"[\s*_`\"'“‘]+"  # noqa: RUF001
_QUIET = r"[^\w.!?]*"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_STATES = _any(
    rf"{_NOUN}(?:[^.!?\n]{{0,80}}\b(?:is|are|was|were|be|equals)|[^.!?\n]{{0,40}}[:=]){_QUIET}\Z",
    rf"^\W{{0,9}}(?:(?:the|my|our|final|correct|best)\s+){{0,3}}{_NOUN}[^\w.!?\n]*\n{_QUIET}\Z",
    r"\bfinish\Z",
)
_ABOUT = (
    r"\b(?:for|behind|support\w{0,3}|about|to\s+(?:determine|identify|find|choose|select)|what|where|why|how|whether|if"
    rf"|unless|suppose)\s+(?:(?:the|my|your|an?)\s+)?(?:(?:final|correct|right|best)\s+)?{_NOUN}"
    rf"(?:\s+(?:is|was|would\s+be))?{_QUIET}\Z"
)
_DENIED = (
    r"(?:\b(?:not|never|neither|nor|than|instead\s+of|over|cannot|can't|unable\s+to|impossible\s+to|far\s+from)"
    rf"|n't(?:\s+be)?){_GAP}(?:(?:the|an?|simply|just|say|reply|answer|deserve|with|label|option){_GAP}){{0,3}}\Z"
)
_EXAMPLE = (
    r"(?:\bfor\s+(?:instance|example)|\be\.g\.?|\bsuch\s+as|,\s*like|\b(?:form|format|style|placeholder)(?:\s+of)?|\bone\s+of)"
    r"[^\w.!?\n]*\Z"
)
_INSTRUCTED = (
    r"\b(?:if|unless|whether|when|either)\b[^.\n]{0,120}\b(?:reply|answer|respond|say|write|put|it\s+were)\W*\Z"
)
_NOT_COUNTED_BEFORE = _any(_ABOUT, _DENIED, _EXAMPLE, _INSTRUCTED)
_NOT_COUNTED_AFTER = _any(
    r"[\s*_`\"']*(?:(?:is|was|are|were|seems|does|do|did|could|would)\s*(?:n't\b|(?:(?:\w+ly|just|also)\s+)?(?:not|wrong"
    r"|incorrect|false|unlikely|impossible|ruled\s+out)\b)|can(?:not|'t)\b)",
    r"[^.!?\n]{0,120}\?",
)
_CONDITIONAL = _any(r"\W{0,9}(?:(?:only\s+)?(?:if|when|unless|provided)|would|might)\b")
_QUOTES_OTHER = _any(
    rf"(?:{OTHER_SPEAKER}[^.\n]{{0,40}}\b{_SAYING}\b|{OTHER_SPEAKER}'s\s+(?:\w+\s+){{0,2}}{_NOUN}"
    rf"|{_NOUN}\s+(?:given\s+)?(?:of|from|by)\s+{OTHER_SPEAKER})"
    r"(?:(?!\b(?:but|I|however|differ|so)\b)[^.\n])*\Z"
)
_ALONE = _any(
    r"\W*(?:(?:so|thus|therefore|hence|in conclusion)\W+)?(?:(?:my|the|final|overall)\W+)*"
    r"(?:(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion|choice|pick|winner)\W*(?:is\W*)?)?"
)
_GOES_ON = re.compile(r"\w|\((?:http|/|#|www)")
_FORMULA_GOES_ON = _any(r"\w|[(^_]|\s?[-+*/=<>×·÷]\s?(?:[\d(\\]|[a-z]\b)")  # noqa: RUF001
_WORD_END = re.compile(r"[\w)}^#/&]\Z")
_CALL = _any(r"\b(?:finish|answer|is)\Z")


def states(near: str) -> bool:
    """Whether the words before a marker introduce an answer: "the answer, then, is", "Verdict:"."""
    return bool(_STATES.search(near)) and not _NOT_COUNTED_BEFORE.search(near)


def standing(text: str, start: int, end: int) -> Standing:
    """The standing of the marker at ``start .. end``, from the words around it."""
    near, after = _plain_quotes(text_before(text, start)), _plain_quotes(text[end : end + NEAR])
    stated = bool(_STATES.search(near))
    is_denied = _NOT_COUNTED_BEFORE.search(near) or _NOT_COUNTED_AFTER.match(after)
    if is_denied or _is_glued(text, start, end) or (not stated and _CONDITIONAL.match(after)):
        return "none"
    if _QUOTES_OTHER.search(near):
        return "quoted"
    return "stated" if stated else "plain"


def _is_glued(text: str, start: int, end: int) -> bool:
    """Whether a bracket is part of a word, a call (``f[0]``, but not ``Finish[Paris]``), a link or a formula."""
    near, after = text[max(0, start - 9) : start].removesuffix("\\left"), text[end : end + 9]
    goes_on = _FORMULA_GOES_ON if text[start] == "(" else _GOES_ON
    return bool(goes_on.match(after) or (_WORD_END.search(near) and not _CALL.search(near)))


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a marker is alone on its line, or is a whole conclusion: "Therefore, my verdict is: [No]"."""
    return bool(_ALONE.fullmatch(lead(text, start))) and not re.search(r"\w", tail(text, end))


def _plain_quotes(text: str) -> str:
    return text.replace("’", "'").removesuffix("\\left")  # noqa: RUF001
