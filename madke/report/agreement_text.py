"""How a debate ended, in words: the same on the terminal, in headers, in tables and for MCP clients."""

from collections.abc import Iterator
from textwrap import shorten

from madke.core.agreement import Agreement, Position, Quote
from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.evidence import recorded_agreement
from madke.report.tables import one_line
from madke.tasks import get_task

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
INDENT = " " * 4
_LONGEST = 300
"""Characters of an answer in a list."""


def agreement_in(transcript: Transcript) -> Agreement | None:
    """The agreement of a transcript, also of one that an older version wrote; None if there is none or no such task."""
    try:
        return recorded_agreement(transcript, get_task(transcript.task))
    except UserError:
        return transcript.agreement


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
        answer = shorten(one_line(position.answer), _LONGEST, placeholder=" ...")
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
    agreement = agreement_in(transcript)
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
    return f"{read}, the answer stands in {numbers(position.containing) if position.containing else 'none of them'}"


def numbers(ids: tuple[int, ...]) -> str:
    """Pool numbers as they stand in replies: ``[0] [3]``."""
    return " ".join(f"[{n}]" for n in ids)


def header(agreement: Agreement) -> str:
    """The value of an HTTP header: ``split; by=judge; answers=2; dissent=1``."""
    counts = f"answers={len(agreement.positions)}; dissent={len(agreement.dissent)}"
    return f"{agreement.outcome}; by={agreement.by}; {counts}"
