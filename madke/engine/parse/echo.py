"""What a reply only gives back of its request: its rules, its worked examples, another's stance. No answer is in it.

A sentence or line is a copy if it consists of runs of :data:`RUN` words that stand in the request in this order. Its
material (question, options, passages, stances) does not count: an answer may come from there.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

RUN = 6
"""Words. Honest last lines are shorter ("The answer is yes"), sentences of rules and examples are longer."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request, as far as the reading of its reply depends on it."""

    request: str = ""
    """The texts of its messages."""
    material: tuple[str, ...] = ()
    """Its parts that an answer may come from: question, options, passages, stances."""
    others: tuple[str, ...] = ()
    """The stances of others that it shows to a debater; empty for those who report them: a judge, a summarizer, a
    layer of a mixture of agents."""
    unread: tuple[str, ...] = ()
    """Stances of the material in which no answer was read. An example that they give back is still an example."""
    own: str = ""
    """The debater's own previous stance."""
    speaker: str = ""
    """The name of the one who replies."""
    question: str = ""

    @property
    def frame(self) -> str:
        """The request without its material: rules and examples."""
        text = self.request
        # Once for each time that it is shown, from the end: a stance may equal the line of an example before it.
        for part in sorted(filter(str.strip, self.material), key=len, reverse=True):
            place = _last_place(text, part)
            if place >= 0:
                text = f"{text[:place]}\n{text[place + len(part) :]}"
        return text


NOTHING_ASKED = Asked()


def without_copies(text: str, asked: Asked) -> str:
    """The reply with spaces for the sentences that it copies from the rules and examples of its request.

    If it gives back more of the request than it says itself, also for those that it copies from the material.
    """
    frame = asked.frame if asked.request else ""
    left = _blanked(text, _runs(frame), _spaced(frame) if "{" in text else "")
    if left == text:
        return text
    rest = _blanked(left, _runs.__wrapped__(asked.request) - _runs(asked.own))
    return rest if 2 * len(rest.split()) <= len(text.split()) else left


def _blanked(text: str, runs: frozenset[tuple[str, ...]], records: str = "") -> str:
    parts, at = [], 0
    for start, end, is_copied in _sentences(text, runs) if runs or records else ():
        said = text[start:end]
        # The skeleton of a requested record may be shorter than a run.
        if is_copied or (records and "{" in said and _spaced(said) in records):
            parts += [text[at:start], " " * (end - start)]
            at = end
    return "".join([*parts, text[at:]])


def repeats_another(text: str, asked: Asked) -> bool:
    """Whether a debater's whole reply is copied from another's stance, and not from its own previous one."""
    runs = frozenset().union(*map(_runs, asked.others)) - _runs(asked.own) if asked.others else frozenset()
    return bool(runs) and all(is_copied for *_, is_copied in _sentences(text, runs))


def is_example(value: str, asked: Asked) -> bool:
    """Whether an answer only repeats an example of the request: question, passages and stances lack it."""
    if not asked.request:
        return False
    plain, read = _bare(value), set(asked.material) - {asked.own, *asked.unread}
    return plain in _examples(asked.frame) and not any(plain in _spaced(part) for part in read)


def _last_place(text: str, part: str) -> int:
    """The last position of the part in the text, as whole words; -1 if it does not occur."""
    # Without a pattern of each part: compiling them would take most of the time of reading a reply.
    place = text.rfind(part)
    while place >= 0 and (_in_word(text, place - 1) or _in_word(text, place + len(part))):
        place = text.rfind(part, 0, place + len(part) - 1)
    return place


def _in_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")


def _sentences(text: str, runs: frozenset[tuple[str, ...]]) -> list[tuple[int, int, bool]]:
    """Spans of the sentences that have words, and whether all words of each are copied."""
    tokens = list(_TOKEN.finditer(text))
    words = [_word(token[0]) for token in tokens]
    copied = [False] * len(words)
    for n in range(len(words) - RUN + 1):
        if tuple(words[n : n + RUN]) in runs:
            copied[n : n + RUN] = [True] * RUN
    sentences, n = [], 0
    for sentence in _SENTENCE.finditer(text):
        while n < len(tokens) and tokens[n].start() < sentence.start():
            n += 1
        first = n
        while n < len(tokens) and tokens[n].start() < sentence.end():
            n += 1
        if n > first:
            sentences.append((*sentence.span(), all(copied[first:n])))
    return sentences


@lru_cache(maxsize=64)
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = [_word(token[0]) for token in _TOKEN.finditer(text)]
    return frozenset(tuple(words[n : n + RUN]) for n in range(len(words) - RUN + 1))


@lru_cache(maxsize=64)
def _examples(frame: str) -> frozenset[str]:
    return frozenset(filter(None, (_bare(content) for form in _EXAMPLES for content in form.findall(frame))))


def _word(token: str) -> str:
    return token.lower() if not token.isspace() else "\n"


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def _bare(text: str) -> str:
    return _spaced(text).strip(_SURROUNDING)
