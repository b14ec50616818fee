"""Answers that are no span of a passage: a claim's label, an option's letter, yes or no, one of two things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from madke.llm.offline.passages import Line, overlap, plain_title, read_lines, squeezed, stated, word_weights
from madke.llm.offline.prompt import Knowledge, Prompt
from madke.llm.offline.question import Asked, analyse
from madke.llm.offline.rank import Candidate, answer_spans
from madke.llm.offline.spans import Span, candidates
from madke.llm.offline.text import content, words

if TYPE_CHECKING:
    from madke.llm.offline.passages import Embed


def answers(prompt: Prompt, embed: Embed) -> list[Candidate]:
    """What the prompt's knowledge lets the reader answer, best first; empty where it cannot tell."""
    asked = analyse(prompt.question)
    if prompt.form == "claim":
        found = claim_labels(prompt.question, prompt.knowledge, embed)
    elif prompt.form == "choice":
        found = option_letters(asked, prompt.options, prompt.knowledge, embed)
    elif asked.kind == "either":
        found = one_of_two(asked, prompt.knowledge, embed)
    elif asked.kind == "yes_no":
        found = yes_or_no(asked, prompt.knowledge, embed)
    else:
        found = answer_spans(asked, prompt.knowledge, embed)
    return sorted(found, key=lambda candidate: -candidate.score)


# --- claims ------------------------------------------------------------------------------------------------------

_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|without|neither|none|cannot|unlike|instead of|rather than|failed to)\b|n't\b", re.I
)
_SUPPORTED = 0.6
"""Mean of coverage and similarity from which a sentence that contradicts nothing supports a claim."""
_REFUTED = 0.55
"""The same for a contradiction, whose sentence lacks the swapped word by nature."""


def claim_labels(claim: str, knowledge: Sequence[Knowledge], embed: Embed) -> list[Candidate]:
    """The three labels with scores, from the sentence that is nearest to the claim.

    A sentence that holds nearly all of the claim supports it. One that holds most of it, but another name or number
    in place of one of the claim's, or a negation, refutes it. Otherwise there is not enough.
    """
    lines = read_lines(claim, knowledge, embed)
    if not lines:
        return [Candidate(answer="NOT ENOUGH INFO", score=0.0)]
    weights = word_weights(claim, knowledge)
    line = max(lines, key=lambda line: line.score)
    vectors = embed([claim, stated(line)])
    near = float(vectors[0] @ vectors[1])
    covered = overlap(weights, stated(line))
    mismatch = _mismatch(claim, line, lines) or bool(_NEGATION.search(claim)) != bool(_NEGATION.search(line.text))
    known = 0.5 * (covered + near)
    return [
        Candidate(answer="SUPPORTS", score=-0.25 if mismatch else known - _SUPPORTED, line=line),
        Candidate(answer="REFUTES", score=known - _REFUTED if mismatch else -0.25, line=line),
        Candidate(answer="NOT ENOUGH INFO", score=0.0, line=line),
    ]


def _mismatch(claim: str, line: Line, lines: Sequence[Line]) -> bool:
    """Whether the claim names something that the passage lacks, while the sentence offers another of its form."""
    passage = set(content(" ".join(stated(other) for other in lines if other.number == line.number)))
    wanted = set(content(claim))
    for span in candidates(claim):
        form, own = _form(span), content(span.text)
        if not form or not own or (own[-1] in passage if form == "name" else set(own) <= passage):
            continue
        if any(_form(other) == form and not set(content(other.text)) & wanted for other in candidates(line.text)):
            return True
    return False


def _form(span: Span) -> str:
    return "number" if span.kind in {"date", "year", "number"} else "name" if span.kind == "name" else ""


# --- choices -----------------------------------------------------------------------------------------------------


_CORROBORATED = 0.5
"""Weight of the best sentence of a second passage for an option."""


def option_letters(
    asked: Asked, options: Sequence[tuple[str, str]], knowledge: Sequence[Knowledge], embed: Embed
) -> list[Candidate]:
    """Each option's letter, by the sentence that says it best; without knowledge by its nearness to the question."""
    lines = read_lines(asked.text, knowledge, embed)
    vectors = embed([asked.text, *(asked.hypothesis(text) for _, text in options), *map(stated, lines)])
    question, hypotheses, evidence = vectors[0], vectors[1 : len(options) + 1], vectors[len(options) + 1 :]
    if not lines:
        return [
            Candidate(answer=letter, score=float(hypothesis @ question))
            for (letter, _), hypothesis in zip(options, hypotheses, strict=True)
        ]
    found = []
    for (letter, text), hypothesis in zip(options, hypotheses, strict=True):
        nearness = (evidence @ hypothesis).tolist()
        backing = [near + _states(line, text, asked) for line, near in zip(lines, nearness, strict=True)]
        row = max(range(len(lines)), key=backing.__getitem__)
        others = [value for value, line in zip(backing, lines, strict=True) if line.number != lines[row].number]
        found.append(
            Candidate(answer=letter, score=backing[row] + _CORROBORATED * max(others, default=0.0), line=lines[row])
        )
    return found


def _states(line: Line, option: str, asked: Asked) -> float:
    """How much of the option a sentence says, as far as the sentence is on the question."""
    own = set(content(option)) - set(content(asked.text)) or set(words(option))
    said = {*content(stated(line)), *words(stated(line))}
    whole = 0.3 if squeezed(option) in squeezed(stated(line)) else 0.0
    return (0.7 * len(own & said) / max(1, len(own)) + whole) * line.score


# --- one of two --------------------------------------------------------------------------------------------------

_EARLY = re.compile(r"\b(?:first|earlier|earliest|older|oldest|elder|before|sooner)\b", re.I)
_AGE = re.compile(r"\b(?:older|oldest|elder|younger|youngest)\b", re.I)
_LATE = re.compile(r"\b(?:later|latest|younger|youngest|newer|recent|recently|after|last)\b", re.I)
_MORE = re.compile(
    r"\b(?:more|most|higher|highest|larger|largest|bigger|biggest|greater|greatest|longer|longest|taller|tallest|deeper"
    r"|deepest|heavier|wider|faster)\b",
    re.IGNORECASE,
)
_LESS = re.compile(
    r"\b(?:fewer|fewest|less|least|lower|lowest|smaller|smallest|shorter|shortest|shallower|lighter)\b", re.I
)


def one_of_two(asked: Asked, knowledge: Sequence[Knowledge], embed: Embed) -> list[Candidate]:
    """The two things of a comparison: by their years or numbers where it compares those, else by their evidence."""
    lines = read_lines(asked.text, knowledge, embed)
    best = {thing: _about(thing, lines) for thing in asked.either}
    left, right = asked.either
    order = _order(asked.text, best[left], best[right])
    found = []
    for thing, ahead in ((left, order), (right, -order)):
        line = best[thing][0] if best[thing] else None
        found.append(Candidate(answer=thing, score=ahead + (line.score if line else 0.0), line=line))
    return found


def _about(thing: str, lines: Sequence[Line]) -> list[Line]:
    """The sentences about a thing, best first: under its title, or with its name in them."""
    name = squeezed(thing)
    titled = [line for line in lines if name in squeezed(line.title) or squeezed(line.title) in name]
    named = [line for line in lines if name in squeezed(line.text) and line not in titled]
    return [*sorted(titled, key=lambda line: -line.score), *sorted(named, key=lambda line: -line.score)]


def _order(question: str, left: Sequence[Line], right: Sequence[Line]) -> float:
    """1 where the figures speak for the left, -1 for the right, 0 where there are none to compare."""
    dated = bool(_EARLY.search(question) or _LATE.search(question))
    smaller_wins = bool(_EARLY.search(question) or _LESS.search(question))
    if not (dated or smaller_wins or _MORE.search(question)):
        return 0.0
    a, b = (_figure(question, side, dated=dated) for side in (left, right))
    if a is None or b is None or a == b:
        return 0.0
    return 1.0 if (a < b) == smaller_wins else -1.0


def _figure(question: str, lines: Sequence[Line], *, dated: bool) -> float | None:
    """The year or number that stands nearest to the question's own words; a person's age goes by the birth."""
    wanted = set(content(question)) | ({"bear"} if _AGE.search(question) else set())
    best: tuple[int, float] | None = None
    for line in lines:
        for span in candidates(line.text):
            value = _value(span.text) if span.kind == ("year" if dated else "number") else None
            beside = len(wanted & set(content(line.text[max(0, span.start - 40) : span.end + 30])))
            if value is not None and (best is None or beside > best[0]):
                best = (beside, value)
    return best[1] if best else None


def _value(text: str) -> float | None:
    found = re.search(r"\d+(?:,\d{3})*(?:\.\d+)?", text)
    if found is None:
        return None
    scale = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
    times = next((factor for word, factor in scale.items() if word in text), 1.0)
    return float(found.group().replace(",", "")) * times


# --- yes or no ---------------------------------------------------------------------------------------------------


def yes_or_no(asked: Asked, knowledge: Sequence[Knowledge], embed: Embed) -> list[Candidate]:
    """Yes, unless the passages about two things that the question names speak against it."""
    lines = read_lines(asked.text, knowledge, embed)
    best = max(lines, key=lambda line: line.score, default=None)
    doubt = _difference(asked.text, lines)
    return [
        Candidate(answer="yes", score=0.5 - 0.5 * doubt, line=best),
        Candidate(answer="no", score=0.2 + 0.2 * doubt, line=best),
    ]


_DEMONYM = re.compile(r"\b[A-Z]\w+(?:ish|ese|an|ch)\b")


def _difference(question: str, lines: Sequence[Line]) -> float:
    """1 where what is said of the two named things speaks against "same" or "both", else 0."""
    asked = squeezed(question)
    titles = dict.fromkeys(title for line in lines if (title := plain_title(line.title)) and title in asked)
    things = [(title, [line for line in lines if plain_title(line.title) == title]) for title in list(titles)[:2]]
    if len(things) < 2:
        return 0.0
    if re.search(r"\bsame (?:country|nationality)\b", question, re.I):
        one, other = ({found for line in group for found in _DEMONYM.findall(line.text)} for _, group in things)
        return float(bool(one and other and not one & other))
    if not re.search(r"\bboth\b", question, re.I):
        return 0.0
    predicate = set(content(question)) - set(content(" ".join(name for name, _ in things)))
    held = [predicate & set(content(" ".join(map(stated, group)))) for _, group in things]
    return float(any(2 * len(words_held) <= len(predicate) for words_held in held)) if predicate else 0.0
