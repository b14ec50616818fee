r"""A reply cut into its own words and its records.

Quotations, other speakers' lines and copies of the request decide nothing. They are replaced by spaces of the same
length, so that positions still refer to the reply; line breaks stay. A container is recognised by its form: ``>``
lines, indented lines and table rows; fences, tags, ``BEGIN`` to ``END`` and quotation marks, which have two ends; and
what a label of another speaker or of a source leads, up to the end of its paragraph. A container that is the whole
reply is a form of the reply, except a quotation.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from typing import Concatenate, ParamSpec

from madke.core.chat import Completion
from madke.engine.parse.grammar import (
    CONTEXT_WIDTH,
    OTHER_SPEAKER,
    Parsed,
    T,
    has_word,
    is_phrase,
    line_after,
    line_before,
    text_before,
    without,
)

P = ParamSpec("P")

MAX_READ = 200_000
"""Characters that are read, counted from the end of a text, where the answer is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseContext:
    """The request of a reply, as far as its reading depends on it."""

    request: str = ""
    """The texts of its messages."""
    material: tuple[str, ...] = ()
    """Its parts that are not rules or examples: question, options, passages, stances."""
    evidence: tuple[str, ...] = ()
    """Those of them that an answer may come from: of the stances, only the answers that were read from them."""
    others: tuple[str, ...] = ()
    """The stances of others that it shows."""
    own: str = ""
    """The debater's own previous stance and prepared notes."""
    speaker: str = ""
    """The name of the one who replies."""
    speakers: tuple[str, ...] = ()
    """The names of all debaters."""
    question: str = ""


NO_CONTEXT = ParseContext()


# Records: JSON or a Python dict, even if fenced, badly quoted or cut off.

REASON_KEY = re.compile(r"\b(?:reason|explan|rational|thought|think|justif|analy|evidence|comment|why|because|step)")
ANSWER_KEY = re.compile(
    r"^(?!.*\b(?:base|question|confidence|previous|wrong|incorrect|other|alternative|gold)\b)"
    r".*\b(?:answer|choice|translation|solution|label|option|conclusion|prediction)\b"
)

_CLOSING = {'"': '"', "'": "'", "“": "”"}
_STRING_ENDS = {quote: re.compile(rf"\\.|{closing}", re.DOTALL) for quote, closing in _CLOSING.items()}
_KEY = r"[\"'“]([^\"'“”{}\n:]{1,80})[\"'”]\s{0,9}:"
_BRACE_OR_KEY = re.compile(rf"[{{}}]|{_KEY}\s{{0,99}}")
_AFTER_VALUE = re.compile(rf"\s{{0,99}}(?:\}}|\Z|```|(?:,\s{{0,99}})?{_KEY})")
_BARE_VALUE = re.compile(r"\[[^\[\]{}]{0,300}\]|[^,{}\n]{0,300}")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"'\\/])|([nt])(?![a-z]))")
_LEADS = re.compile(
    rf"(?:[^\n]*[.!?]\s)?(?:[^\w\n]*|(?![^\n]*(?:{OTHER_SPEAKER}|\b(?:wrote|sa(?:id|ys)|not|if|example|form|passage|document"
    r"|knowledge|source|snippet)\b|\[\d))[^.!?\n]*:\s*)",
    re.IGNORECASE,
)
"""What may stand before a record on its line: nothing, or words that announce it, not those of another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A key (lower case, single spaces) and its value, empty for ``null`` and ``None``."""

    key: str
    value: str
    span: tuple[int, int]
    whole: bool = True
    """False if the text is cut off inside the value."""
    depth: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FormRecord:
    """The fields of one record, including those of nested records."""

    fields: tuple[Field, ...]
    span: tuple[int, int]
    whole: bool = True


def records(text: str) -> Iterator[FormRecord]:
    """The records of a text, in order. Braces without ``key: value`` are not records."""
    fields: list[Field] = []
    start = at = max(0, text.find("{"))
    depth = 0
    while token := _BRACE_OR_KEY.search(text, at) if "{" in text else None:
        at = token.end()
        if token[0] == "{":
            start, depth = start if depth else token.start(), depth + 1
        elif token[0] == "}":
            depth = max(0, depth - 1)
            if fields and not depth:
                yield FormRecord(fields=tuple(fields), span=(start, at))
                fields = []
        elif depth:
            at, whole = _value_end(text, token.end())
            if at > token.end():
                name = " ".join(re.findall(r"[a-z0-9]+", token[1].lower()))
                value = _decode_escapes(text[token.end() : at])
                fields.append(Field(key=name, value=value, span=(token.end(), at), whole=whole, depth=depth))
    if fields:
        yield FormRecord(fields=tuple(fields), span=(start, at), whole=False)


def own_records(text: str) -> list[FormRecord]:
    """The records that begin a line, or follow on one. A record inside a sentence is quoted."""
    own: list[FormRecord] = []
    for record in records(text):
        line = text[text.rfind("\n", 0, record.span[0]) + 1 : record.span[0]]
        if (own and own[-1].span[1] > record.span[0] - len(line)) or _LEADS.fullmatch(line[-CONTEXT_WIDTH:]):
            own.append(record)
    return own


def _value_end(text: str, start: int) -> tuple[int, bool]:
    """The end of the value at ``start``, and whether it is complete. A nested record has length 0."""
    first = text[start : start + 1]
    if first == "{":
        return start, True
    if first not in _STRING_ENDS:
        value = _BARE_VALUE.match(text, start)
        end = value.end() if value else start
        return end, end < len(text)
    line_end = None
    for mark in _STRING_ENDS[first].finditer(text, start + 1):
        if mark[0].startswith("\\"):
            continue
        if _AFTER_VALUE.match(text, mark.end()):
            return mark.end(), True
        if line_end is None and text.startswith("\n", mark.end()):
            line_end = mark.end()
    return (len(text), False) if line_end is None else (line_end, True)


def _decode_escapes(raw: str) -> str:
    def unescaped(escape: re.Match[str]) -> str:
        # An unpaired surrogate is not a character.
        character = chr(int(escape[1], 16)) if escape[1] else escape[2] or {"n": "\n", "t": "\t"}[escape[3]]
        return "?" if "\ud800" <= character <= "\udfff" else character

    if raw[:1] in _CLOSING:
        inner = raw[1:-1] if len(raw) > 1 and raw.endswith(_CLOSING[raw[0]]) else raw[1:]
        return _ESCAPE.sub(unescaped, inner).strip()
    value = raw.strip()
    return "" if value.lower() in ("none", "null", "n/a") else value


# The reply.


@dataclass(frozen=True)
class Reply:
    """A reply cut into what it says itself, for all parsers alike."""

    text: str
    """Its own words, with spaces for quotations."""
    unmasked: str
    """Its own words with what stands in quotation marks."""
    whole: str = ""

    @cached_property
    def records(self) -> list[FormRecord]:
        """The records that begin a line."""
        return own_records(self.unmasked)

    def outside(self, text: str) -> str:
        """A text of the same length without the records of the reply, even those inside sentences."""
        return without(text, (record.span for record in records(self.unmasked)))


def reading(
    *, sources: bool = True
) -> Callable[[Callable[Concatenate[Reply, P], Parsed[T]]], Callable[Concatenate[str, P], Parsed[T]]]:
    """Make a parser of the own words of a reply one of its text; spans refer to the whole text."""

    def decorate(parse: Callable[Concatenate[Reply, P], Parsed[T]]) -> Callable[Concatenate[str, P], Parsed[T]]:
        @wraps(parse)
        def read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Parsed[T]:
            parse_context = kwargs.get("context")
            context = parse_context if isinstance(parse_context, ParseContext) else NO_CONTEXT
            start = max(0, len(text) - MAX_READ)
            window = text[start:]
            left = without_copies(window, context)
            own = own_words(left, context, sources=sources)
            parsed = parse(Reply(without_quotations(own), own, window), *args, **kwargs)
            if left != window and parsed.status == "unmarked" and 2 * len(left.split()) <= len(window.split()):
                return replace(parsed, status="echoed", rule="copy")
            if not start or parsed.span is None:
                return parsed
            return replace(parsed, span=(parsed.span[0] + start, parsed.span[1] + start))

        return read

    return decorate


# Containers with two ends.

_PLAIN_TAGS = r"(?:b|i|u|em|strong|p|br|span|div|font|center|mark|sub|sup|h[1-6]|ul|ol|li|(?:final_?)?answer)"
_QUOTING = {"example", "instructions", "knowledge", "notes", "quote", "blockquote", "q", "cite", "reply", "review",
            "stance", "summary"}  # fmt: skip
_DELIMITER = re.compile(
    r"^[ \t]{0,9}(?P<fence>```|~~~)[^\n]*$"
    rf"|<(?P<end_tag>/?)(?!{_PLAIN_TAGS}[\s>/])(?P<tag>[A-Za-z][\w:-]{{0,30}})(?:\s[^<>\n]{{0,200}})?(?<!/)>"
    r"|(?P<comment><!--)|(?P<end_comment>-->)"
    r"|^[^\w\n]*(?:(?P<begin>begin|start\s+of)|(?P<end_begin>end))(?![a-z])[^\n]{0,60}$"
    r"|\\(?P<tex>begin|end)\{(?P<env>\w*(?:quot|verbatim)\w*)\}"
    r"|\[(?P<end_bb>/?)(?P<bb>quote|spoiler|code)\b[^\]\n]*\]"
    r"|(?P<marks>\"\"\"|''')",
    re.IGNORECASE | re.MULTILINE,
)


def own_words(text: str, context: ParseContext, *, sources: bool = True) -> str:
    """The reply without containers of others' words. Text in quotation marks stays; see :func:`without_quotations`."""
    text = QUOTED_LINE.sub(_spaced, _without_containers(text))
    outside = _ROW.sub(_spaced, text)
    return _without_led(outside if has_word(outside) else text, context, sources=sources)


def _spaced(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _without_containers(text: str) -> str:
    """Without fences, tags and blocks. Only the delimiters go where one is the whole reply, or a record in a fence."""
    spans: list[tuple[str, int, int, int, int]] = []
    opened: tuple[str, re.Match[str]] | None = None
    for delimiter in _DELIMITER.finditer(text):
        kind = delimiter.lastgroup or ""
        name, closes = kind.removeprefix("end_"), kind.startswith("end_")
        if kind in ("tag", "bb"):
            name, closes = delimiter[kind].lower(), bool(delimiter[f"end_{kind}"])
        elif kind == "env":
            name, closes = delimiter["env"], delimiter["tex"].lower() == "end"
        if opened is not None and name == opened[0] and (closes or name in ("fence", "marks")):
            spans.append((name, *opened[1].span(), *delimiter.span()))
            opened = None
        elif opened is None and not closes:
            opened = (name, delimiter)
    if opened is not None and not has_word(line_before(text, opened[1].start())):
        spans.append((opened[0], *opened[1].span(), len(text), len(text)))
    is_whole = not has_word(without(text, ((start, end) for _, start, _, _, end in spans)))
    masked: list[tuple[int, int]] = []
    for name, start, inner, outer, end in spans:
        holds_record = name == "fence" and text[inner:outer].lstrip().startswith("{") and not has_word(text[end:])
        is_form = holds_record or (is_whole and name not in _QUOTING)
        masked += [(start, inner), (outer, end)] if is_form else [(start, end)]
    return without(text, masked)


QUOTED_LINE = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)
_ROW = re.compile(r"^(?:[ \t]*\||(?: {4}|\t)[ \t]*(?![\"'{}\]])\S|[^|\n]*\|[^|\n]*\|)[^\n]*", re.MULTILINE)
"""A row of a table, an indented line (but not one of a record)."""
_MARKS = re.compile(
    r"(?<!\":)(?<!\": )[\"“](?P<quote>[^\"“”\n]{1,1000})[\"”]|(?<!`)`(?P<code>[^`\n]{1,300})`(?!`)"
    r"|[«「](?P<angle>[^«»「」\n]{1,300})[»」]|(?<![\w\\'])'(?P<single>[^'\n]{1,300})'(?!\w)"
    r"|^\"(?P<block>[^\"]{1,2000})\"$|“(?P<curly>[^“”]{1,2000})”|~~(?P<struck>[^~\n]{1,300})~~",
    re.MULTILINE,
)
_HOLDS_CONCLUSION = re.compile(
    r"[\[{]|\\boxed|\\fbox|<answer|####|\([A-Z\d]\)"
    r"|\b(?:answer|verdict|label|option|choice|decision|grade|select(?:ed|ion)|ranking|confidence|winner|pick|side)\b"
    r"\W{0,3}(?:is\b|:|=|wins\b)",
    re.IGNORECASE,
)
_STATES_QUOTE = re.compile(
    r"\b(?:answer|verdict|label|option|choice|letter|result|solution|translation|decision|selected|winner)\b"
    r"[^.!?\n\"“]{0,40}(?:\bis|[:=])[\s*_]{0,9}\Z",
    re.IGNORECASE,
)
"""A quotation directly after these words is the reply's own answer."""


def without_quotations(text: str) -> str:
    """The text without the conclusions in quotation marks or backticks, unless they are the stated answer."""
    length = len(text.strip(" \n.*_"))

    def own(quote: re.Match[str]) -> str:
        if quote["struck"] is None:
            if not _HOLDS_CONCLUSION.search(quote[0]) or len(quote[0]) >= length:
                return quote[0]
            before = text_before(text, quote.start()).rpartition("\n")[2]
            if _STATES_QUOTE.search(before) and not re.search(OTHER_SPEAKER, before, re.IGNORECASE):
                return quote[0]
        return _spaced(quote)

    return _MARKS.sub(own, text)


# What a label leads.

_SOURCE = (
    r"(?:(?:passage|knowledge|document|doc|source|snippet|text|article|context|note|evidence|search\s+result)s?\s*#?\[?\d{1,4}\]?"
    r"|(?:block\s?)?(?:quote|quotation)|excerpt|(?:for\s+)?example(?:\s\d+)?|original\s+(?:text|passage|reply))"
)
_SAID = (
    r"(?:wrote|writes|said|says|answered|answers|replied|replies|argued|argues|claimed|claims|stated|states|concluded)"
)
_INTRODUCTION = re.compile(
    rf"^(?:[ \t]*(?:#{{1,6}}\s[^\n]*?{OTHER_SPEAKER}[^\n]*|\*\*[^*\n]*?{OTHER_SPEAKER}[^*\n]*\*\*:?)[ \t]*"
    r"|(?![^\n]*\b(?:my|own|final)\b)[^\n]{0,120}"
    rf"(?:{OTHER_SPEAKER}|\b{_SAID}\b|\b(?:quote|excerpt|example)\b)[^\n:]{{0,60}}:[*_ \t]*)$",
    re.IGNORECASE | re.MULTILINE,
)
"""A heading that names another speaker, or a line that announces what another says."""
_NEW_SPEAKER = re.compile(r"^[^\w\n]{0,9}(?:question|user|human|q)\s?\d{0,3}[*_]{0,3}:(?P<asked>[^\n]*)", re.I | re.M)
_FINAL_LINE = re.compile(
    r"^[^\w\n]{0,9}(?:(?:my|the|so|final)\s+){0,3}"
    r"(?:answer|verdict|decision|grade|select(?:ed|ion)|ranking|label|translation)\b[^:\n]{0,20}:[^\S\n]*\S"
    r"|(?:^|[.!?]\s)[^\w\n]{0,9}(?:(?:so|thus|hence|therefore),?\s+)?(?:the|my)\s+(?:(?:final|correct)\s+)?answer\s+is\s+\S"
    r"|^[^\w\n\[]{0,9}\[[^\]\n]{1,100}\][^\w\n]*$|\\boxed\{",
    re.IGNORECASE | re.MULTILINE,
)
"""What says that a reply has given its answer. Another speaker's line after it begins a conversation made up."""
_HEADING_WORD = re.compile(
    r"^\W*#|\b(?:review|summar|analys|evaluat|repl(?:y|ies)|discuss|compar|debate|round|stance|agree)\w*", re.I
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\Z")


@lru_cache(maxsize=64)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    """The beginning of a line that another speaker says, or that a source holds."""
    speaker = "|".join([OTHER_SPEAKER, *map(re.escape, names)])
    return re.compile(
        rf"^[^\w\n<>]{{0,9}}(?:\d{{1,2}}[.)][ \t]*)?(?:(?P<name>{speaker})|(?P<source>{_SOURCE}))"
        rf"(?:['’]s(?:\s+\w+){{1,3}}|\s+{_SAID}|\s+in\s+round\s+\d+)?"  # noqa: RUF001
        r"(?:[ \t]?[(\[][^()\[\]\n]{0,90}[)\]])?[*_\])]{0,4}[ \t]?(?::|[-\u2013\u2014]{1,3}>?(?=\s)"
        r"|=+>|\u2192|\||[^\w\n]{0,4}$)[*_]{0,3}",
        re.IGNORECASE | re.MULTILINE,
    )


def _without_led(text: str, context: ParseContext, *, sources: bool) -> str:
    """Without lines of other speakers and of sources; after an own conclusion, such a speaker ends the reply."""
    for new in _NEW_SPEAKER.finditer(text):
        restated = context.question and _plain(new["asked"]) == _plain(context.question)
        if has_word(text[: new.start()]) and not restated:
            text = without(text, [(new.start(), len(text))])
            break
    labels = [*_label(context.speakers).finditer(text), *_INTRODUCTION.finditer(text)]
    labels = sorted((label for label in labels if not _is_choice(text, label)), key=lambda label: label.start())
    speakers = [label for label in labels if not label.groupdict().get("source")]
    own = [label for label in speakers if _is_own(text, label, speakers, context.speaker)]
    others = [label for label in speakers if label not in own]
    for label in own:  # What follows the own name begins a line.
        text = f"{text[: label.start()]}{' ' * (len(label[0]) - 1)}\n{text[label.end() :]}"
    records = [record.span for record in own_records(text)] if labels else []
    led: list[re.Match[str]] = []
    spans: list[tuple[int, int]] = []
    for label in labels:
        is_led = label in others or (label not in own and (sources or not has_word(line_after(text, label.end()))))
        inside = spans and label.start() < spans[-1][1]
        if is_led and not any(start < label.start() < end for start, end in records):
            led.append(label)
            if not inside and (end := _led_until(text, label)):
                spans.append((label.start(), end))
    left = without(text, spans)
    final = _FINAL_LINE.search(left)
    head = text[: others[0].start()].strip() if others else ""
    is_answer = "\n" not in head and is_phrase(head.strip("*_ ")) and not _HEADING_WORD.search(head)
    at = 0 if is_answer else final.start() if final else len(text)
    first = next((label for label in others if label.start() > at and label in led), None)
    return left if first is None else without(left, [(first.start(), len(left))])


def _is_choice(text: str, label: re.Match[str]) -> bool:
    """Whether a label is a name in brackets on a line of its own: that is a judge's pick."""
    is_heading = not has_word(line_after(text, label.end()))
    return is_heading and "[" in label[0] and not label[0].rstrip("*_ ").endswith((":", "-"))


def _led_until(text: str, label: re.Match[str]) -> int | None:
    """The end of its line or, alone on it, of the paragraph after it. A name alone at the end leads nothing."""
    line = line_after(text, label.end())
    end = label.end() + len(line)
    following = None if has_word(line) else re.compile(r"\S").search(text, end)
    if following:
        close = _PARAGRAPH_END.search(text, following.start())
        return close.start() if close else end
    return end if has_word(line) or label[0].rstrip().endswith(":") else None


def _is_own(text: str, label: re.Match[str], speakers: list[re.Match[str]], speaker: str) -> bool:
    name = label.groupdict().get("name")
    if name is None or not label[0].rstrip(" *_").endswith(":"):
        return False
    if speaker:
        return _plain(name) == _plain(speaker)
    begins = len(speakers) == 1 and not has_word(text[: label.start()])
    return begins and not re.search(_SAID, label[0], re.IGNORECASE)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower().replace("_", " ")))


# Copies of the request.

min_copied_words = 6
"""Honest last lines are shorter ("The answer is yes"); sentences of rules and examples are longer."""
_TOKEN = re.compile(r"\w+|\n\s*")
_SENTENCE = re.compile(r"[^\s.!?][^\n.!?]*(?:[.!?](?!\s|\Z)[^\n.!?]*)*[.!?]*")
_EXAMPLES = (
    re.compile(r"\[([^\[\]\n]{1,200})\]"),
    re.compile(r"\\boxed\{([^{}\n]{1,200})\}"),
    re.compile(r"\banswer\s{0,9}(?:is\b|:)\s{0,9}\(?([^()\n]{1,200})", re.IGNORECASE),
    re.compile(r"^([^\n:]{1,60})$", re.MULTILINE),
)
"""Answers that a request gives as examples: in a marker, after a cue, or alone on a line of the chat."""


def without_copies(text: str, context: ParseContext) -> str:
    """The reply with spaces for its sentences that consist of runs of words of the request's rules and examples."""
    frame = _frame(context.request, context.material) if context.request else ""
    runs, skeletons = _runs(frame), _fold(frame) if "{" in text else ""
    # The skeleton of a requested record may be shorter than a run.
    copied = [
        (start, end)
        for start, end, is_copied in (_copies(text, runs) if runs or skeletons else ())
        if is_copied or (skeletons and "{" in text[start:end] and _fold(text[start:end]) in skeletons)
    ]
    return without(text, copied)


def gives_back(text: str, context: ParseContext) -> bool:
    """Whether a reply copies rules or examples of its request, and all else from it too: the prompt given back."""
    left = without_copies(text, context)
    runs = _runs(context.own).union(*map(_runs, context.others))
    return left != text and all(copied for *_, copied in _copies(left, _runs(context.request) - runs))


def is_copied(text: str, context: ParseContext) -> bool:
    """Whether all sentences of a reply are copied from others' stances, and not from its own earlier words."""
    runs = frozenset[tuple[str, ...]]().union(*map(_runs, context.others)) - _runs(context.own)
    return bool(runs) and all(copied for *_, copied in _copies(text, runs))


def is_example(value: str, context: ParseContext) -> bool:
    """Whether an answer only repeats an example of the request: neither question, passages nor others have it."""
    if not context.request:
        return False
    plain = _bare(value)
    examples = _examples(_frame(context.request, context.material))
    return plain in examples and not any(plain in _fold(part) for part in context.evidence)


@lru_cache(maxsize=64)
def _frame(request: str, material: tuple[str, ...]) -> str:
    """The request without its material: rules and examples."""
    # Once for each time that it is shown, from the end: a stance may equal the line of an example before it.
    for part in sorted(filter(str.strip, material), key=len, reverse=True):
        place = request.rfind(part)
        while place >= 0 and (_in_word(request, place - 1) or _in_word(request, place + len(part))):
            place = request.rfind(part, 0, place + len(part) - 1)
        if place >= 0:
            request = f"{request[:place]}\n{request[place + len(part) :]}"
    return request


def _in_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")


def _copies(text: str, runs: frozenset[tuple[str, ...]]) -> list[tuple[int, int, bool]]:
    """Spans of the sentences that have words, and whether all words of each are copied."""
    tokens = list(_TOKEN.finditer(text))
    words = [token[0].lower() if not token[0].isspace() else "\n" for token in tokens]
    copied = [False] * len(words)
    for n in range(len(words) - min_copied_words + 1):
        if tuple(words[n : n + min_copied_words]) in runs:
            copied[n : n + min_copied_words] = [True] * min_copied_words
    copies, n = [], 0
    for sentence in _SENTENCE.finditer(text):
        while n < len(tokens) and tokens[n].start() < sentence.start():
            n += 1
        first = n
        while n < len(tokens) and tokens[n].start() < sentence.end():
            n += 1
        if n > first:
            copies.append((*sentence.span(), all(copied[first:n])))
    return copies


@lru_cache(maxsize=64)
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = [token.lower() if not token.isspace() else "\n" for token in _TOKEN.findall(text)]
    return frozenset(tuple(words[n : n + min_copied_words]) for n in range(len(words) - min_copied_words + 1))


@lru_cache(maxsize=64)
def _examples(frame: str) -> frozenset[str]:
    return frozenset(filter(None, (_bare(content) for form in _EXAMPLES for content in form.findall(frame))))


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _bare(text: str) -> str:
    return _fold(text).strip(" \t.*_`\"'“”()[]<>")


# What is taken off a completion where it enters: control tokens of its model, and hidden reasoning. Reasoning is kept
# with the completion, counted, never read and never shown to others.

TRUNCATED = frozenset({"length", "max_tokens", "model_length"})
"""Finish reasons of a reply that was cut off at ``max_tokens``: OpenAI and most others, Cohere, Mistral."""

_NAMES = (
    r"(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratch_?pad|analysis|inner_?(?:thoughts?|monologue))"
)
_BLOCKS: tuple[tuple[str, str], ...] = (
    (rf"<{_NAMES}>", rf"</{_NAMES}>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|(?:START_THINKING|begin_of_thought|inner_prefix|think|thinking)\|>",
     r"<\|(?:END_THINKING|end_of_thought|inner_suffix|/think|/thinking)\|>"),
    (r"(?:<\|start\|>assistant)?<\|channel\|>\s*(?:analysis|commentary)[^<\n]{0,80}(?:<\|constrain\|>\w*)?(?:<\|message\|>)?",
     r"(?:<\|end\|>\s*)?(?:<\|start\|>assistant)?<\|channel\|>\s*final[^<\n]{0,80}(?:<\|constrain\|>\w*)?<\|message\|>"),
    (r"<\|channel>\s*(?:thought|analysis)", r"<channel\|>"),
    (r"\A\s*(?:analysis|commentary)(?=[A-Z\"'*(])", r"assistant(?:commentary[^\n]{0,80})?final(?=\S)"),
    (r"\AHere is my thought process:", r"^Here is my response:"),
)  # fmt: skip
"""Opening, closing. A closing one alone hides all text before it: the server wrote the opening into the prompt."""
_BLOCK = re.compile(
    r"(?<![`\"'])(?:(?P<close>" + "|".join(close for _, close in _BLOCKS) + r")|"
    r"(?:" + "|".join(start for start, _ in _BLOCKS) + r"))(?!\s{0,3}(?:tags?|blocks?|tokens?)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_NEEDS_OPENING = re.compile(r"assistant(?:commentary|final)|Here is my response", re.IGNORECASE)
"""A closing text that is also made of ordinary words."""
_OPENING_PLACE = re.compile(r"(?:\A|[\n.!?:>…])\s{0,9}\Z")

_ENDS = re.compile(
    r"<[|\uff5c](?!(?:begin_of_|end_of_|/)?(?:box|ref|object|quad|response|solution)|START_RESPONSE|END_RESPONSE)[^|\uff5c<>\n]{1,40}[|\uff5c]>"
    r"|\[\|[^|\[\]\n]{1,40}\|\]|</?s>|</?(?:eos|bos|pad|unk|eo[adhpt]|sep|cls|seed:\w+|end_of_\w+|start_of_turn|endoftext|im_end|im_start)>"
    r"|\[/?(?:INST|SYS|EOS|BOS|EOT|PAD|SEP|CLS|UNK|gMASK)\]|<</?SYS>>|\[end of text\]|<turn\|>|<\|turn>",
)
"""Tokens that begin or end a turn. What follows one is no longer the reply."""
_INSIDE = re.compile(
    r"<[|\uff5c](?:(?:begin_of_|end_of_|/)?(?:box|ref|object|quad|response|solution)\w*|(?:START|END)_RESPONSE)[|\uff5c]>"
)
"""Tokens around a part of a reply, or around the reply."""
_ROLE = re.compile(r"\s*(?:assistant|model|chatbot|final)?\s*")


def without_control_tokens(text: str) -> str:
    """The text up to the first token that ends its turn, without the tokens and the role's name that begin it."""
    if not re.search(r"[<\[]", text):
        return text
    text = _INSIDE.sub("", text)
    start = 0
    while (token := _ENDS.match(text, skipped := len(text) - len(text[start:].lstrip()))) is not None:
        start = token.end()
        following = _ROLE.match(text, start)
        if following and (_ENDS.match(text, following.end()) or "\n" in text[start : following.end()]):
            start = following.end()
        if start == skipped:
            break
    end = _ENDS.search(text, start)
    return text[start : end.start() if end else len(text)].rstrip() if start or end else text


def _is_record(text: str) -> bool:
    try:
        return text.startswith("{") and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


@lru_cache(maxsize=256)  # each reply is asked about four times on its way into the debate
def without_reasoning(text: str) -> str:
    """The text without control tokens and hidden reasoning, also that cut off or opened by the server.

    A tag in quotes, a mention such as "the <think> tag", and a tag that opens in the middle of a sentence and is never
    closed are ordinary words. So is all text inside a JSON object that is the whole reply, or follows the reasoning.
    """
    text = text.strip()
    after = _BLOCK.split(text, maxsplit=2)[-1].strip() if _BLOCK.match(text) else ""
    for whole in (text, without_control_tokens(text), after, without_control_tokens(after)):
        if _is_record(whole):
            return whole
    blocks = [
        block
        for block in _BLOCK.finditer(text)
        if not (block["close"] and _NEEDS_OPENING.match(block[0])) or _BLOCK.match(text)
    ]
    last_close = max((block.start() for block in blocks if block["close"]), default=-1)
    visible: list[str] = []
    inside, at = False, 0
    for block in blocks:
        if block["close"]:
            visible, inside, at = visible if inside else [], False, block.end()
        elif not inside and (
            block.start() < last_close or _OPENING_PLACE.search(text, max(0, block.start() - 10), block.start())
        ):
            visible.append(text[at : block.start()])
            inside = True
    return without_control_tokens("".join(visible if inside else [*visible, text[at:]]).strip()).strip()


def with_empty_outcome(completion: Completion, max_tokens: int) -> Completion:
    """The completion; an ``ok`` one without visible text gets the outcome ``empty``."""
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
