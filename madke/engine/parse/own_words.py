r"""The reply's own words: without quotations, other speakers' lines, and copies of the request. These decide nothing.

They are replaced by spaces of the same length, so that positions still refer to the reply; line breaks stay. A
container is recognised by its form: ``>`` lines, indented lines and table rows; fences, tags, ``BEGIN`` to ``END`` and
quotation marks, which have two ends; and what a label of another speaker or of a source leads, up to the end of its
paragraph. A container that is the whole reply is a form of the reply, except a quotation.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec

from madke.engine.parse.context import NO_CONTEXT, OTHER_SPEAKER, WINDOW, ParseContext, Parsed, T, is_phrase, line_end
from madke.engine.parse.records import own_records

P = ParamSpec("P")

_SOURCE = (
    r"(?:(?:passage|knowledge|document|doc|source|snippet|text|article|context|note|evidence|search\s+result)s?\s*#?\[?\d{1,4}\]?"
    r"|(?:block\s?)?(?:quote|quotation)|excerpt|(?:for\s+)?example(?:\s\d+)?|original\s+(?:text|passage|reply))"
)
_SAID = (
    r"(?:wrote|writes|said|says|answered|answers|replied|replies|argued|argues|claimed|claims|stated|states|concluded)"
)


def _label(name: str) -> str:
    """The beginning of a line that another speaker says, or that a source holds."""
    return (
        rf"^[^\w\n<>]{{0,9}}(?:\d{{1,2}}[.)][ \t]*)?(?P<name>{name})"
        rf"(?:['’]s(?:\s+\w+){{1,3}}|\s+{_SAID}|\s+in\s+round\s+\d+)?"  # noqa: RUF001
        r"(?:[ \t]?[(\[][^()\[\]\n]{0,90}[)\]])?[*_\])]{0,4}[ \t]?(?::|[-\u2013\u2014]{1,3}>?(?=\s)"
        r"|=+>|\u2192|\||[^\w\n]{0,4}$)[*_]{0,3}"
    )


_SPEAKER_LABEL = re.compile(_label(OTHER_SPEAKER), re.IGNORECASE | re.MULTILINE)
_SOURCE_LABEL = re.compile(_label(_SOURCE), re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(
    rf"^[ \t]*(?:#{{1,6}}\s[^\n]*?{OTHER_SPEAKER}[^\n]*|\*\*[^*\n]*?{OTHER_SPEAKER}[^*\n]*\*\*:?)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that is only a heading and names another speaker."""
_INTRODUCTION = re.compile(
    rf"^(?![^\n]*\b(?:my|own|final)\b)[^\n]{{0,120}}"
    rf"(?:{OTHER_SPEAKER}|\b{_SAID}\b|\b(?:quote|excerpt|example)\b)[^\n:]{{0,60}}:[*_ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that announces what another says."""

_QUOTING_TAGS = "example|instructions|knowledge|notes|quote|blockquote|q|cite|reply|review|stance|summary"
_PLAIN_TAGS = r"(?:b|i|u|em|strong|p|br|span|div|font|center|mark|sub|sup|h[1-6]|ul|ol|li|(?:final_?)?answer)"
_TAG = re.compile(
    rf"<(?P<close>/?)(?!{_PLAIN_TAGS}[\s>/])(?P<name>[A-Za-z][\w:-]{{0,30}})(?:\s[^<>\n]{{0,200}})?>", re.I
)
_FENCE = re.compile(r"^[ \t]{0,9}(?:```|~~~)[^\n]*$", re.MULTILINE)
_BLOCK = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|^[^\w\n]*(?:begin|start\s+of)(?![a-z])[^\n]{0,60}$.*?(?:^[^\w\n]*end(?![a-z])[^\n]{0,60}$|\Z)"
    r"|\\begin\{(?P<env>\w*(?:quot|verbatim)\w*)\}.*?(?:\\end\{(?P=env)\}|\Z)"
    r"|\[(?P<bb>quote|spoiler|code)\b[^\]\n]*\].*?(?:\[/(?P=bb)\]|\Z)"
    r"|(?P<marks>\"\"\"|''').*?(?:(?P=marks)|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_QUOTED_LINE = re.compile(r"^[ \t]*>[^\n]*", re.MULTILINE)
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
_WORD = re.compile(r"\w")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\Z")

min_copied_words = 6
"""Honest last lines are shorter ("The answer is yes"); sentences of rules and examples are longer."""


def own_words(text: str, context: ParseContext, *, sources: bool = True) -> str:
    """The reply without containers of others' words; with ``sources=False``, lines that a passage's name leads stay.

    Text in quotation marks stays too: see :func:`unquoted`.
    """
    if "```" in text or "~~~" in text:
        text = _without_fenced(text)
    text = _without_tagged(text) if "<" in text else text
    text = _QUOTED_LINE.sub(_spaced, _BLOCK.sub(_spaced, text))
    outside = _ROW.sub(_spaced, text)
    text = outside if _WORD.search(outside) else text
    text = _without_new_speaker(text, context)
    return _without_led(text, context, sources=sources)


def unquoted(text: str) -> str:
    """The text without the conclusions in quotation marks or backticks, unless they are the stated answer."""
    length = len(text.strip(" \n.*_"))
    return _MARKS.sub(lambda quote: _unless_stated(text, quote, length), text)


def windowed(
    parse: Callable[Concatenate[str, P], Parsed[T]], *, sources: bool = True
) -> Callable[Concatenate[str, P], Parsed[T]]:
    """The parser of what a reply says itself, in its last :data:`WINDOW` characters; spans refer to the whole text.

    A reply that mostly copies its request, given as the keyword ``context``, and holds no value is ``echoed``.
    """

    @wraps(parse)
    def read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Parsed[T]:
        given = kwargs.get("context")
        context = given if isinstance(given, ParseContext) else NO_CONTEXT
        start = max(0, len(text) - WINDOW)
        window = text[start:]
        left = without_copies(window, context)
        parsed = parse(own_words(left, context, sources=sources), *args, **kwargs)
        if left != window and parsed.status == "unmarked" and 2 * len(left.split()) <= len(window.split()):
            return replace(parsed, status="echoed", rule="copy")
        if not start or parsed.span is None:
            return parsed
        return replace(parsed, span=(parsed.span[0] + start, parsed.span[1] + start))

    return read


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with spaces for these spans, which are in order."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _spaced(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _without_fenced(text: str) -> str:
    """Without fenced text. A fence around the whole reply, or around a record that ends it, is not a quotation."""
    bounds = [fence.span() for fence in _FENCE.finditer(text)]
    if len(bounds) % 2:  # The last fence is cut off.
        bounds.append((len(text), len(text)))
    first = word.start() if (word := _WORD.search(text)) else len(text)
    last = len(text) - (word.start() if (word := _WORD.search(text[::-1])) else len(text))
    spans: list[tuple[int, int]] = []
    for (start, inner), (outer, end) in zip(bounds[::2], bounds[1::2], strict=True):
        is_form = last <= end and (first > start or text[inner:outer].lstrip().startswith("{"))
        spans += [(start, inner), (outer, end)] if is_form else [(start, end)]
    return without(text, spans)


def _without_tagged(text: str) -> str:
    """Without what stands in tags. Tags around the whole reply are its form, unless they quote."""
    spans: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for tag in _TAG.finditer(text):
        if not tag["close"]:
            opened = opened or (None if text[: tag.end()].endswith("/>") else tag)
        elif opened is not None and opened["name"].lower() == tag["name"].lower():
            spans.append((opened.start(), tag.end()))
            opened = None
    if opened is not None and not text[text.rfind("\n", 0, opened.start()) + 1 : opened.start()].strip():
        spans.append((opened.start(), len(text)))
    left = without(text, spans)
    if _WORD.search(left) or re.match(rf"\s*<(?:{_QUOTING_TAGS})\b", text, re.IGNORECASE):
        return left
    return _TAG.sub(_spaced, text)


def _unless_stated(text: str, quote: re.Match[str], length: int) -> str:
    if quote["struck"] is None:
        if not _HOLDS_CONCLUSION.search(quote[0]) or len(quote[0]) >= length:
            return quote[0]
        before = text[max(text.rfind("\n", 0, quote.start()) + 1, quote.start() - 100) : quote.start()]
        if _STATES_QUOTE.search(before) and not re.search(OTHER_SPEAKER, before, re.IGNORECASE):
            return quote[0]
    return _spaced(quote)


def _labels(text: str, context: ParseContext) -> list[re.Match[str]]:
    found = [*_SPEAKER_LABEL.finditer(text), *_HEADING.finditer(text), *_INTRODUCTION.finditer(text)]
    if names := [name for name in context.speakers if not re.fullmatch(OTHER_SPEAKER, name, re.IGNORECASE)]:
        found += _named(tuple(names)).finditer(text)
    return sorted((label for label in found if not _is_choice(text, label)), key=lambda label: label.start())


def _is_choice(text: str, label: re.Match[str]) -> bool:
    """Whether a label is a name in brackets on a line of its own: that is a judge's pick."""
    return _is_heading(text, label) and "[" in label[0] and not label[0].rstrip("*_ ").endswith((":", "-"))


@lru_cache(maxsize=64)
def _named(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(_label("|".join(map(re.escape, names))), re.IGNORECASE | re.MULTILINE)


def _without_led(text: str, context: ParseContext, *, sources: bool) -> str:
    """Without lines of other speakers and of sources; after an own conclusion, such a speaker ends the reply."""
    labels = _labels(text, context)
    own = [label for label in labels if _is_own(text, label, labels, context.speaker)]
    others = [label for label in labels if label not in own]
    parts, at = [], 0
    for label in own:  # What follows the own name begins a line.
        parts += [text[at : label.start()], " " * (len(label[0]) - 1), "\n"]
        at = label.end()
    text = "".join([*parts, text[at:]])
    led = [*others, *(label for label in _SOURCE_LABEL.finditer(text) if sources or _is_heading(text, label))]
    held = [record.span for record in own_records(text)]
    led = [label for label in led if not any(start < label.start() < end for start, end in held)]
    left = without(text, _led_spans(text, sorted(led, key=lambda label: label.start())))
    final = _FINAL_LINE.search(left)
    head = text[: others[0].start()].strip() if others else ""
    is_answer = "\n" not in head and is_phrase(head.strip("*_ ")) and not _HEADING_WORD.search(head)
    at = 0 if is_answer else final.start() if final else len(text)
    first = next((label for label in others if label.start() > at and label in led), None)
    return left if first is None else without(left, [(first.start(), len(left))])


def _is_heading(text: str, label: re.Match[str]) -> bool:
    return not _WORD.search(text, label.end(), line_end(text, label.end()))


def _led_spans(text: str, labels: list[re.Match[str]]) -> list[tuple[int, int]]:
    """A label leads its line; alone on its line, also the paragraph after it."""
    spans: list[tuple[int, int]] = []
    for label in labels:
        if spans and label.start() < spans[-1][1]:
            continue
        end = line_end(text, label.end())
        if not _WORD.search(text, label.end(), end) and (word := re.compile(r"\S").search(text, end)):
            close = _PARAGRAPH_END.search(text, word.start())
            end = close.start() if close else end
        elif not _WORD.search(text, label.end()) and not label[0].rstrip().endswith(":"):
            continue  # A name alone at the end leads nothing.
        spans.append((label.start(), end))
    return spans


def _is_own(text: str, label: re.Match[str], labels: list[re.Match[str]], speaker: str) -> bool:
    name = label.groupdict().get("name")
    if name is None or not label[0].rstrip(" *_").endswith(":"):
        return False
    if speaker:
        return _plain(name) == _plain(speaker)
    return (
        len(labels) == 1 and not _WORD.search(text, 0, label.start()) and not re.search(_SAID, label[0], re.IGNORECASE)
    )


def _without_new_speaker(text: str, context: ParseContext) -> str:
    """Without what a new speaker, such as a next question, begins to say. The question restated is none."""
    for new in _NEW_SPEAKER.finditer(text):
        restated = context.question and _plain(new["asked"]) == _plain(context.question)
        if _WORD.search(text, 0, new.start()) and not restated:
            return without(text, [(new.start(), len(text))])
    return text


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower().replace("_", " ")))


_TOKEN = re.compile(r"\w+|\n\s*")
_SENTENCE = re.compile(r"[^\s.!?][^\n.!?]*(?:[.!?](?!\s|\Z)[^\n.!?]*)*[.!?]*")
_EXAMPLES = (
    re.compile(r"\[([^\[\]\n]{1,200})\]"),
    re.compile(r"\\boxed\{([^{}\n]{1,200})\}"),
    re.compile(r"\banswer\s{0,9}(?:is\b|:)\s{0,9}\(?([^()\n]{1,200})", re.IGNORECASE),
    re.compile(r"^([^\n:]{1,60})$", re.MULTILINE),
)
"""Answers that a request gives as examples: in a marker, after a cue, or alone on a line of the chat."""
_SURROUNDING = " \t.*_`\"'“”()[]<>"


def without_copies(text: str, context: ParseContext) -> str:
    """The reply with spaces for its sentences that consist of runs of words of the request's rules and examples."""
    frame = _frame(context.request, context.material) if context.request else ""
    runs, records = _runs(frame), _folded(frame) if "{" in text else ""
    copied = []
    for start, end, is_copied in _copies(text, runs) if runs or records else ():
        said = text[start:end]
        # The skeleton of a requested record may be shorter than a run.
        if is_copied or (records and "{" in said and _folded(said) in records):
            copied.append((start, end))
    return without(text, copied)


def gives_back(text: str, context: ParseContext) -> bool:
    """Whether a reply copies rules or examples of its request, and all else from it too: the prompt given back."""
    left = without_copies(text, context)
    said = _runs(context.own).union(*map(_runs, context.others))
    return left != text and all(copied for *_, copied in _copies(left, _runs(context.request) - said))


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
    return plain in examples and not any(plain in _folded(part) for part in context.evidence)


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
    words = [_key(token[0]) for token in tokens]
    copied = [False] * len(words)
    for n in range(len(words) - min_copied_words + 1):
        if tuple(words[n : n + min_copied_words]) in runs:
            copied[n : n + min_copied_words] = [True] * min_copied_words
    found, n = [], 0
    for sentence in _SENTENCE.finditer(text):
        while n < len(tokens) and tokens[n].start() < sentence.start():
            n += 1
        first = n
        while n < len(tokens) and tokens[n].start() < sentence.end():
            n += 1
        if n > first:
            found.append((*sentence.span(), all(copied[first:n])))
    return found


@lru_cache(maxsize=64)
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = [_key(token[0]) for token in _TOKEN.finditer(text)]
    return frozenset(tuple(words[n : n + min_copied_words]) for n in range(len(words) - min_copied_words + 1))


@lru_cache(maxsize=64)
def _examples(frame: str) -> frozenset[str]:
    return frozenset(filter(None, (_bare(content) for form in _EXAMPLES for content in form.findall(frame))))


def _key(token: str) -> str:
    return token.lower() if not token.isspace() else "\n"


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _bare(text: str) -> str:
    return _folded(text).strip(_SURROUNDING)
