"""Debates and scores as text. Model and web text is shown without control characters and never as markup."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from madke.core.transcript import Round, Transcript, Turn
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate
from madke.terminal import printable

_WIDTH = 96

_HEADINGS = {"em": "EM", "f1": "F1", "label_accuracy": "label", "choice_accuracy": "choice"}
"""Metrics that have a column in the score table."""


def debate_text(transcript: Transcript) -> str:
    """One debate, to be read from top to bottom: question, pool, each round, the final answer."""
    return "\n".join(_debate_lines(transcript))


def _line(text: str) -> str:
    """Text of others on one line, so that it cannot pass for a line of ours."""
    return " ".join(printable(text).split())


def _debate_lines(transcript: Transcript) -> Iterator[str]:
    noun = "Claim" if transcript.task == "claim" else "Question"
    yield _line(f"{noun} ({transcript.id}): {transcript.question}")
    for letter, choice in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", transcript.choices, strict=False):
        yield f"  ({letter}) {_line(choice)}"
    if transcript.answers:
        yield _line(f"Gold: {' | '.join(transcript.answers)}")
    if transcript.pool:
        yield "Knowledge pool:"
        yield from (f"  [{p.n}] {_line(p.source):<8} {_line(p.title)}  ({_line(p.key)})" for p in transcript.pool)
    yield from (f"  {source} failed: {_line(why)}" for source, why in transcript.pool_partial.items())
    for entry in transcript.rounds:
        yield from _round_lines(entry)
    yield ""
    final = transcript.final
    answer = f"[{transcript.answer}]" if transcript.answer is not None else f"none ({transcript.status})"
    yield _line(f"Final answer, by {final.by}: {answer}" + ("  (tie)" if final.tie else ""))
    yield from _wrapped(final.error or final.text)
    calls = sum(used.calls for used in transcript.usage.values())
    tokens = sum(used.prompt_tokens + used.completion_tokens for used in transcript.usage.values())
    yield f"Ended by: {transcript.stop_reason}. {calls} calls, {tokens:,} tokens."


def _round_lines(entry: Round) -> Iterator[str]:
    yield ""
    yield f"--- round {entry.n} ---"
    for turn in entry.turns:
        yield f"{_line(turn.agent)}{_chosen(turn)}"
        yield from _wrapped(turn.stance.error or turn.stance.text)
    if entry.verdict is not None:
        verdict = {True: "consensus", False: "no consensus", None: "no verdict"}[entry.verdict.consensus]
        yield f"Judge: {verdict}"
        yield from _wrapped(entry.verdict.error or entry.verdict.text)


def _chosen(turn: Turn) -> str:
    selection = turn.selection
    if selection is None:
        return ""
    if selection.ids:
        return " selects " + " ".join(f"[{n}]" for n in selection.ids)
    why = {"no_found": "finds nothing helpful in the pool", "none": "names no knowledge that could be read"}
    return f" {why.get(selection.rule, 'could not select')}"


def _wrapped(text: str) -> Iterator[str]:
    for paragraph in printable(text).splitlines():
        yield from textwrap.wrap(paragraph, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def score_table(runs: Sequence[tuple[str, Scores]]) -> Table:
    """One row a run: what came out right, how consistent the debaters were, and what it took."""
    metrics = [name for name in _HEADINGS if any(name in scores.metrics for _, scores in runs)]
    by = "Cons and Co2 by the judge's last verdict; where there was no judge, by the task's matcher (m)."
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=by, caption_justify="left")
    table.add_column("run", overflow="fold", min_width=12)
    headings = [_HEADINGS[name] for name in metrics]
    columns = [
        "n",
        "correct % (95 % interval)",
        *headings,
        "Cons",
        "Co2",
        "rounds",
        "calls",
        "tokens",
        "abst.",
        "failed",
    ]
    for column in columns:
        table.add_column(column, justify="right")
    for name, scores in runs:
        total = scores.total
        cells = [
            str(scores.transcripts),
            interval(scores.correct),
            *(percent(scores.metrics.get(metric)) for metric in metrics),
            _consistency(scores.cons_judge, scores.cons_matcher),
            _consistency(scores.co2_judge, scores.co2_matcher),
            f"{scores.mean_rounds:.2f}",
            f"{total.calls:,}",
            f"{total.prompt_tokens + total.completion_tokens:,}",
            str(scores.abstained),
            str(scores.failed),
        ]
        table.add_row(Text(printable(name)), *cells)
    return table


def _consistency(judge: Estimate | None, matcher: Estimate | None) -> str:
    return percent(judge) if judge or not matcher else f"{percent(matcher)} m"


def score_details(scores: Scores) -> str:
    """Everything that one run's scores hold and the table leaves out, a line each."""
    lines = [
        *(f"{name} {interval(found)}, n = {found.n}" for name, found in scores.metrics.items()),
        f"Cons by the judge {interval(scores.cons_judge)}, by the matcher {interval(scores.cons_matcher)}",
        f"Co2 (correct by the task's first metric) by the judge {interval(scores.co2_judge)}, "
        f"by the matcher {interval(scores.co2_matcher)}",
        f"ended by: {_counts(scores.stop_reasons)}",
        f"degraded {scores.degraded}, with a partial pool {scores.partial_pools}",
    ]
    if scores.failed and scores.correct_if_failed:
        low, high = scores.correct_if_failed
        lines.append(f"correct if all failed were wrong {100 * low:.1f}, if all were right {100 * high:.1f}")
    for stage, used in scores.usage.items():
        missed = scores.parse_failures.get(stage)
        lines.append(
            f"{stage}: {used.calls:,} calls ({used.paid:,} paid, {used.failed} failed, {used.retries} retries), "
            f"{used.prompt_tokens:,} prompt ({used.cached_tokens:,} cached) + {used.completion_tokens:,} completion "
            f"({used.reasoning_tokens:,} reasoning) tokens"
            + (" (estimated)" if used.estimated else "")
            + (f", unparsed {percent(missed)} %" if missed else "")
        )
    return "\n".join(lines)


def percent(estimate: Estimate | None) -> str:
    """The mean in percent, one decimal; a dash where there is none."""
    return "-" if estimate is None else f"{100 * estimate.value:.1f}"


def interval(estimate: Estimate | None) -> str:
    """The mean in percent with its 95 % interval."""
    if estimate is None:
        return "-"
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
