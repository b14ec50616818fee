"""Answers by the kind of question: a span, a claim's label, an option's letter, yes or no, one of two things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from madke.llm.offline.candidates import Candidate, answer_spans, candidates
from madke.llm.offline.evidence import Line, overlap, plain_title, read_lines, squeezed, stated, word_weights
from madke.llm.offline.language import Asked, analyse, content, words
from madke.llm.offline.prompt_reader import Knowledge, Prompt

if TYPE_CHECKING:
    from madke.llm.offline.evidence import Embed


def answers(prompt: Prompt, embed: Embed) -> list[Candidate]:
    """What the prompt's knowledge lets the reader answer, best first; empty where it cannot tell."""
    asked = analyse(prompt.question)
    lines = read_lines(prompt.question, prompt.knowledge, embed)
    if prompt.form == "claim":
        found = _claim_labels(prompt.question, lines, prompt.knowledge, embed)
    elif prompt.form == "choice":
        found = _option_letters(asked, prompt.options, lines, embed)
    elif asked.kind == "either":
        found = _one_of_two(asked, lines)
    elif asked.kind == "yes_no":
        found = _yes_or_no(asked, lines)
    else:
        found = answer_spans(asked, prompt.knowledge, embed)
    return sorted(found, key=lambda candidate: -candidate.score)


_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|without|neither|none|cannot|unlike|instead of|rather than|failed to)\b|n't\b", re.I
)
_SUPPORTED, _REFUTED = 0.6, 0.55
"""Mean of coverage and similarity from which a sentence decides a claim; a contradicting one lacks the swapped word."""


def _claim_labels(claim: str, lines: Sequence[Line], knowledge: Sequence[Knowledge], embed: Embed) -> list[Candidate]:
    """The three labels with scores, from the sentence that is nearest to the claim.

    A sentence that holds nearly all of the claim supports it. One that holds most of it, but another name or number
    in place of one of the claim's, or a negation, refutes it. Otherwise there is not enough.
    """
    line = max(lines, key=lambda line: line.score, default=None)
    if line is None:
        return [Candidate(answer="NOT ENOUGH INFO", score=0.0)]
    vectors = embed([claim, stated(line)])
    known = 0.5 * (overlap(word_weights(claim, knowledge), stated(line)) + float(vectors[0] @ vectors[1]))
    passage = " ".join(stated(other) for other in lines if other.number == line.number)
    swapped = any(
        _things(claim, form, without=passage) and _things(line.text, form, without=claim) for form in _SWAPPED
    )
    mismatch = swapped or bool(_NEGATION.search(claim)) != bool(_NEGATION.search(line.text))
    return [
        Candidate(answer="SUPPORTS", score=-0.25 if mismatch else known - _SUPPORTED, line=line),
        Candidate(answer="REFUTES", score=known - _REFUTED if mismatch else -0.25, line=line),
        Candidate(answer="NOT ENOUGH INFO", score=0.0, line=line),
    ]


_SWAPPED = (("date", "year", "number"), ("name",))


def _things(text: str, kinds: Sequence[str], *, without: str) -> list[str]:
    """The numbers or names of a text whose last word another text lacks."""
    there = set(content(without))
    spans = (content(span.text) for span in candidates(text) if span.kind in kinds)
    return [own[-1] for own in spans if own and own[-1] not in there]


def _option_letters(
    asked: Asked, options: Sequence[tuple[str, str]], lines: Sequence[Line], embed: Embed
) -> list[Candidate]:
    """Each option's letter, by the sentence that says it best; without knowledge by its nearness to the question."""
    vectors = embed([asked.text, *(asked.hypothesis(text) for _, text in options), *map(stated, lines)])
    found = []
    for (letter, text), hypothesis in zip(options, vectors[1 : len(options) + 1], strict=True):
        nearness = (vectors[len(options) + 1 :] @ hypothesis).tolist()
        backing = [near + _states(line, text, asked) for line, near in zip(lines, nearness, strict=True)]
        best = max(zip(backing, lines, strict=True), key=lambda each: each[0], default=None)
        score, line = best or (float(hypothesis @ vectors[0]), None)
        found.append(Candidate(answer=letter, score=score, line=line))
    return found


def _states(line: Line, option: str, asked: Asked) -> float:
    """How much of the option a sentence says, as far as the sentence is on the question."""
    own = set(content(option)) - set(content(asked.text)) or set(words(option))
    said = {*content(stated(line)), *words(stated(line))}
    whole = 0.3 if squeezed(option) in squeezed(stated(line)) else 0.0
    return (0.7 * len(own & said) / max(1, len(own)) + whole) * line.score


_EARLY = re.compile(r"\b(?:first|earlier|earliest|older|oldest|elder|before|sooner)\b", re.I)
_LATE = re.compile(r"\b(?:later|latest|younger|youngest|newer|recent|recently|after|last)\b", re.I)
_MORE = re.compile(r"\b(?:more|most|(?:high|larg|bigg|great|long|tall|deep|heavi|wid|fast)(?:er|est))\b", re.I)
_LESS = re.compile(r"\b(?:less|least|(?:few|low|small|short|light|shallow)(?:er|est))\b", re.I)


def _one_of_two(asked: Asked, lines: Sequence[Line]) -> list[Candidate]:
    """The two things of a comparison: by their years or numbers where it compares those, else by their evidence."""
    about = [_about(thing, lines) for thing in asked.either]
    dated = bool(_EARLY.search(asked.text) or _LATE.search(asked.text))
    smaller = bool(_EARLY.search(asked.text) or _LESS.search(asked.text))
    left, right = (_figure(asked.text, side, "year" if dated else "number") for side in about)
    compares = dated or smaller or _MORE.search(asked.text)
    ahead = 0.0
    if compares and left is not None and right is not None and left != right:
        ahead = 1.0 if (left < right) == smaller else -1.0
    return [
        Candidate(answer=thing, score=gain + (side[0].score if side else 0.0), line=side[0] if side else None)
        for thing, side, gain in zip(asked.either, about, (ahead, -ahead), strict=True)
    ]


def _about(thing: str, lines: Sequence[Line]) -> list[Line]:
    """The sentences about a thing, best first: under its title, or with its name in them."""
    name = squeezed(thing)

    def titled(line: Line) -> bool:
        return name in squeezed(line.title) or squeezed(line.title) in name

    found = [line for line in lines if titled(line) or name in squeezed(line.text)]
    return sorted(found, key=lambda line: (not titled(line), -line.score))


def _figure(question: str, lines: Sequence[Line], kind: str) -> float | None:
    """The year or number that stands nearest to the question's own words; a person's age goes by the birth."""
    wanted = {*content(question), "born"}
    best: tuple[int, float] | None = None
    for line in lines:
        for span in candidates(line.text):
            digits = re.search(r"\d[\d,]*(?:\.\d+)?", span.text) if span.kind == kind else None
            near = len(wanted & set(content(line.text[max(0, span.start - 40) : span.end + 30])))
            if digits and (best is None or near > best[0]):
                scale = 1e6 if "million" in span.text else 1e9 if "billion" in span.text else 1.0
                best = (near, float(digits.group().replace(",", "")) * scale)
    return best[1] if best else None


def _yes_or_no(asked: Asked, lines: Sequence[Line]) -> list[Candidate]:
    """Yes, unless what is said about one of two named things lacks most of what "both" are asked to be."""
    best = max(lines, key=lambda line: line.score, default=None)
    question = squeezed(asked.text)
    things: dict[str, str] = {}
    for line in lines:
        if (title := plain_title(line.title)) and title in question:
            things[title] = f"{things.get(title, '')} {stated(line)}"
    predicate = set(content(asked.text)) - set(content(" ".join(things)))
    held = [predicate & set(content(said)) for said in things.values()]
    both = len(things) > 1 and re.search(r"\bboth\b", asked.text, re.I)
    doubt = 0.4 if both and any(2 * len(each) <= len(predicate) for each in held) else 0.0
    return [
        Candidate(answer="yes", score=0.4 - doubt, line=best),
        Candidate(answer="no", score=0.2, line=best),
    ]
