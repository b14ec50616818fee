"""Debates as text, and the maps of their disagreements. Untrusted text has no control characters and no markup."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

from madke._util.terminal import printable
from madke.core import events
from madke.core.errors import UserError, count_of
from madke.core.question import Question
from madke.core.transcript import Agreement, Called, PoolEntry, Position, Quote, Round, Transcript, Turn
from madke.engine.agreement import ConflictMap, conflicts_of
from madke.engine.parse.reply import without_reasoning
from madke.report.tables import ORACLE, one_line
from madke.runs.runner import recorded_pools
from madke.scoring.arms import Results
from madke.tasks import get_task
from madke.tasks.base import with_letters

WIDTH = 96
"""Columns of a debate as text, where the terminal is not narrower."""
INDENT = " " * 4

_CONSENSUS = {True: "consensus", False: "no consensus", None: "no verdict"}


def debate_text(transcript: Transcript, width: int = WIDTH) -> str:
    """One debate as text: question, pool, rounds, final answer."""
    return "\n".join(wrap_lines(_debate_lines(transcript), width))


def _debate_lines(transcript: Transcript) -> Iterator[str]:
    yield from question_lines(transcript)
    if transcript.oracle:
        yield f"({ORACLE})"
    yield from pool_lines(transcript.pool, transcript.pool_partial)
    for agent, texts in transcript.prepared.items():
        for stage, text in texts.items():
            yield from prepared_lines(agent, stage, text)
    before = None
    for entry in transcript.rounds:
        source = ", from a file" if transcript.first_round_given and before is None else ""
        yield from ("", f"--- round {entry.n}{source} ---", *_order_lines(entry))
        for turn in entry.turns:
            yield from turn_lines(turn, entry.order, before)
        yield from round_lines(entry, before)
        before = entry
    yield from final_lines(transcript)


class DebateLines:
    """The lines of a debate as it happens, from its events.

    Args:
        question: The question, whose lines come first.
        prepared: Stages whose replies debaters prepare before their first turn.
        passages: Whether the texts of the pool are shown too.
    """

    def __init__(self, question: Question, prepared: Container[str] = (), *, passages: bool = False) -> None:
        self._question, self._prepared, self._passages = question, prepared, passages
        self._done: dict[str, dict[str, Any]] = {}
        """Debater -> what it has selected and searched for its next turn."""
        self._before: Round | None = None

    def hear(self, event: events.Event) -> Iterator[str]:
        """The lines that an event completes."""
        match event:
            case events.DebateStarted(pool=pool):
                yield from question_lines(self._question)
                passages = enumerate(pool.passages)
                entries = [PoolEntry(n=n, source=p.source, key=p.key, title=p.title) for n, p in passages]
                yield from pool_lines(entries, pool.partial)
                for n, passage in enumerate(pool.passages if self._passages else ()):
                    yield from ("", f"[{n}] {one_line(passage.title)}", *_indent(passage.text))
            case events.RoundStarted(n=n):
                yield from ("", f"--- round {n} ---")
            case events.CallFinished(purpose=purpose, completion=completion) if purpose.stage in self._prepared:
                text = completion.error or without_reasoning(completion.text)
                yield from prepared_lines(purpose.agent, purpose.stage, text)
            case events.SelectionMade(agent=agent, selection=selection):
                self._done.setdefault(agent, {})["selection"] = selection
            case events.SearchMade(agent=agent, search=search):
                self._done.setdefault(agent, {})["search"] = search
            case events.StanceGiven(agent=agent, stance=stance):
                turn = Turn(agent=agent, stance=stance, **self._done.pop(agent, {}))
                yield from turn_lines(turn, before=self._before)
            case events.RoundEnded(round=entry):
                yield from (*_order_lines(entry), *round_lines(entry, self._before))
                self._before = entry
            case events.DebateFinished(transcript=transcript):
                yield from final_lines(transcript)


def question_lines(question: Transcript | Question) -> Iterator[str]:
    """The question with its choices and gold answers."""
    noun = "Claim" if question.task == "claim" else "Question"
    yield one_line(f"{noun} ({question.id}): {question.question}")
    yield from (f"  ({letter}) {one_line(choice)}" for letter, choice in with_letters(question.choices))
    if question.instructions:
        yield one_line(f"Instructions: {question.instructions}")
    if question.answers:
        yield one_line(f"Gold: {' | '.join(question.answers)}")


def pool_lines(pool: Sequence[PoolEntry], partial: Mapping[str, str]) -> Iterator[str]:
    """The numbered passages, and the sources that failed."""
    if pool:
        yield "Knowledge pool:"
    for p in pool:
        by = one_line(f", found by {p.asked_by} in round {p.round}") if p.asked_by else ""
        yield f"  [{p.n}] {one_line(p.source):<8} {one_line(p.title)}  ({one_line(p.key)}){by}"
    yield from (f"  {source} failed: {one_line(why)}" for source, why in partial.items())


def prepared_lines(agent: str, stage: str, text: str) -> Iterator[str]:
    """A text that a debater prepared before its first turn."""
    yield from (f"{one_line(agent)} prepares {one_line(stage)}:", *_indent(text))


def _order_lines(entry: Round) -> Iterator[str]:
    """The reading order and its scores, unless it is that of the cast."""
    if list(entry.order) != [turn.agent for turn in entry.turns]:
        yield f"Read in the order {one_line(', '.join(entry.order))}"
    if entry.scores:
        yield f"Path consistency: {_figures(entry.scores)}"


def turn_lines(turn: Turn, order: Sequence[str] = (), before: Round | None = None) -> Iterator[str]:
    """Actions and reply of a debater. A reply that equals its reply of the round ``before`` is not repeated."""
    stance, did = turn.stance, ", ".join(_actions(turn, order))
    head = f"{' '.join(filter(None, (one_line(turn.agent), did)))}{_left_out(stance)}"
    text = stance.error or stance.text
    if text and before is not None and text in [t.stance.text for t in before.turns if t.agent == turn.agent]:
        yield f"{head}{',' if did else ''} repeats its reply of round {before.n}"
    else:
        yield from (head, *_indent(text))


def _actions(turn: Turn, order: Sequence[str]) -> Iterator[str]:
    if (chosen := turn.selection) is not None:
        nothing = _NOTHING.get(chosen.status, _NOTHING.get(chosen.rule, "selection failed"))
        yield (f"selects {numbers(chosen.ids)}" if chosen.ids else nothing) + _left_out(chosen)
    if (search := turn.search) is not None:
        result = f"failed: {search.error}" if search.error else numbers(search.ids) or "found nothing"
        yield one_line(f"searches for {search.query!r}: {result}")
    read = list(dict.fromkeys(turn.reads))
    # The usual case, everyone else in the order of the round, is not printed.
    if read and read != [name for name in order if name != turn.agent]:
        yield f"reads {one_line(', '.join(read))}"
    if turn.stance.confidence is not None:
        yield f"confidence {turn.stance.confidence:g}"


_NOTHING: Mapping[str, str] = {
    "unmarked": "selects nothing: no number could be parsed",
    "echoed": "selects nothing: it only gives back its prompt",
    "contradictory": "selects nothing: its conclusions differ",
    "cut": "selects nothing: it was cut off before it named a number",
    "no_found": "finds nothing helpful in the pool",
    "none": "selects nothing: no number could be parsed",
}
"""Status or rule of a selection without passages -> words."""


def round_lines(entry: Round, before: Round | None = None) -> Iterator[str]:
    """Reviews, remarks, verdict, extracted answer and digest of a round. An unchanged verdict takes one line."""
    for turn in entry.turns:
        if (reflection := turn.reflection) is not None:
            yield from _reply(f"{one_line(turn.agent)} is {_SATISFIED[reflection.satisfied]}", reflection)
    for remark in entry.remarks:
        yield from _reply(f"{one_line(remark.role)} remarks", remark)
    if (verdict := entry.verdict) is not None:
        decided = (verdict.side and f", sides with {verdict.side}", verdict.answer and f", answer [{verdict.answer}]")
        head = f"Judge: {_CONSENSUS[verdict.consensus]}{''.join(one_line(part) for part in decided if part)}"
        if before and before.verdict and verdict.text and verdict.text == before.verdict.text:
            yield f"{head}{_left_out(verdict)}, as in round {entry.n - 1}"
        else:
            yield from _reply(head, verdict, verdict.reason)
    if (extracted := entry.extracted) is not None:
        yield from _reply(f"Answer extracted so far: {_answer(extracted.answer, extracted.status)}", extracted)
    if entry.digest is not None:
        yield from _reply("Summary for the next round:", entry.digest)


def final_lines(transcript: Transcript) -> Iterator[str]:
    """The final answer, why the debate ended, and what it used."""
    final = transcript.final
    whose = f", {one_line(final.agent)}'s" if final.agent is not None else ""
    # A tied vote, or a summarized debate that ended split.
    tie = f"  ({'split' if final.by == 'summarizer' else 'tie'})" if final.tie else ""
    answer = _answer(transcript.answer, transcript.reading)
    yield from ("", f"Final answer, by {one_line(final.by)}{whose}: {answer}{tie}{_left_out(final)}")
    if (deferral := transcript.deferral) is not None:
        yield one_line(f"Deferred: {deferral.reason}. It would have answered [{deferral.answer}].")
    if final.scores:
        yield f"    weights: {_figures(final.scores)}"
    yield from _indent(final.error or final.text)
    if transcript.agreement is not None:
        yield from agreement_lines(transcript.agreement)
    if transcript.usage:
        used = transcript.total
        yield f"Ended by: {one_line(transcript.stop_reason)}. {count_of(used.calls, 'call')}, {used.tokens:,} tokens."


_SATISFIED = {
    True: "satisfied with its answer",
    False: "not satisfied with its answer",
    None: "asked whether it is satisfied",
}


def _reply(head: str, called: Called, text: str = "") -> Iterator[str]:
    yield from (f"{head}{_left_out(called)}", *_indent(called.error or text or called.text))


def _answer(answer: str | None, status: str) -> str:
    return f"none ({status})" if answer is None else f"[{one_line(answer)}]"


def _figures(scores: Mapping[str, float]) -> str:
    return one_line(", ".join(f"{name} {score:.4g}" for name, score in scores.items()))


def _left_out(reply: Called) -> str:
    """Stances and passages that did not fit the model's context window."""
    limited = "" if reply.max_tokens is None else f" (context window full: reply limited to {reply.max_tokens} tokens)"
    if (truncated := reply.truncated) is None:
        return limited
    parts = [f"{truncated.stances} stances"] if truncated.stances else []
    parts += [f"passages {numbers(truncated.passages)}"] if truncated.passages else []
    return f" (prompt too long: {' and '.join(parts)} left out){limited}"


def _indent(text: str) -> Iterator[str]:
    yield from (f"{INDENT}{paragraph}" for paragraph in printable(text).splitlines())


def wrap_lines(lines: Iterable[str], width: int = WIDTH) -> Iterator[str]:
    """The lines, with the indented ones wrapped to a width."""
    for line in lines:
        text = line.startswith(INDENT)
        yield from textwrap.wrap(line, width, subsequent_indent=INDENT) if text else [line]


BY = {"judge": "the judge", "matcher": "the task's matcher", "vote": "a vote"}
STATUS = {
    "found": "found",
    "approximate": "found with another spelling",
    "misattributed": "misattributed, found in",
    "stitched": "stitched, from",
    "not_found": "not found",
    "too_short": "too short to look up",
}
"""Status of a quote -> words; two of them are followed by the passages that have it."""
_MAX_ANSWER = 300
"""Characters of an answer in a list."""


def summary(agreement: Agreement) -> str:
    """One line: ``split, by the judge; 1 of 2 dissents``."""
    if agreement.outcome == "single":
        return "one debater, nobody to agree with"
    if not agreement.positions:
        return "no debater gave an answer"
    sizes = len(agreement.dissent), sum(len(each.supporters) for each in agreement.positions) + len(agreement.silent)
    parts = [f"{agreement.outcome}, by {BY[agreement.by]}"]
    parts += [f"{sizes[0]} of {sizes[1]} dissent{'s' if sizes[0] == 1 else ''}"] if sizes[0] else []
    parts += [f"no readable answer from {', '.join(agreement.silent)}"] if agreement.silent else []
    if agreement.outcome == "consensus" and not agreement.same and not agreement.silent:
        parts.append("the answers differ under the task's matcher")
    return one_line("; ".join(parts))


def agreement_lines(agreement: Agreement) -> Iterator[str]:
    """Who agrees, the passages and quotes of each answer, and who changed."""
    yield f"Agreement: {summary(agreement)}."
    for position in agreement.positions:
        answer = shorten(one_line(position.answer), _MAX_ANSWER, placeholder=" ...")
        yield f"  [{answer}] {one_line(', '.join(position.supporters))}{_passages(position)}"
        yield from (f"{INDENT}{line}" for line in map(quote_line, position.quotes))
    for change in agreement.changes:
        yield one_line(f"  {change.agent} changed in round {change.round}: {change.before} -> {change.after}")
    if agreement.cited:
        yield f"Cites {numbers(agreement.cited)}"


def closing_lines(transcript: Transcript) -> Iterator[str]:
    """The answer, who agreed, and the sentences that they quote: the end of a debate that a person has watched."""
    if transcript.answer is None:
        if transcript.status != "deferred":
            yield from ("", "No answer found.")
        return
    agreement = transcript.agreement
    if agreement is not None and agreement.outcome == "split":
        yield from ("", f"Answer ({summary(agreement)}): {one_line(transcript.answer)}")
        for position in agreement.positions:
            yield one_line(f"{', '.join(position.supporters)}: {position.answer}{_passages(position)}")
        return
    yield from ("", f"Answer: {one_line(transcript.answer)}")
    if agreement is None or not agreement.positions:
        return
    first, titles = agreement.positions[0], {entry.n: entry.title for entry in transcript.pool}
    if set(first.supporters) & set(agreement.dissent):  # nobody gave the final answer
        return
    yield f"Agreed: {one_line(', '.join(first.supporters))}"
    quoted = [(quote.passage, quote.text) for quote in first.quotes if quote.status in ("found", "approximate")]
    for n, text in dict.fromkeys(quoted):
        title = "" if n is None else f"[{n}] {titles.get(n, '')}: "
        yield INDENT + one_line(f'{title}"{text}"')


def quote_line(quote: Quote) -> str:
    """A quote with what looking it up gave."""
    where = f" {numbers(quote.found_in)}" if quote.status in ("misattributed", "stitched") else ""
    named = "" if quote.passage is None else f" [{quote.passage}]"
    return one_line(f'{quote.agent}, "{quote.text}"{named}: {STATUS[quote.status]}{where}')


def _passages(position: Position) -> str:
    if not position.passages:
        return ""
    read = f"; read {numbers(position.passages)}"
    if position.containing is None:
        return read
    return f"{read}, the answer appears in {numbers(position.containing) if position.containing else 'none of them'}"


def numbers(ids: Iterable[int]) -> str:
    """Pool numbers as replies have them: ``[0] [3]``."""
    return " ".join(f"[{n}]" for n in ids)


# Maps of disagreements


def maps_of(results: Results) -> Iterator[ConflictMap]:
    """The maps of an arm's debates, with the passages of its pool file if it is there and has not changed.

    Debates without a map have none, nor do those of a task that is not known here.
    """
    record_of = recorded_pools(results.path, results.config)
    for t in results.transcripts():
        record = record_of(t.id) if t.pool else None
        texts = {(p.source, p.key): f"{p.title}\n{p.text}" for p in reversed(record.passages)} if record else {}
        known = {each.n: texts[each.source, each.key] for each in t.pool if (each.source, each.key) in texts}
        try:
            conflicts = conflicts_of(t, get_task(t.task), known if record else None)
        except UserError:
            continue
        if conflicts is not None:
            yield conflicts
