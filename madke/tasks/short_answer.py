"""Short answers: a name, a date, a number, yes or no; and the matcher that decides whether two name the same thing.

:func:`same` is symmetric and reflexive, but not transitive: "1969" is the same as "20 July 1969" and as "21 July
1969", "Lincoln" the same as "Abraham Lincoln" and as "Mary Lincoln".

:meth:`ShortAnswer.accepts` also takes sentences. Human judges accept additions to a gold answer, but no contradictions.
An answer must therefore contain all of the gold's numbers and at least half of its words that are not in the question.
Dates and given names must be compatible, and no word of a title may be replaced. ``eval/matcher.md`` measures both
against EVOUNA's human judgements.

Both compare what a number counts: 5 kg is not 5 g, but "5" may be either.
"""

import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile

from madke.core.question import Question
from madke.tasks.answer_text import bare, declines, has_words
from madke.tasks.base import BaseTask
from madke.tasks.phrases import (
    Date,
    Phrase,
    Reading,
    is_full_name,
    may_be_in_name,
    phrase_of,
    plain,
    read_answer,
    same_name,
)
from madke.tasks.units import conflict
from madke.tasks.words import CONTRASTS, SMALL_WORDS, Word, stems, vocabulary, words

_YES_NO_QUESTION = re.compile(
    r"\W*(?:yes or no\W+)?(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|might|may|must|am)"
    r"(?:n['’]t)?\b",  # noqa: RUF001
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(r"\bor\b(?!\s+not\b)", re.IGNORECASE)
_LONE_SIGNS = frozenset("*#%&@/\\")


class ShortAnswer(BaseTask):
    """Answers keep the debater's wording. The matcher compares what they name."""

    name = "short_answer"
    answers_are = "a few words, a name, a number"
    right_when = "it equals a gold answer after normalisation (EM)"
    metrics = ("em", "f1", "match")

    def read(self, text: str, question: Question) -> str | None:
        """The bare text; None if it has no letter, digit or symbol such as ``+``, or says that there is no answer."""
        answer = bare(text)
        has_content = answer in _LONE_SIGNS or any(c.isalnum() or unicodedata.category(c)[0] == "S" for c in answer)
        return answer if has_content and not declines(answer) else None

    def asks_yes_or_no(self, question: Question) -> bool:
        """Whether the question begins with an auxiliary verb and offers no alternatives: "Is the zebra a horse?"."""
        return bool(_YES_NO_QUESTION.match(question.question)) and not _ALTERNATIVES.search(question.question)

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both name the same thing."""
        return same(a, b)

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether the answer, a phrase or sentences, is the same as a gold or states one.

        Words of the question do not count as evidence.
        """
        if any(same(answer, gold) for gold in question.answers):
            return True
        asked = frozenset(word.key for word in words(question.question))
        reading, readings = read_answer(answer), [read_answer(gold) for gold in question.answers]
        if _lists_names(reading) or reading.items[0].head:
            # Every name in a list must be right, and so must the state after a city.
            stated = reading.items
        elif any(_abridges(reading, gold, asked) for gold in readings):
            return True
        else:
            stated = (phrase_of(_DENIED.sub(" ", plain(answer))),)
        return all(any(_states(one, gold, asked) for gold in readings) for one in stated)

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """Whether a passage has the answer's words in a row, or a sentence that states it; None for yes and no."""
        if read_answer(answer).polarity:
            return None
        if has_words(text, answer):
            return True
        reading = read_answer(answer)
        parts = frozenset(part for word in words(answer) for part in _parts(word))
        asked = frozenset(word.key for word in words(question.question))
        near = (one for one, own in _sentences(text[:_READ_PASSAGE]) if not parts.isdisjoint(own))
        return any(_states_all(phrase_of(_DENIED.sub(" ", plain(one))), reading, asked) for one in near)


_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])|\n+")
_READ_PASSAGE = 20_000


@lru_cache(maxsize=256)
def _sentences(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The sentences of a passage, and the parts of their words. Several answers are looked up in one passage."""
    return tuple(
        (one, frozenset(part for word in words(one) for part in _parts(word))) for one in _SENTENCE.split(text)
    )


def _states_all(stated: Phrase, answer: Reading, asked: Container[str]) -> bool:
    """Whether ``stated`` has every word of an answer; of a person's name, at least the family name."""

    def states(item: Phrase) -> bool:
        if conflict(stated.counted, item.counted):
            return False
        dated = all(any(date.agrees(other) for other in stated.dates) for date in item.dates)
        left = (word for word in item.content if word.key not in stated.keys)
        missing = any(stated.stems.isdisjoint(stems(word.key)) for word in left)
        return dated and (not missing or (is_full_name(item.order) and _states_name(stated.order, item.order, asked)))

    enough = any if answer.either else all
    return enough(map(states, answer.items))


def _parts(word: Word) -> frozenset[str]:
    return frozenset() if word.key in SMALL_WORDS else stems(word.key) | {word.key}


_KINDS = vocabulary("republic kingdom state city isle island university college duke earl county province")
"""Words that may be omitted before "of": the Republic of Ireland is Ireland."""


def same(left: str, right: str) -> bool:
    """Whether two short answers to one question name the same thing."""
    one, other = read_answer(left), read_answer(right)
    if one.folded == other.folded:
        return True
    if one.polarity or other.polarity:
        return one.polarity == other.polarity
    if one.either != other.either:
        return False
    if len(one.items) != len(other.items):
        # Punctuation may split one thing into a list: "Smith, John".
        return bool(one.keys) and one.keys == other.keys
    return _paired(one.items, other.items) and _paired(other.items, one.items)


def _paired(ones: tuple[Phrase, ...], others: tuple[Phrase, ...]) -> bool:
    return all(any(_same_phrase(one, other) for other in others) for one in ones)


def _same_phrase(one: Phrase, other: Phrase) -> bool:
    if len(one.dates) != len(other.dates) or not all(map(Date.agrees, one.dates, other.dates)):
        return False
    if conflict(one.counted, other.counted):
        return False
    if one.keys == other.keys:
        return bool(one.keys or one.dates) and one.numbers == other.numbers
    if set(one.numbers) != set(other.numbers):
        return False
    if is_full_name(one.order) and is_full_name(other.order) and same_name(one.order, other.order):
        return True
    return _says_more(one, other) or _says_more(other, one) or _is_acronym(one, other) or _is_acronym(other, one)


def _says_more(long: Phrase, short: Phrase) -> bool:
    """Whether ``long`` is ``short`` with a few more words that do not change what it names."""
    if not short.keys < long.keys:
        return False
    if long.head:
        return short.keys == long.head
    more = long.keys - short.keys
    if more & CONTRASTS or _is_only_the_epithet(short, long):
        return False
    if is_full_name(long.order) and short.keys == {long.order[-1].key}:
        return True
    # A single capital letter changes what is named: plan B, B3.
    if any(word.initials and len(word.key) == 1 and word.key in more for word in long.order):
        return False
    return set(short.numbers) == short.keys != set() or len(more) <= len(short.keys) + len(short.dates)


def _is_only_the_epithet(short: Phrase, long: Phrase) -> bool:
    """Whether ``short`` is only the words after "of" in ``long``: England, "Henry of England"."""
    keys = [word.key for word in long.order]
    of = keys.index("of") if "of" in keys else 0
    head = long.order[of - 1]
    return of > 0 and head.capital and head.key not in _KINDS and short.keys.isdisjoint(keys[:of])


def _is_acronym(short: Phrase, long: Phrase) -> bool:
    """Whether ``short`` is one word of capitals, the first letters of the words of ``long``."""
    initials = "".join(word.key[0] for word in long.content)
    return len(initials) > 1 and [(word.key, word.initials) for word in short.content] == [(initials, True)]


_PHRASE = 5  # Most content words of a phrase; a longer answer is a sentence.
_DENIED = re.compile(
    r"(?i)(?:(?:^|,|\b(?:and|but|is|was|are|were))\s+not\b(?! only)|\A\W?not\b|\b(?:is|was|are|were)n't\b"
    r"|\b(?:rather than|instead of|unlike|nor|neither)\b)(?:(?! but\b)[^,.;:!?\n])*"
)
"""A negation up to the end of its clause."""


def _lists_names(answer: Reading) -> bool:
    """Whether the answer consists only of two or more proper names."""
    words_of = [item.content for item in answer.items]
    return len(words_of) > 1 and all(found and all(w.capital and not w.number for w in found) for found in words_of)


def _states(stated: Phrase, gold: Reading, asked: Container[str]) -> bool:
    enough = any if gold.either else all
    return not gold.polarity and enough(_states_phrase(stated, phrase, asked) for phrase in gold.items)


def _states_phrase(stated: Phrase, gold: Phrase, asked: Container[str]) -> bool:
    """Whether ``stated`` states one thing that a gold names."""
    if conflict(stated.counted, gold.counted):
        return False
    dates_agree = all(any(date.agrees(other) for other in stated.dates) for date in gold.dates)
    # Words of the question prove nothing, unless the gold has no others.
    needed = [word for word in gold.content if word.key not in asked] or list(gold.content)
    missing = _missing(needed, stated)
    if not missing:
        return _says_when(stated, gold, needed, dates_agree=dates_agree)
    if not dates_agree or len(missing) == len(needed):
        return False
    if any(word.number or word.key in CONTRASTS for word in missing):
        return False
    if is_full_name(gold.order):
        return _states_name(stated.order, gold.order, asked)
    own = _missing([word for word in stated.content if word.key not in asked], gold, by_stem_only=True)
    is_short = len(stated.content) <= _PHRASE
    if is_short and any(word.capital for word in own) and any(word.capital for word in missing):
        return False  # A title with a word replaced.
    return 2 * len(missing) <= len(needed) and not _contradict(stated.order, gold.order)


def _missing(words: Iterable[Word], phrase: Phrase, *, by_stem_only: bool = False) -> list[Word]:
    """The words that are not in the phrase, compared as they are and by their stems."""
    known: Container[str] = () if by_stem_only else phrase.keys
    return [word for word in words if word.key not in known and phrase.stems.isdisjoint(stems(word.key))]


def _says_when(stated: Phrase, gold: Phrase, needed: Sequence[Word], *, dates_agree: bool) -> bool:
    """Whether a phrase with all needed words has the gold's date too; without any date, the words are enough."""
    if not needed:
        return bool(gold.dates) and dates_agree
    return dates_agree or not stated.dates


def _contradict(stated: Sequence[Word], gold: Sequence[Word]) -> bool:
    """Whether an "of" phrase has one side replaced: "Edward of England" for "Henry of England"."""
    links, expected = (
        [(words[at - 1].key, words[at + 1].key) for at in range(1, len(words) - 1) if words[at].key == "of"]
        for words in (stated, gold)
    )
    return any((one[0] == other[0]) != (one[1] == other[1]) for one in links for other in expected)


def _states_name(stated: Sequence[Word], name: Sequence[Word], asked: Container[str]) -> bool:
    """Whether ``stated`` has the family name, after compatible given names, or alone if it is not in the question."""
    for at, word in enumerate(stated):
        if word.key == name[-1].key and word.capital:
            before = [*takewhile(may_be_in_name, reversed(stated[:at]))][::-1]
            if same_name([*before, word], name) if before else word.key not in asked:
                return True
    return False


def _abridges(answer: Reading, gold: Reading, asked: frozenset[str]) -> bool:
    """Whether a longer gold contains all words of a short answer: Belshazzar, "the Babylonian king Belshazzar"."""
    if answer.polarity or len(answer.items) != len(gold.items) or any(item.dates for item in answer.items):
        return False
    if any(conflict(one.counted, other.counted) for one in answer.items for other in gold.items):
        return False
    rest = gold.keys - answer.keys
    has_other_number = any(key[0].isdigit() for key in answer.keys) and any(key[0].isdigit() for key in rest)
    return answer.keys <= gold.keys and bool(answer.keys - asked) and not rest & CONTRASTS and not has_other_number
