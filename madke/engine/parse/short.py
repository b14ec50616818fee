"""Answers that need no marker because the reply, or its last line, is nothing but the answer.

A sentence is not guessed at. A short text counts if it is not a sentence, an item of a list, a heading or a remark. The
limits are measured on recorded text: ``eval/parser.md``.
"""

import re
from collections.abc import Iterator

from madke.engine.parse import context
from madke.engine.parse.context import Parsed, Reader, nothing, parsed_at
from madke.engine.parse.quotation import before_other_speaker
from madke.tasks.answer_text import declines

MOST_WORDS = 8
"""Words of a whole reply that is an answer."""
MOST_WORDS_LAST = 6
"""Words of a last line that is an answer."""
MOST_PLAIN_WORDS = 4
"""Limit for phrases that are not names: they have words in lower case other than "of", "the" and the like."""
LABELLED_WORDS = 12
"""Words of an answer after "Answer:" that is kept as it is; a longer one is shortened."""
WHOLE_WORDS = 30
"""Words of a whole reply that is taken as the answer where nothing else was asked for."""

_LINE = re.compile(r"[^\n]+")
_ASIDE = re.compile(r"[^\w\n]{0,9}(?:confidence|side|source|sources|note)\b[^\n]{0,40}:", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*•+|]\s|#{1,6}\s|\d{1,3}[.)]\s|[a-zA-Z]\)\s|!?\[[^\]\n]{0,200}\]\()")
_ENDS_EARLY = re.compile(r"\w{4,}[\"')\]]?[.!?]\s|[:?{}<>=\\]|\.\.\.|…|https?|[,;(–—-]\W*\Z")  # noqa: RUF001
_SENTENCE_WORD = re.compile(
    r"\b(?:is|are|was|were|am|be|been|being|isn|aren|wasn|weren|has|have|had|hasn|haven|do|does|did|don|doesn|didn|can"
    r"|cannot|could|couldn|will|would|wouldn|won|should|shall|might|must|may(?!\s\d|\Z)|know|knows|think|thinks|believe"
    r"|believes|agree|agrees|need|needs|says?|said|shows?|shown|means?|became|becomes?|made|makes?|wrote|writes?|gave"
    r"|gives?|went|goes|came|comes?|took|takes?|got|gets?|lies|lived|lives|plays?|played|helps?|contains?|mentions?|cites?"
    r"|differs?|provides?|states?(?=\s(?:that|it|the))|please|sorry|thanks?|hope|let|here|see|sure|based|according|because"
    r"|therefore|however|answer|answers|question|passages?|knowledge|document|debater|selected|verdict|confidence)\b",
    re.IGNORECASE,
)
_BEGINS_SENTENCE = re.compile(
    r"\W*(?:i|i['’]\w+|we|it|he|she|they|there|this|that|these|so|thus|if|also|either|neither|yes\s+and\s+no"  # noqa: RUF001
    r"|(?:all|both|none|each|most)\s+of)\b",
    re.IGNORECASE,
)
_TITLE = re.compile(
    r"(?:(?:the|an?|in|on|at|by|from|about|around)\s){0,2}(?:[A-Z\d][\w'’.&-]*|[$€£]?\d\S*)(?:,?\s(?:[A-Z\d&][\w'’.&-]*"  # noqa: RUF001
    r"|of|the|a|an|and|in|on|at|to|by|for|from|with|de|la|le|von|van|der|du|del|da|di))*",
)
_HEADING = re.compile(
    r"\b(?:review|summary|analysis|evaluation|assessment|reasoning|responses?|reflections?|thoughts|discussion|conclusion"
    r"|critique|feedback|comparison|debate|debaters?|round|stances?|arguments?|repl(?:y|ies)|opinions?|steps?)\b",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"[^\w\n]{0,9}(?P<word>yes|no)\b(?=[*_]{0,3}(?:[,.;:!]|\s+[-\u2013\u2014]|\s*\Z))", re.IGNORECASE
)
_CLAUSE = re.compile(
    r",\s+(?:which|who|where|when|as|because|since|and)\s|\s+(?:because|since)\s|;|\s+\(", re.IGNORECASE
)


def short_reply(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The whole reply or its last line, if it is an answer without a marker (rules ``short``, ``short_line``)."""
    lines = [line for line in _LINE.finditer(text) if re.search(r"\w", line[0]) and not _ASIDE.match(line[0])]
    if not lines or not reader.is_open:
        return None
    last, is_whole = lines[-1], len(lines) == 1
    if not is_whole and len(lines[-2][0].split()) <= MOST_WORDS_LAST and not lines[-2][0].rstrip().endswith((".", ":")):
        return None  # A list.
    answer = _answer(last[0], MOST_WORDS if is_whole else MOST_WORDS_LAST)
    if answer is None:
        return None
    value = reader(answer)
    if value is not None:
        return parsed_at(value, "short" if is_whole else "short_line", last.span())
    if context.is_placeholder(context.unwrap(answer)):
        return nothing(None, "placeholder")
    return nothing(None, "declined") if declines(answer) else None


def whole_sentence(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The whole reply, if it is one line of at most :data:`WHOLE_WORDS` words (rule ``whole``).

    Only where nothing but the answer was asked for: whoever calls this knows.
    """
    line = text.strip()
    if not reader.is_open or "\n" in line or len(line.split()) > WHOLE_WORDS or not re.search(r"\w", line):
        return None
    if context.is_placeholder(context.unwrap(line)):
        return nothing(None, "placeholder")
    value = None if context.says_only_where(context.unwrap(line)) else reader(line)
    return None if value is None else parsed_at(value, "whole", (text.index(line), text.index(line) + len(line)))


def _answer(line: str, most: int) -> str | None:
    """The answer that a line consists of; None if it may be a sentence, an item of a list or a remark."""
    if len(line) > context.NEAR or _ITEM.match(line) or _ENDS_EARLY.search(line.rstrip(context.EMPHASIS)):
        return None
    content = line.strip(context.EMPHASIS)
    if content.startswith("(") and content.endswith((")", ").")):
        content = content.rstrip(".")[1:-1]
    if re.search(r"\banswer\b", content, re.IGNORECASE):
        return None
    content = context.unwrap(content.rstrip(".!") if content.startswith("[") else content)
    words = content.split()
    if (
        not 0 < len(words) <= most
        or re.search(r"[\[\]]", content)
        or _ENDS_EARLY.search(content)
        or not re.search(r"\w", content)
    ):
        return None
    title = content.rstrip(".!")
    if title.lower() in ("yes", "no"):
        return title
    if len(words) > 1 and _TITLE.fullmatch(title):
        return content
    if len(words) > MOST_PLAIN_WORDS:
        return None
    return None if _SENTENCE_WORD.search(content) or _BEGINS_SENTENCE.match(content) else content


def before_run_on(text: str, speaker: str = "") -> str:
    """The first line of a reply, if it is nothing but an answer and the next line begins another speaker's.

    The rest is a conversation that the model makes up. Under a heading, the speakers' lines are a review.
    """
    own = before_other_speaker(text, speaker)
    line = own.strip()
    is_answer = "\n" not in line and not _HEADING.search(line) and _answer(line, MOST_WORDS_LAST) is not None
    return own if is_answer else text


def yes_or_no(text: str, reader: Reader) -> Parsed[str | None] | None:
    """The Yes or No with which the first or the last sentence of a reply begins (rule ``yes_no``); for both, if equal.

    Only for questions that ask for one: whoever calls this knows.
    """
    sentences = [(start, end) for start, end in context.sentences(text) if re.search(r"\w", text[start:end])]
    words = [word for start, end in {*sentences[:1], *sentences[-1:]} if (word := _YES_OR_NO.match(text, start, end))]
    if not words:
        return None
    if len({word["word"].lower() for word in words}) > 1:
        return nothing(None, "undecided")
    value = reader(words[-1]["word"])
    return None if value is None else parsed_at(value, "yes_no", words[-1].span("word"))


def possible_answers(sentence: str, *, is_yes_no: bool) -> Iterator[str]:
    """What may be the answer in the text after "Answer:", the best first. The whole text is always the last.

    For a yes/no question, its Yes or No. Up to :data:`LABELLED_WORDS` words, the text itself. A longer text ends at the
    first clause that only explains ("because ...", ", which ...", a parenthesis).
    """
    if is_yes_no and (word := _YES_OR_NO.match(sentence)):
        yield word["word"]
    if len(sentence.split()) > LABELLED_WORDS:
        clause = _CLAUSE.split(sentence, maxsplit=1)[0].rstrip(" ,")
        if clause.strip():
            yield clause
    yield sentence
