"""Debates as text. Model and web text is shown without control characters and never as markup."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from madke.core.transcript import Cut, Final, PoolEntry, Round, Selection, Transcript, Turn, Verdict
from madke.report.tables import ORACLE, one_line
from madke.tasks.choice import lettered
from madke.terminal import printable

_WIDTH = 96

CONSENSUS = {True: "consensus", False: "no consensus", None: "no verdict"}
"""What a judge found, in words."""


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
