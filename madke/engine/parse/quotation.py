r"""The parts of a reply that decide nothing: quotations, lines of other speakers, and run-on text of a new speaker.

They are replaced by spaces of the same length, so that positions still refer to the reply. Line breaks stay. A
quotation is a ``>`` line, a fence, text in a tag such as ``<reply>``, or a marker in quotation marks or backticks.
"""

import re
from collections.abc import Callable

OTHER_SPEAKER = (
    r"\b(?:(?:debater|agent|speaker)[ _]?(?:\w*\d\w*|[a-z]\b)|(?:my\s+|the\s+)?opponents?"
    r"|(?:my|the|an)\s?other\s+(?:debater|agent|side)s?|(?:affirmative|negative)\s+side)"
)
SPEAKER_LABEL = re.compile(
    rf"^[^\w\n<]{{0,9}}(?P<name>{OTHER_SPEAKER})(?:['’]s\s+(?:\w+\s+){{0,2}}\w+|\s+(?:wrote|writes|said|says|answered))?"  # noqa: RUF001
    r"[^\w\n:<]{0,4}:",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a line that another speaker says: "Debater 2:", "Debater 2's answer:", "Debater 2 wrote:"."""

TAGS = "example|instructions|knowledge|notes|quote|reply|review|stance|summary"
_TAG = re.compile(rf"<(/?)({TAGS})>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]{0,9}(?:```|~~~)[^\n]*$", re.MULTILINE)
_QUOTED_LINE = re.compile(r"^[ \t]{0,9}>[^\n]*", re.MULTILINE)
_MARKS = re.compile(
    r"(?<!\":)(?<!\": )[\"“](?P<quote>[^\"“”\n]{1,1000})[\"”]|`(?P<code>[^`\n]{1,300})`|«(?P<angle>[^«»\n]{1,300})»"
    r"|(?<![\w\\'])'(?P<single>[^'\n]{1,300})'(?!\w)"
)
_HOLDS_MARKER = re.compile(
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
_NEW_SPEAKER = re.compile(
    r"<\|(?:im_(?:start|end)|endoftext|eot_id|end|user|system|assistant|start_header_id)\|>|<(?:start|end)_of_turn>"
    r"|^[^\w\n]{0,9}(?:question|user|human)\s?\d{0,3}[*_]{0,3}:(?P<asked>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL_LINE = re.compile(
    r"^[^\w\n]{0,9}(?:(?:my|the|so|final)\s+){0,3}"
    r"(?:answer|verdict|decision|grade|select(?:ed|ion)|ranking|label|translation)\b[^:\n]{0,20}:[^\S\n]*\S"
    r"|(?:^|[.!?]\s)[^\w\n]{0,9}(?:(?:so|thus|hence|therefore),?\s+)?(?:the|my)\s+(?:(?:final|correct)\s+)?answer\s+is\s+\S"
    r"|^[^\w\n\[]{0,9}\[[^\]\n]{1,100}\][^\w\n]*$|\\boxed\{",
    re.IGNORECASE | re.MULTILINE,
)
"""What says that a reply has given its answer. Another speaker's line after it begins a run-on."""
_WORD = re.compile(r"\w")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\Z")


def blank(text: str, start: int, end: int) -> str:
    """The part of a text as spaces; its line breaks stay."""
    return re.sub(r"[^\n]", " ", text[start:end])


def own_words(text: str, *, speaker: str = "", question: str = "") -> str:
    """The reply without block quotations, lines of other speakers, and what a new speaker begins to say at its end.

    Args:
        text: The reply, without reasoning and without what it copies from the request.
        speaker: The name of the one who replies. Lines with this label are its own. If unknown, a single label at the
            beginning of the reply is its own.
        question: The question asked. Repeating it does not begin a new speaker.
    """
    text = _without_tagged(text) if "<" in text else text
    text = _without_fenced(text) if "```" in text or "~~~" in text else text
    text = _QUOTED_LINE.sub(_blank, text) if ">" in text else text
    lines = [] if ":" not in text else list(SPEAKER_LABEL.finditer(text))
    others: list[re.Match[str]] = []
    own: list[re.Match[str]] = []
    for line in lines:
        (own if _is_own(text, line, lines, speaker) else others).append(line)
    for new in _NEW_SPEAKER.finditer(text):
        if _WORD.search(text, 0, new.start()) and not _is_asked(new["asked"], question):
            text = text[: new.start()] + blank(text, new.start(), len(text))
            break
    text = _without_labels(text, own)
    if not others:
        return text
    quoted = _without_lines(text, others)
    if final := _FINAL_LINE.search(quoted):
        first = next((line for line in others if line.start() > final.start()), None)
        if first is not None:
            return quoted[: first.start()] + blank(quoted, first.start(), len(quoted))
    return quoted


def before_other_speaker(text: str, speaker: str = "") -> str:
    """The text before the first line of another speaker; the whole text if there is no such line."""
    lines = list(SPEAKER_LABEL.finditer(text))
    first = next((line for line in lines if not _is_own(text, line, lines, speaker)), None)
    return text if first is None else text[: first.start()]


def unquoted(text: str) -> str:
    """The text without the markers in quotation marks or backticks, unless they are the stated answer."""
    return _MARKS.sub(_without_markers(text), text)


def _without_markers(text: str) -> Callable[[re.Match[str]], str]:
    def replaced(quote: re.Match[str]) -> str:
        if not _HOLDS_MARKER.search(quote[0]):
            return quote[0]
        lead = text[max(text.rfind("\n", 0, quote.start()) + 1, quote.start() - 100) : quote.start()]
        is_own = _STATES_QUOTE.search(lead) and not re.search(OTHER_SPEAKER, lead, re.IGNORECASE)
        return quote[0] if is_own else " " * len(quote[0])

    return replaced


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _without_tagged(text: str) -> str:
    parts, at, opened = [], 0, None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = opened or tag
        elif opened is not None and opened[2].lower() == tag[2].lower():
            parts += [text[at : opened.start()], blank(text, opened.start(), tag.end())]
            at, opened = tag.end(), None
    return "".join([*parts, text[at:]])


def _without_fenced(text: str) -> str:
    """Without fenced text. A fence around the whole reply, or around a record that ends it, is not a quotation."""
    fences = list(_FENCE.finditer(text))
    bounds = [(fence.start(), fence.end()) for fence in fences]
    if len(bounds) % 2:  # The last fence is cut off.
        bounds.append((len(text), len(text)))
    first = word.start() if (word := _WORD.search(text)) else len(text)
    last = len(text) - (word.start() if (word := _WORD.search(text[::-1])) else len(text))
    parts, at = [], 0
    for (start, inner), (outer, end) in zip(bounds[::2], bounds[1::2], strict=True):
        is_form = last <= end and (first > start or text[inner:outer].lstrip().startswith("{"))
        opening, closing = blank(text, start, inner), blank(text, outer, end)
        parts += [text[at:start], opening, text[inner:outer] if is_form else blank(text, inner, outer), closing]
        at = end
    return "".join([*parts, text[at:]])


def _is_own(text: str, line: re.Match[str], lines: list[re.Match[str]], speaker: str) -> bool:
    if speaker:
        return _plain(line["name"]) == _plain(speaker)
    return len(lines) == 1 and not _WORD.search(text, 0, line.start())


def _is_asked(restated: str | None, question: str) -> bool:
    return bool(question and restated and _plain(restated) == _plain(question))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower().replace("_", " ")))


def _without_lines(text: str, labels: list[re.Match[str]]) -> str:
    """Without the lines that begin with these labels; a label alone on its line goes to the end of its paragraph."""
    spans: list[tuple[int, int]] = []
    for label in labels:
        if spans and label.start() < spans[-1][1]:
            continue
        end = text.find("\n", label.end())
        end = len(text) if end < 0 else end
        if not _WORD.search(text, label.end(), end) and (close := _PARAGRAPH_END.search(text, end + 1)):
            end = close.start()
        spans.append((label.start(), end))
    return _without(text, spans)


def _without_labels(text: str, labels: list[re.Match[str]]) -> str:
    """What follows a label begins a line."""
    parts, at = [], 0
    for label in labels:
        parts += [text[at : label.start()], blank(text, label.start(), label.end() - 1), "\n"]
        at = label.end()
    return "".join([*parts, text[at:]])


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], blank(text, start, end)]
        at = end
    return "".join([*parts, text[at:]])
