"""What replies do with their prompt: repeat it, give its example back, or end at the token limit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby

from eval.real_models.kept import Call, KeptCell
from madke.scoring.debate_rows import over_repeats
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate
from madke.tasks.answer_text import squad_normalize

GRAM = 8
"""Words in a row that count as repeated."""
QUOTED = 4
"""Words in a row that count as a quotation."""
SHORTEST = 5
"""Shorter lines cannot repeat the prompt: "Selected: [0]" is what was asked for."""
ECHOED = 0.1
"""A reply whose share of repeated words is above this one repeats the prompt."""
SCORED = ("em", "f1", "match")
"""The metrics that the page shows."""
STAGES = ("select", "speak", "reply", "judge", "summarize")
_WORD = re.compile(r"\w+")
_Words = tuple[str, ...]


def echo_share(reply: str, prompt: str, material: Iterable[str]) -> float:
    """The share of the reply's words that it repeats from the prompt.

    Repeated are ``GRAM`` words in a row that stand in the prompt, and whole lines of ``SHORTEST`` words or more.
    Words are left out if ``QUOTED`` in a row stand in the material: question, passages and stances, which a reply may
    quote.
    """
    lines = [_words(line) for line in reply.splitlines()]
    words = tuple(word for line in lines for word in line)
    runs = [(n, GRAM) for n in range(len(words) - GRAM + 1)]
    starts = accumulate((len(line) for line in lines), initial=0)
    runs += [(start, len(line)) for start, line in zip(starts, lines, strict=False) if SHORTEST <= len(line) < GRAM]
    repeated = _covered(words, runs, [_words(prompt)])
    quotes = [(n, QUOTED) for n in range(len(words) - QUOTED + 1)]
    quoted = _covered(words, quotes, [_words(text) for text in material])
    return len(repeated - quoted) / len(words) if words else 0.0


def _covered(words: _Words, runs: Sequence[tuple[int, int]], texts: Sequence[_Words]) -> set[int]:
    """The places of those runs (start, length) of words that stand in one of the texts."""
    known = {size: {run for text in texts for run in _runs(text, size)} for size in {size for _, size in runs}}
    found = [range(start, start + size) for start, size in runs if words[start : start + size] in known[size]]
    return {place for run in found for place in run}


def _words(text: str) -> _Words:
    return tuple(_WORD.findall(text.casefold()))


def _runs(words: _Words, size: int) -> set[_Words]:
    return {words[n : n + size] for n in range(len(words) - size + 1)}


def gives_example(reply: str, examples: Collection[str], material: Iterable[str]) -> bool:
    """Whether the reply names the answer of an example of the prompts.

    Not if the answer also stands in the material (question, gold answers, passages): then it may be an answer.
    """
    said = f" {squad_normalize(reply)} "
    named = [f" {each} " for each in map(squad_normalize, examples) if f" {each} " in said]
    texts = [f" {squad_normalize(text)} " for text in material] if named else []
    return any(not any(each in text for text in texts) for each in named)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMeasures:
    """The shares of one stage: means over questions of the share of a question's replies."""

    replies: int
    """Replies of calls that did not fail."""
    failed: int
    """Calls that failed, also those that were made again."""
    readable: Estimate | None
    """The value that the stage asks for was read; None if the stage has none."""
    echoed: Estimate | None
    example: Estimate | None
    """The example of the prompt was given back."""
    cut: Estimate | None
    """Ended at ``max_tokens``."""


@dataclass(kw_only=True)
class _Counted:
    failed: int = 0
    flags: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))


def by_stage(cell: KeptCell) -> dict[str, StageMeasures]:
    """The measures of each stage of a cell, in the order of a debate."""
    counted: dict[str, _Counted] = defaultdict(_Counted)
    for call in cell.calls:
        held = counted[call.stage]
        if call.outcome != "ok":
            held.failed += 1
            continue
        held.flags["echoed"][call.question].append(float(call.echo > ECHOED))
        held.flags["example"][call.question].append(float(call.example))
        held.flags["cut"][call.question].append(float(call.finish == "length"))
    unread = scores_of(cell.transcripts).parse_failures
    order = {stage: n for n, stage in enumerate(STAGES)}
    return {
        stage: StageMeasures(
            replies=sum(map(len, held.flags["cut"].values())),
            failed=held.failed,
            readable=_complement(unread.get(stage)),
            echoed=over_repeats(list(held.flags["echoed"].values())),
            example=over_repeats(list(held.flags["example"].values())),
            cut=over_repeats(list(held.flags["cut"].values())),
        )
        for stage, held in sorted(counted.items(), key=lambda item: order.get(item[0], len(order)))
    }


def _complement(share: Estimate | None) -> Estimate | None:
    if share is None:
        return None
    return Estimate(value=1 - share.value, low=1 - share.high, high=1 - share.low, n=share.n)


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What the prompts of one debate may hold besides their own words."""

    question: str
    golds: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    """Stances that were given from outside."""


def measured(calls: Iterable[Call], materials: Mapping[str, Material], examples: Collection[str]) -> Iterator[Call]:
    """The calls with their measures, question by question in the order of the debate.

    ``materials``: question id -> material. Stances of earlier rounds may be quoted, unless they repeat the prompt
    themselves.
    """
    by_question: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_question[call.question].append(call)
    for question, held in by_question.items():
        material = materials.get(question, Material(question=""))
        said = list(material.given)
        for _, group in groupby(sorted(held, key=_place), key=_place):
            new = [_with_measures(call, material, said, examples) for call in group]
            yield from new
            said += [call.text for call in new if call.stage in _STANCES and call.echo <= ECHOED]


_STANCES = ("speak", "reply")


def _place(call: Call) -> tuple[int, int]:
    return call.round, {"select": 0, "speak": 1, "reply": 1, "judge": 2}.get(call.stage, 3)


def _with_measures(call: Call, material: Material, said: Sequence[str], examples: Collection[str]) -> Call:
    prompt = "\n".join(text for _, text in call.messages or ())
    shown = [material.question, *material.passages]
    return call.with_measures(
        echo=echo_share(call.text, prompt, [*shown, *said]),
        example=gives_example(call.text, examples, [*shown, *material.golds]),
    )
