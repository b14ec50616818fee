"""Short answers: a name, a date, a number, yes or no; and the matcher that decides whether two name the same thing.

:func:`same` is symmetric and reflexive, but not transitive: "1969" is the same as "20 July 1969" and as "21 July
1969", "Lincoln" the same as "Abraham Lincoln" and as "Mary Lincoln".

:meth:`ShortAnswer.accepts` also takes sentences. Human judges accept additions to a gold answer, but no contradictions.
An answer must therefore contain all of the gold's numbers and at least half of its words that are not in the question.
Dates and given names must be compatible, no word of a title may be replaced, no other number may be added to a short
answer, and an answer that offers rivals ("A or B") states neither. ``eval/matcher.md`` measures both against EVOUNA's
human judgements.

Both compare what a number counts: 5 kg is not 5 g, but "5" may be either. For both, words of the question are no
evidence: "RSJ" is not "Rock Street Journal" where the question asks what RSJ refers to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import NamedTuple

from madke.core.question import Question
from madke.tasks.base import BaseTask, bare, declines, has_words
from madke.tasks.words import (
    CONTRASTS,
    NO_NAMES,
    SMALL_WORDS,
    Quantities,
    Word,
    conflict,
    fold,
    join_digits,
    one_dimension,
    quantities,
    spell_units,
    spelling,
    stems,
    vocabulary,
    words,
)

# What an answer names: things, dates, names of people.

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?"
)
_ALSO_WORDS = vocabulary("may march mar august jan sep dec")  # Months only beside a number, or after "in".
_WHEN = re.compile(r"\b(?:in|since|until|till|during|before|after|early|late|mid|every|each)[ -]\Z", re.IGNORECASE)
_SPAN = re.compile(r"(?<![\d-])(1\d|20)(\d\d) ?[-/] ?((?:1\d|20)?)(\d\d)(?![\d/-])")
_ISO = re.compile(r"(?<![\d-])([12]\d{3})-(0[1-9]|1[0-2])-(\d\d)(?![\d-])")
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
# The first day of a range: 14 to 25 May, May 14-25.
_DAYS = re.compile(
    rf"\b(?P<first>{_DAY}) ?(?:-|to|until|through) ?(?={_DAY} (?:of )?(?P<month>{_MONTH})\b)"
    rf"|\b(?P<named>{_MONTH})\b\.? (?P<start>{_DAY}) ?(?:-|to|until|through) ?(?={_DAY}\b(?!,\d))",
    re.IGNORECASE,
)
_DATE = re.compile(
    rf"(?:\b(?P<before>{_DAY})(?: of|,)? )?"
    rf"\b(?P<month>{_MONTH})\b\.?(?:,? (?:the )?(?P<after>{_DAY})\b(?!,\d))?"
    r"(?:,? (?:of )?(?P<year>1\d{3}|2[01]\d\d)(?!\w|[.,]\d))?"
    # A year alone; other numbers are rarely years.
    r"|(?<![\w.,:-])(?P<alone>1,?\d{3}|2,?[01]\d\d)(?!\w|[.,:]\d)",
    re.IGNORECASE,
)


class Date(NamedTuple):
    """A date or a part of one."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def agrees(self, other: Date) -> bool:
        """Whether both share a year, month or day, and all shared parts are equal."""
        pairs = [(self.year, other.year), (self.month, other.month), (self.day, other.day)]
        shared = [one == two for one, two in pairs if one is not None and two is not None]
        return bool(shared) and all(shared)


def split_dates(text: str) -> tuple[tuple[Date, ...], str]:
    """The dates in a text, in order, and the text without them. A season such as 2001-02 is its first year."""
    dates: list[Date] = []

    def take(match: re.Match[str]) -> str:
        month = (match["month"] or "").lower()
        day = re.sub(r"\D", "", match["before"] or match["after"] or "")
        year = match["year"] or match["alone"]
        if month and not day and not year:
            is_word = month in _ALSO_WORDS or match["month"].islower()
            if is_word and not _WHEN.search(match.string, max(match.start() - 7, 0), match.start()):
                return match[0]
        month_number = _month(month) if month else None
        dates.append(Date(int(year.replace(",", "")) if year else None, month_number, int(day) if day else None))
        return " "

    text = _ISO.sub(lambda match: f"{match[3]} {_MONTHS[int(match[2]) - 1]} {match[1]}", text)
    rest = _DATE.sub(take, _SPAN.sub(_years, _DAYS.sub(_first_day, text)))
    return tuple(dates), rest


def _month(name: str) -> int:
    return _MONTHS.index(name[:3]) + 1


def _first_day(match: re.Match[str]) -> str:
    month = match["month"] or match["named"]
    return f"{match['first'] or match['start']} {month}; " + ("" if match["month"] else f"{month} ")


def _years(match: re.Match[str]) -> str:
    start, end = int(match[1] + match[2]), int((match[3] or match[1]) + match[4])
    return match[0] if start >= end else f"{start} " if end == start + 1 else f"{start} {end} "


_TITLES = vocabulary(
    "sir dame dr mr mrs ms miss prof professor president king queen prince princess pope st general gen captain capt "
    "colonel col major admiral lord lady emperor empress senator sen governor gov rev reverend"
)
_AFTER = vocabulary("jr sr esq phd md")
_PARTICLES = vocabulary("van von der den de del della da di du la le al bin ibn ben ter dos")
_NICKNAME_PAIRS = """
abe abraham, al albert, andy andrew, bert albert, bert herbert, beth elizabeth, betty elizabeth, bill william,
bob robert, bobby robert, charlie charles, chuck charles, dave david, dick richard, gene eugene, harry henry, jack john,
jerry gerald, jim james, jimmy james, joe joseph, johnny john, kate catherine, kate katherine, larry lawrence,
liz elizabeth, mike michael, peggy margaret, steve stephen, ted edward, ted theodore, tony anthony
"""
_NICKNAMES = frozenset(frozenset(map(spelling, pair.split())) for pair in _NICKNAME_PAIRS.split(","))


def _without_title(name: tuple[Word, ...]) -> tuple[Word, ...]:
    while len(name) > 1 and name[0].key in _TITLES and name[1].key != "of":
        name = name[1:]
    return name[:-1] if len(name) > 1 and name[-1].key in _AFTER else name


def is_full_name(words: Sequence[Word]) -> bool:
    """Whether the words look like a full name: two to five capitalised words or particles such as "van"."""
    return 2 <= len(words) <= 5 and words[-1].capital and all(map(may_be_in_name, words))


def may_be_in_name(word: Word) -> bool:
    """Whether the word may be part of a name: a capitalised word that is not a function word, or a particle."""
    return (word.capital and not word.number and word.key not in NO_NAMES) or word.key in _PARTICLES


def same_name(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Whether two full names may belong to one person: "John F. Kennedy" and "John Kennedy", not two George Bushes."""
    ones, others = _given_names(left), _given_names(right)
    return left[-1].key == right[-1].key and (_continues(ones, others) or _continues(others, ones))


def _given_names(name: Sequence[Word]) -> list[str]:
    return [part for word in name[:-1] for part in (word.key if word.initials else [word.key])]


def _continues(some: Sequence[str], every: Sequence[str]) -> bool:
    return any(all(map(_agree, some, every[start:])) for start in range(len(every)))


def _agree(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) != 2 and long.startswith(short)) or {one, other} in _NICKNAMES


MAX_READ = 10_000  # Characters of an answer that are read.
_POLAR = re.compile(
    r"(yes|yeah|yep|true|no|nope|false)\b(?=\W*\Z|\.(?! ?\d)| ?[,;:!-]| (?:it|they|he|she|we|i|this|that|there|not)\b)"
)
_SEPARATOR = re.compile(
    r" ?(?:;|, ?(?:and|or|&) |,(?! ?(?:[12]\d{3}\b|(?:Jr|Sr|Jnr)\b|\d{3}\b))| (?:and|or|&) | / "
    r"|(?<=[a-z] \d{4})/(?=\d)) ?",
    re.IGNORECASE,
)
_EITHER = re.compile(r" or |[a-z] \d{4}/\d")
_PLACED = re.compile(
    r"(?P<name>[A-Z][^,;/&\d]*), (?:in )?(?!(?:Jr|Sr|Jnr)\b)(?P<after>[A-Z][^,;/&\d]*)"
    r"(?P<country>, (?:U\.?S\.?A?\.?|United States|U\.?K\.?|United Kingdom|England|Canada|Australia|India))?\W*"
)
SUBJECT = re.compile(r"\A.*\b(?:is|was|are|were) (?:in |at |on |called |named )?(?=\S)")
PARENTHESIS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_OR_ASIDE = re.compile(r"\(or ([^()]*)\)")
_MAX_ITEMS, _MAX_ITEM_WORDS = 40, 6


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """One thing that an answer names."""

    order: tuple[Word, ...]
    """Its words in order, without titles and dates."""
    dates: tuple[Date, ...]
    counted: Quantities
    """What its numbers count: 310 feet."""
    head: frozenset[str] = frozenset()
    """The words before the comma in "Albany, New York" or "Clinton, Bill". ``order`` is "New York Albany"."""

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The words without function words; all words if there are no others."""
        kept = tuple(word for word in self.order if word.key not in SMALL_WORDS)
        return kept or (() if self.dates else self.order)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the content words."""
        return frozenset(word.key for word in self.content)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of all words."""
        return frozenset[str]().union(*(stems(word.key) for word in self.order))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in order: a score of 3-2 is not 2-3."""
        return tuple(word.key for word in self.content if word.number)

    def next_to(self, other: Phrase) -> Phrase:
        """The phrase as it is meant next to another: "May" alone is a month next to a date."""
        month = next(iter(self.keys)) if len(self.keys) == 1 else ""
        if month not in _ALSO_WORDS or self.dates or not other.dates:
            return self
        return replace(self, order=(), dates=(Date(month=_month(month)),))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A parsed answer."""

    folded: str
    """The text in lower case, without accents, single-spaced."""
    polarity: str
    """``yes`` (also for "true"), ``no`` (also for "false"), or empty."""
    items: tuple[Phrase, ...]
    """The things it names; more than one for a list."""
    either: bool
    """Whether the items are alternatives: "cat or dog"."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of all items."""
        return frozenset[str]().union(*(item.keys for item in self.items))


def plain(text: str) -> str:
    """The first :data:`MAX_READ` characters without accents, with units in full and ``1642`` for ``1 642``."""
    return spell_units(join_digits(fold(text[:MAX_READ])))


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Reading:
    """Parse an answer from the first :data:`MAX_READ` characters of any text."""
    folded = " ".join(fold(text[:MAX_READ]).split()).casefold()
    polar = _POLAR.match(folded)
    text = _OR_ASIDE.sub(r"or \1", " ".join(plain(text).split()))
    outside = " ".join(PARENTHESIS.sub(" ", text).split())
    shown = outside if any(map(str.isalnum, outside)) else text
    items = _split_items(shown)
    if len(items) == 1:
        items = (SUBJECT.sub("", shown),)
    return Reading(
        folded=folded,
        polarity="" if polar is None else "yes" if polar[1].startswith(("y", "t")) else "no",
        items=tuple(map(_phrase, items)),
        either=len(items) > 1 and bool(_EITHER.search(text.casefold())),
    )


def _split_items(text: str) -> tuple[str, ...]:
    """The items of a list; the whole text if it is a sentence (a part has many words) or one thing."""
    items = tuple(part for part in _SEPARATOR.split(text) if part.strip())
    if not 2 <= len(items) <= _MAX_ITEMS or any(len(item.split()) > _MAX_ITEM_WORDS for item in items):
        return (text,)
    dates, rest = split_dates(text)
    return (text,) if _invert(text) or (len(dates) == 1 and not words(rest)) else items


def _invert(text: str) -> str:
    """Turn "Albany, New York" into "New York Albany"; empty for other text and for two full names, which are a list."""
    placed = _PLACED.fullmatch(text)
    if placed is None or re.search(r" (?:and|or) ", text):
        return ""
    is_place = placed["country"] or placed["after"].startswith(("New ", "North ", "South ", "West ", "United "))
    names = " " in placed["name"] and " " in placed["after"] and not is_place
    return "" if names else f"{placed['after'].rstrip(' .')} {placed['name']}"


def _phrase(text: str) -> Phrase:
    inverted = _invert(text)
    head = frozenset(word.key for word in words(text.partition(",")[0])) if inverted else frozenset[str]()
    phrase = phrase_of(inverted or text)
    return replace(phrase, order=_without_title(phrase.order), head=head)


@lru_cache(maxsize=1024)
def phrase_of(text: str) -> Phrase:
    """A whole text as one phrase, with its titles."""
    dates, rest = split_dates(text)
    order = words(rest)
    # 1500 in "1500 feet" may be read as a year, so the whole text tells what it counts.
    every = words(text) if dates else order
    return Phrase(order=order, dates=dates, counted=quantities([word.key for word in every]))


# Reading and matching.

_YES_NO_QUESTION = re.compile(
    r"\W*(?:yes or no\W+)?(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|might|may|must|am)"
    r"(?:n['’]t)?\b",  # noqa: RUF001
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(r"\bor\b(?!\s+not\b)", re.IGNORECASE)
_CHOSEN_FROM = re.compile(r"\b(?:which|who|between|of|from)\b.*\band\b", re.IGNORECASE | re.DOTALL)
_LONE_SIGNS = frozenset("*#%&@/\\")


class ShortAnswer(BaseTask):
    """Answers keep the debater's wording. The matcher compares what they name."""

    name = "short_answer"
    metrics = ("match", "em", "f1")

    def read(self, text: str, question: Question) -> str | None:
        """The bare text; None if it has no letter, digit or symbol such as ``+``, or says that there is no answer."""
        answer = bare(text)
        has_content = answer in _LONE_SIGNS or any(c.isalnum() or unicodedata.category(c)[0] == "S" for c in answer)
        return answer if has_content and not declines(answer) else None

    def asks_yes_or_no(self, question: Question) -> bool:
        """Whether the question begins with an auxiliary verb and offers no alternatives: "Is the zebra a horse?"."""
        return bool(_YES_NO_QUESTION.match(question.question)) and not _ALTERNATIVES.search(question.question)

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both name the same thing; not if only one of them says more than the question does."""
        text = question.question
        return same(a, b) and (
            a == b
            or _repeats(read_answer(a), text) == _repeats(read_answer(b), text)
            # There are things to choose from: "Who was first, Amundsen or Scott?".
            or bool(_ALTERNATIVES.search(text) or _CHOSEN_FROM.search(text))
        )

    def clearly_differ(self, a: str, b: str, question: Question) -> bool:
        """Whether both are values of one kind that differ, yes and no, or a bare number and words without one."""
        if {plain(a).strip(" .").casefold(), plain(b).strip(" .").casefold()} == {"yes", "no"}:
            return True
        numbers, more_numbers = ([word.key for word in words(text) if word.number] for text in (a, b))
        others, more_others = ({w.key for w in words(text) if not w.number} - SMALL_WORDS for text in (a, b))
        if not (numbers and more_numbers):
            return bool(numbers or more_numbers) and not (others if numbers else more_others)
        if not all(number.lstrip("-").replace(".", "").isdigit() for number in (*numbers, *more_numbers)):
            return False
        years = [sorted(len(number) == 4 and number.isdigit() for number in each) for each in (numbers, more_numbers)]
        return others == more_others and years[0] == years[1] and set(numbers) != set(more_numbers)

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether the answer, a phrase or sentences, is the same as a gold or states one."""
        if any(self.same(answer, gold, question) for gold in question.answers):
            return True
        question_words = _question_words(question.question)[0]
        # A long gold also counts without its explanation: "In Mississippi, as Thomas Lanier Williams.".
        long = [gold.lstrip(" .") for gold in question.answers if len(gold.split()) >= _LONG_GOLD_WORDS]
        clauses = [match["first"] for gold in long if (match := _EXPLAINED.match(gold))]
        reading, readings = read_answer(answer), [read_answer(gold) for gold in (*question.answers, *clauses)]

        def states(phrase: Phrase) -> bool:
            return any(_states(phrase, gold, question_words) for gold in readings)

        names = [item.content for item in reading.items]
        is_name_list = len(names) > 1 and all(n and all(w.capital and not w.number for w in n) for n in names)
        if is_name_list or reading.items[0].head:
            # Every name in a list must be right, and so must the state after a city.
            return all(map(states, reading.items))
        if any(_abridges(reading, gold, question_words) for gold in readings):
            return True
        text = plain(answer)
        stated = phrase_of(_DENIED.sub(" ", _without_rivals(text, lambda rival: states(phrase_of(rival)))))
        right = [gold for gold in readings if _states(stated, gold, question_words)]
        if len(text.split()) > _MAX_SHORT_WORDS:
            return bool(right)
        return any(not _adds_number(text, gold, question_words) for gold in right)

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """Whether a passage has the answer's words in a row, or a sentence that states it; None for yes and no."""
        reading = read_answer(answer)
        if reading.polarity:
            return None
        if has_words(text, answer):
            return True
        parts = frozenset(part for word in words(plain(answer)) for part in _parts(word))
        question_words = _question_words(question.question)[0]
        near = (one for one, own in _sentences(text[:_MAX_READ_PASSAGE]) if not parts.isdisjoint(own))
        return any(_states_all(phrase_of(_DENIED.sub(" ", plain(one))), reading, question_words) for one in near)


_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])|\n+")
_MAX_READ_PASSAGE = 20_000


@lru_cache(maxsize=256)
def _sentences(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The sentences of a passage, and the parts of their words. Several answers are looked up in one passage."""
    return tuple(
        (one, frozenset(part for word in words(plain(one)) for part in _parts(word))) for one in _SENTENCE.split(text)
    )


def _states_all(stated: Phrase, answer: Reading, question_words: Container[str]) -> bool:
    """Whether ``stated`` has every word of an answer; of a person's name, at least the family name."""

    def states(item: Phrase) -> bool:
        if conflict(stated.counted, item.counted):
            return False
        dated = all(any(date.agrees(other) for other in stated.dates) for date in item.dates)
        left = (word for word in item.content if word.key not in stated.keys)
        missing = any(stated.stems.isdisjoint(stems(word.key)) for word in left)
        return dated and (
            not missing or (is_full_name(item.order) and _states_name(stated.order, item.order, question_words))
        )

    enough = any if answer.either else all
    return enough(map(states, answer.items))


def _parts(word: Word) -> frozenset[str]:
    return frozenset() if word.key in SMALL_WORDS else stems(word.key) | {word.key}


@lru_cache(maxsize=4096)
def _question_words(question: str) -> tuple[frozenset[str], tuple[Date, ...]]:
    """The words and dates of a question."""
    text = plain(question)
    return frozenset(word.key for word in words(text)), split_dates(text)[0]


def _repeats(answer: Reading, question: str) -> bool:
    """Whether all words and dates of an answer are in the question."""
    question_words, dates = _question_words(question)
    return answer.keys <= question_words and all(date in dates for item in answer.items for date in item.dates)


_KINDS = vocabulary("republic kingdom state city isle island university college duke earl county province")
"""Words that may be omitted before "of": the Republic of Ireland is Ireland."""


def same(left: str, right: str) -> bool:
    """Whether two short answers name the same thing, whatever the question."""
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
    return _is_paired(one.items, other.items) and _is_paired(other.items, one.items)


def _is_paired(ones: tuple[Phrase, ...], others: tuple[Phrase, ...]) -> bool:
    return all(any(_same_phrase(one.next_to(other), other.next_to(one)) for other in others) for one in ones)


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
    more, keys = long.keys - short.keys, [word.key for word in long.order]
    of = keys.index("of") if "of" in keys else 0
    head = long.order[of - 1]
    # Only the words after "of" are not the whole: England, "Henry of England".
    is_epithet = of > 0 and head.capital and head.key not in _KINDS and short.keys.isdisjoint(keys[:of])
    if more & CONTRASTS or is_epithet:
        return False
    if is_full_name(long.order) and short.keys == {long.order[-1].key}:
        return True
    # A single capital letter changes what is named: plan B, B3.
    if any(word.initials and len(word.key) == 1 and word.key in more for word in long.order):
        return False
    return set(short.numbers) == short.keys != set() or len(more) <= len(short.keys) + len(short.dates)


def _is_acronym(short: Phrase, long: Phrase) -> bool:
    """Whether ``short`` is one word of capitals, the first letters of the words of ``long``."""
    initials = "".join(word.key[0] for word in long.content)
    return len(initials) > 1 and [(word.key, word.initials) for word in short.content] == [(initials, True)]


_EXPLAINED = re.compile(r"(?P<first>[^,;.!?()]+)(?:, (?:who|which|whose|where|when|as)\b|\. [A-Z])", re.DOTALL)
_LONG_GOLD_WORDS = 8  # Fewest words of a gold that is read as a phrase with an explanation.


_MAX_PHRASE_WORDS = 5  # Most content words of a phrase; a longer answer is a sentence.
_MAX_SHORT_WORDS = 6
"""Most words of a short answer, to which no number may be added."""
_DENIED = re.compile(
    r"(?i)(?:(?:^|,|\b(?:and|but|is|was|are|were))\s+not\b(?! only)|\A\W?not\b|\b(?:is|was|are|were)n't\b"
    r"|\b(?:rather than|instead of|unlike|nor|neither)\b)(?:(?! but\b)[^,.;:!?\n])*"
)
"""A negation up to the end of its clause."""

_OR = re.compile(
    r",? (?P<aside>\()?(?:(?:and/)?or|maybe|perhaps|possibly|alternatively)"
    r"(?: (?:maybe|perhaps|possibly|even|rather|else))*,? "
    r"(?:it (?:is|was|(?:could|may|might)(?: also)? be) )?"
    r"(?!(?:so|more|less|fewer|later|earlier|not|above|below|simply)\b)"
)
_CALLED = re.compile(r"\b(?:known as|called|named)(?: the)? \Z")
_NAME = r"[$]?(?:[A-Z]|\d)[\w'&.:%-]*(?:,\d[\w.]*)*"
_RUN = rf"{_NAME}(?:(?: (?:of|the|de|van|von))* {_NAME})*"
_RUN_BEFORE = re.compile(rf"{_RUN}(?:, {_RUN})*\Z")
_RUN_AFTER = re.compile(_RUN)
_CLAUSE_BEFORE = re.compile(r"(?:[^.;:!?(]|\.(?=\d))*\Z")
_CLAUSE_AFTER = re.compile(r"(?:[^.;:!?,)]|[.,](?=\d))*")
_MAX_RIVALS, _MAX_CHARACTERS = 20, 80


def _without_rivals(text: str, right: Callable[[str], bool]) -> str:
    """The text without alternatives ("A or B") of which one is right and another is not."""
    spans = []
    is_short = len(text.split()) <= _MAX_SHORT_WORDS
    for match in [*_OR.finditer(text)][:_MAX_RIVALS]:
        before = text[max(match.start() - _MAX_CHARACTERS, 0) : match.start()]
        after = text[match.end() : match.end() + _MAX_CHARACTERS]
        left = (_CLAUSE_BEFORE if is_short else _RUN_BEFORE).search(before)
        other = (_CLAUSE_AFTER if is_short else _RUN_AFTER).match(after)
        if left and other and (is_short or not (match["aside"] or _CALLED.search(before, 0, left.start()))):
            rivals = [*SUBJECT.sub("", left[0]).split(", "), other[0]]
            if len({right(rival) for rival in rivals}) > 1 and not _converts(rivals):
                spans.append((match.start() - len(left[0]), match.end() + len(other[0])))
    for start, end in reversed(spans):
        text = f"{text[:start]} {text[end:]}"
    return text


def _converts(rivals: Sequence[str]) -> bool:
    """Whether the alternatives are one amount in two units: "310 feet or 94 m", "5% or 0.05"."""
    amounts = [phrase_of(rival) for rival in rivals]
    if len(amounts) != 2 or any(len(amount.numbers) != 1 for amount in amounts):
        return False
    (one,), (other,) = (amount.counted.get(amount.numbers[0], [frozenset[str]()]) for amount in amounts)
    if {"percent"} in (one, other):
        large, small = sorted((Decimal(amount.numbers[0]) for amount in amounts), reverse=True)
        return one != other and large == 100 * small
    return one != other and one_dimension(one, other)


_MARKER = re.compile(r"(?:\A|(?<=\s))\d{1,2}[.)] (?=[A-Z])|\b\d+:\d+\b")
"""The numbers of a list's items, of verses and of hours, which count nothing."""


def _adds_number(text: str, gold: Reading, question_words: Container[str]) -> bool:
    """Whether a short answer has a number that the gold lacks and that does not count something else."""
    text = _MARKER.sub(" ", text)
    texts = [PARENTHESIS.sub(" ", text), *(inner[0][1:-1] for inner in PARENTHESIS.finditer(text))]
    parts = [phrase_of(each) for each in texts if any(map(str.isalnum, each))]
    numbers = required = {number for item in gold.items for number in item.numbers}
    dates = [date for item in gold.items for date in item.dates]
    keys = gold.keys
    counted = [unit for item in gold.items for units in item.counted.values() for unit in units]
    if {"percent"} in counted:
        numbers = numbers | {str(Decimal(number) / 100) for number in numbers}

    def adds(part: Phrase) -> bool:
        if dates and not all(any(date.agrees(other) for other in dates) for date in part.dates):
            return True
        for at, word in enumerate(part.order):
            if not word.number or word.spelled or word.key in numbers or word.key in question_words:
                continue
            after = part.order[at + 1] if at + 1 < len(part.order) else None
            if after is None or after.number or after.key in SMALL_WORDS or after.key in keys:
                return True
            before = [each.key for each in part.order[:at] if each.key != "and"][-1:]
            if {*before} & keys and any(
                one_dimension(unit, other) for unit in part.counted.get(word.key, ()) for other in counted
            ):
                return True  # one amount in two units: 5 ft 6 in
        return False

    stating = [part for part in parts if required <= {*part.numbers} and bool(part.dates) >= bool(dates)]
    return bool(stating) and all(map(adds, stating))


def _states(stated: Phrase, gold: Reading, question_words: Container[str]) -> bool:
    enough = any if gold.either else all
    return not gold.polarity and enough(
        _states_phrase(stated.next_to(phrase), phrase.next_to(stated), question_words) for phrase in gold.items
    )


def _states_phrase(stated: Phrase, gold: Phrase, question_words: Container[str]) -> bool:
    """Whether ``stated`` states one thing that a gold names."""
    if conflict(stated.counted, gold.counted):
        return False
    dates_agree = all(any(date.agrees(other) for other in stated.dates) for date in gold.dates)
    # Words of the question prove nothing, unless the gold has no others.
    needed = [word for word in gold.content if word.key not in question_words] or list(gold.content)
    missing = _missing(needed, stated)
    if not missing:
        # It must have the gold's date too; without any date, the words are enough.
        return dates_agree or not stated.dates if needed else bool(gold.dates) and dates_agree
    if not dates_agree or len(missing) == len(needed):
        return False
    if any(word.number or word.key in CONTRASTS for word in missing):
        return False
    if is_full_name(gold.order):
        return _states_name(stated.order, gold.order, question_words)
    own = _missing([word for word in stated.content if word.key not in question_words], gold, by_stem_only=True)
    is_short = len(stated.content) <= _MAX_PHRASE_WORDS
    if is_short and any(word.capital for word in own) and any(word.capital for word in missing):
        return False  # A title with a word replaced.
    return 2 * len(missing) <= len(needed) and not _contradict(stated.order, gold.order)


def _missing(words: Iterable[Word], phrase: Phrase, *, by_stem_only: bool = False) -> list[Word]:
    """The words that are not in the phrase, compared as they are and by their stems."""
    known: Container[str] = () if by_stem_only else phrase.keys
    return [word for word in words if word.key not in known and phrase.stems.isdisjoint(stems(word.key))]


def _contradict(stated: Sequence[Word], gold: Sequence[Word]) -> bool:
    """Whether an "of" phrase has one side replaced: "Edward of England" for "Henry of England"."""
    links, expected = (
        [(words[at - 1].key, words[at + 1].key) for at in range(1, len(words) - 1) if words[at].key == "of"]
        for words in (stated, gold)
    )
    return any((one[0] == other[0]) != (one[1] == other[1]) for one in links for other in expected)


def _states_name(stated: Sequence[Word], name: Sequence[Word], question_words: Container[str]) -> bool:
    """Whether ``stated`` has the family name, after compatible given names, or alone if it is not in the question."""
    for at, word in enumerate(stated):
        if word.key == name[-1].key and word.capital:
            before = [*takewhile(may_be_in_name, reversed(stated[:at]))][::-1]
            if same_name([*before, word], name) if before else word.key not in question_words:
                return True
    return False


def _abridges(answer: Reading, gold: Reading, question_words: frozenset[str]) -> bool:
    """Whether a longer gold contains all words of a short answer: Belshazzar, "the Babylonian king Belshazzar"."""
    if answer.polarity or len(answer.items) != len(gold.items) or any(item.dates for item in answer.items):
        return False
    if any(conflict(one.counted, other.counted) for one in answer.items for other in gold.items):
        return False
    rest = gold.keys - answer.keys
    has_other_number = any(key[0].isdigit() for key in answer.keys) and any(key[0].isdigit() for key in rest)
    adds = answer.keys - question_words
    return answer.keys <= gold.keys and bool(adds) and not rest & CONTRASTS and not has_other_number
