"""Debates and scores as text. Model and web text is shown without control characters and never as markup."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from madke.core.transcript import Cut, Final, PoolEntry, Round, Selection, Transcript, Turn, Verdict
from madke.scoring.metrics import METRICS
from madke.scoring.rows import GRADER
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate
from madke.tasks.choice import lettered
from madke.terminal import printable

_WIDTH = 96

ORACLE = "analysis: reads the gold answers"
"""Said wherever a debate whose order read the gold answers is reported."""

HEADINGS = {
    "em": "EM",
    "f1": "F1",
    "match": "match",
    "label_accuracy": "label",
    "choice_accuracy": "choice",
    "math_equivalence": "math",
    "chrf": "chrF",
    "bleu": "BLEU",
    "grader": "grader",
}
"""Metrics with a short name, in the order of their columns; others stand behind them, under their own names."""

CONSENSUS = {True: "consensus", False: "no consensus", None: "no verdict"}
"""What a judge found, in words."""


def in_percent(name: str) -> bool:
    """Whether a value is a share, shown in percent; what scorers outside say is on scales of their own."""
    return name in METRICS or name in ("correct", GRADER) or name.startswith(("cons_", "co2_"))


def of_dataset(arm: str, dataset: str) -> str:
    """What an arm's row is called where each dataset has its own."""
    return f"{arm}: {dataset or 'no dataset named'}"


def questions_of(scores: Scores) -> str:
    """How many questions there were, and with how many repeats where there are some: ``40 x 3``."""
    if scores.transcripts == scores.questions:
        return str(scores.questions)
    repeats, more = divmod(scores.transcripts, scores.questions)
    return f"{scores.questions} ({scores.transcripts} debates)" if more else f"{scores.questions} x {repeats}"


def grades_missing(scores: Scores) -> str:
    """How many answers have no grade, and where that leaves the grader's mean; empty where all have one."""
    if not scores.ungraded or scores.grader_if_ungraded is None:
        return ""
    low, high = scores.grader_if_ungraded
    return (
        f"{scores.ungraded} answers have no grade and are not in the grader's mean; with them it lies between "
        f"{100 * low:.1f} % (all wrong) and {100 * high:.1f} % (all right)"
    )


def one_line(text: str) -> str:
    """Text of others on one line, so that it cannot pass for a line of ours."""
    return " ".join(printable(text).split())


def has_cost(scores: Scores) -> bool:
    """Whether rounds, calls and tokens of a run are known; those of answers from elsewhere are not."""
    return bool(scores.usage)


def debate_text(transcript: Transcript) -> str:
    """One debate, to be read from top to bottom: question, pool, each round, the final answer."""
    return "\n".join(_debate_lines(transcript))


def _debate_lines(transcript: Transcript) -> Iterator[str]:
    noun = "Claim" if transcript.task == "claim" else "Question"
    yield one_line(f"{noun} ({transcript.id}): {transcript.question}")
    for letter, choice in lettered(transcript.choices):
        yield f"  ({letter}) {one_line(choice)}"
    if transcript.answers:
        yield one_line(f"Gold: {' | '.join(transcript.answers)}")
    if transcript.oracle:
        yield f"({ORACLE})"
    if transcript.pool:
        yield "Knowledge pool:"
        yield from (
            f"  [{p.n}] {one_line(p.source):<8} {one_line(p.title)}  ({one_line(p.key)}){_asked(p)}"
            for p in transcript.pool
        )
    yield from (f"  {source} failed: {one_line(why)}" for source, why in transcript.pool_partial.items())
    for agent, texts in transcript.prepared.items():
        for stage, text in texts.items():
            yield f"{one_line(agent)} prepares {one_line(stage)}:"
            yield from _wrapped(text)
    for entry in transcript.rounds:
        yield ""
        given = transcript.given and entry is transcript.rounds[0]
        yield f"--- round {entry.n}{', given from outside' if given else ''} ---"
        yield from _round_lines(entry)
    yield ""
    yield from _final_lines(transcript)
    if not transcript.usage:
        return
    calls = sum(used.calls for used in transcript.usage.values())
    tokens = sum(used.prompt_tokens + used.completion_tokens for used in transcript.usage.values())
    yield f"Ended by: {transcript.stop_reason}. {calls} calls, {tokens:,} tokens."


def _round_lines(entry: Round) -> Iterator[str]:
    spoke = [turn.agent for turn in entry.turns]
    if list(entry.order) != spoke:
        yield f"Read in the order {_names(entry.order)}"
    if entry.scores:
        yield f"Path consistency: {_figures(entry.scores)}"
    for turn in entry.turns:
        stance, did = turn.stance, ", ".join(_did(turn, entry.order))
        yield f"{' '.join(filter(None, (one_line(turn.agent), did)))}{_cut(stance.cut)}"
        yield from _wrapped(stance.error or stance.text)
        if (found := turn.reflection) is not None:
            yield f"{one_line(turn.agent)} is {_SATISFIED[found.satisfied]}{_cut(found.cut)}"
            yield from _wrapped(found.error or found.text)
    if (verdict := entry.verdict) is not None:
        yield f"Judge: {CONSENSUS[verdict.consensus]}{_held(verdict)}{_cut(verdict.cut)}"
        yield from _wrapped(verdict.error or verdict.reason or verdict.text)
    if (extracted := entry.extracted) is not None:
        yield f"Extracted from the debate so far: {_answer(extracted.answer, extracted.status)}{_cut(extracted.cut)}"
        yield from _wrapped(extracted.error or extracted.text)
    if entry.digest is not None:
        yield f"Summed up for the next round{_cut(entry.digest.cut)}:"
        yield from _wrapped(entry.digest.error or entry.digest.text)


def tie_word(final: Final) -> str:
    """What ``Final.tie`` means: a vote was tied, or a summarized debate ended split."""
    return "split" if final.by == "summarizer" else "tie"


def _final_lines(transcript: Transcript) -> Iterator[str]:
    final = transcript.final
    whose = f", {one_line(final.agent)}'s" if final.agent is not None else ""
    answer = _answer(transcript.answer, transcript.status)
    tie = f"  ({tie_word(final)})" if final.tie else ""
    yield f"Final answer, by {one_line(final.by)}{whose}: {answer}{tie}{_cut(final.cut)}"
    if final.scores:
        yield f"    weighed: {_figures(final.scores)}"
    yield from _wrapped(final.error or final.text)


_SATISFIED = {True: "satisfied with it", False: "not satisfied with it", None: "asked whether it is satisfied"}


def _answer(answer: str | None, status: str) -> str:
    return f"none ({status})" if answer is None else f"[{one_line(answer)}]"


def _names(agents: Iterable[str]) -> str:
    return one_line(", ".join(agents))


def _figures(scores: Mapping[str, float]) -> str:
    return one_line(", ".join(f"{name} {score:.4g}" for name, score in scores.items()))


def _asked(entry: PoolEntry) -> str:
    if entry.asked_by is None:
        return ""
    return one_line(f", found by {entry.asked_by} in round {entry.round}")


def _did(turn: Turn, order: Sequence[str]) -> Iterator[str]:
    """What a debater did besides speaking."""
    if turn.selection is not None:
        yield f"{_chosen(turn.selection)}{_cut(turn.selection.cut)}"
    if (search := turn.search) is not None:
        found = f"failed: {search.error}" if search.error else _numbers(search.ids) or "found nothing"
        yield one_line(f"searches for {search.query!r}: {found}")
    read = list(dict.fromkeys(turn.reads))
    # Where it read everybody in the round's order, that order says it.
    if read and read != [name for name in order if name != turn.agent]:
        yield f"reads {_names(read)}"
    if turn.stance.confidence is not None:
        yield f"confidence {turn.stance.confidence:g}"


def _chosen(selection: Selection) -> str:
    if selection.ids:
        return f"selects {_numbers(selection.ids)}"
    why = {"no_found": "finds nothing helpful in the pool", "none": "names no knowledge that could be read"}
    return why.get(selection.rule, "could not select")


def _held(verdict: Verdict) -> str:
    """What else the judge decided."""
    decided = (
        verdict.side and f", sides with {verdict.side}",
        verdict.answer and f", answer [{verdict.answer}]",
    )
    return "".join(one_line(part) for part in decided if part)


def _cut(cut: Cut | None) -> str:
    """What was left out of a prompt that was too long."""
    if cut is None:
        return ""
    parts = [f"{cut.stances} stances"] if cut.stances else []
    parts += [f"passages {_numbers(cut.passages)}"] if cut.passages else []
    return f" (prompt too long: {' and '.join(parts)} left out)"


def _numbers(ids: Iterable[int]) -> str:
    return " ".join(f"[{n}]" for n in ids)


def _wrapped(text: str) -> Iterator[str]:
    for paragraph in printable(text).splitlines():
        yield from textwrap.wrap(paragraph, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def score_table(runs: Sequence[tuple[str, Scores]]) -> Table:
    """One row a run: what came out right, how consistent the debaters were, and what it took."""
    measured = dict.fromkeys(name for _, scores in runs for name in scores.metrics)
    metrics = [name for name in dict.fromkeys([*HEADINGS, *measured]) if name in measured and in_percent(name)]
    outside = [name for name in measured if not in_percent(name)]
    by = "Cons and Co2 by the judge's last verdict; where there was no judge, by the task's matcher (m)."
    if outside:
        by += (
            f"\n{printable(', '.join(outside))}: a scale of its own, not percent; over the n questions with an answer."
        )
    by += "".join(f"\n{printable(name)}: {said}." for name, scores in runs if (said := grades_missing(scores)))
    if any(scores.datasets > 1 for _, scores in runs):
        by += "\nSeveral datasets are pooled; `madke score --by-dataset` gives each its own row."
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=by, caption_justify="left")
    table.add_column("run", overflow="fold", min_width=12)
    headings = [HEADINGS.get(name, name) for name in metrics]
    graded = any(scores.co2_judge_grader or scores.co2_matcher_grader for _, scores in runs)
    columns = [
        "n",
        "correct % (95 % interval)",
        *headings,
        *map(printable, outside),
        "Cons",
        "Co2",
        *(["Co2 by grader"] if graded else []),
        "rounds",
        "calls",
        "tokens",
        "abst.",
        "failed",
    ]
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    for name, scores in runs:
        total = scores.total
        rounds = "-" if scores.mean_rounds is None else f"{scores.mean_rounds.value:.2f}"
        cost = (rounds, f"{total.calls:,}", f"{total.prompt_tokens + total.completion_tokens:,}")
        cells = [
            questions_of(scores),
            interval(scores.correct),
            *(percent(scores.metrics.get(metric)) for metric in metrics),
            *(_outside(scores.metrics.get(name)) for name in outside),
            _consistency(scores.cons_judge, scores.cons_matcher),
            _consistency(scores.co2_judge, scores.co2_matcher),
            *([_consistency(scores.co2_judge_grader, scores.co2_matcher_grader)] if graded else []),
            *(cost if has_cost(scores) else ("-",) * len(cost)),
            str(scores.abstained),
            str(scores.failed),
        ]
        marked = f"{name}\n({ORACLE})" if scores.read_golds else name
        table.add_row(Text(printable(marked)), *cells)
    return table


def _consistency(judge: Estimate | None, matcher: Estimate | None) -> str:
    return percent(judge) if judge or not matcher else f"{percent(matcher)} m"


def _outside(found: Estimate | None) -> str:
    """A narrow cell for the mean by a scorer outside, which has a scale of its own."""
    return "-" if found is None else f"{found.value:.4g}\n{found.low:.4g} to {found.high:.4g}\nn = {found.n}"


def percent(estimate: Estimate | None) -> str:
    """The mean in percent, one decimal; a dash where there is none."""
    return "-" if estimate is None else f"{100 * estimate.value:.1f}"


def interval(estimate: Estimate | None) -> str:
    """The mean in percent with its 95 % interval."""
    if estimate is None:
        return "-"
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"
