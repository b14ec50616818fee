"""The map of a disagreement in words and as a table, and the passages that it is read from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.conflicts import ConflictMap, HeldPosition, Turnaround, conflicts_of
from madke.report.debate_text import INDENT, numbers, quote_line
from madke.report.tables import Table, TableRow, count_cell, one_line, percent_cell, table_of
from madke.retrieval.pools.pool_file import PoolRecord
from madke.runs.pools import recorded_pools
from madke.scoring.arms import Results
from madke.tasks import get_task


def pool_texts(transcript: Transcript, record: PoolRecord | None) -> Mapping[int, str] | None:
    """Pool number -> title and text, as debaters are looked up in them; None without the pool's record."""
    if record is None or not transcript.pool:
        return None
    held = {(passage.source, passage.key): passage for passage in reversed(record.passages)}
    found = {entry.n: held.get((entry.source, entry.key)) for entry in transcript.pool}
    return {n: f"{passage.title}\n{passage.text}" for n, passage in found.items() if passage is not None}


def map_of(transcript: Transcript, record: PoolRecord | None) -> ConflictMap | None:
    """The map of one debate; None if it has none, or if its task is not known here."""
    try:
        return conflicts_of(transcript, get_task(transcript.task), pool_texts(transcript, record))
    except UserError:
        return None


def maps_of(results: Results) -> Iterator[ConflictMap]:
    """The maps of an arm's debates, with the passages of its pool file if it is there and has not changed."""
    record = recorded_pools(results.path, results.config)
    for transcript in results.transcripts():
        found = map_of(transcript, record(transcript.id))
        if found is not None:
            yield found


def conflict_lines(found: ConflictMap) -> Iterator[str]:
    """One map as text."""
    yield one_line(f"Question ({found.id}): {found.question}")
    yield f"{len(found.positions)} answers; the debate ended with {_OUTCOMES[found.outcome]}."
    for position in found.positions:
        yield from _position_lines(position)
    for each in found.contradictions:
        one, other = (
            f"{one_line(answer)} {numbers(passages)}"
            for answer, passages in zip(each.answers, each.passages, strict=True)
        )
        yield f"  Passages differ: {one} against {other}"
    yield from map(_turnaround_line, found.changes)


_OUTCOMES = {"consensus": "consensus", "split": "different answers", "single": "one debater"}


def _position_lines(position: HeldPosition) -> Iterator[str]:
    held = ", ".join(f"{each.agent} in {_rounds(each.rounds)}" for each in position.held)
    final = " (final)" if position.final else ""
    yield f"  [{one_line(position.answer)}]{final} {one_line(held)}{_stands(position)}"
    yield from (f"{INDENT}{line}" for line in map(quote_line, position.quotes))


def _rounds(rounds: Sequence[int]) -> str:
    return f"round{'s' if len(rounds) > 1 else ''} {', '.join(map(str, rounds))}"


def _stands(position: HeldPosition) -> str:
    if position.containing is None:
        return ""
    if not position.containing:
        return "; appears in no passage"
    return f"; appears in {numbers(position.containing)} of {one_line(', '.join(position.sources))}"


def _turnaround_line(each: Turnaround) -> str:
    change = each.change
    why = [f"{', '.join(each.read)} had said so" if each.read else "", f"{numbers(each.passages)} says so"]
    causes = " and ".join(filter(None, why if each.passages else why[:1])) or "nothing that it newly read says so"
    return "  " + one_line(
        f"{change.agent} changed in round {change.round}: {change.before} -> {change.after}; {causes}"
    )


@dataclass
class ConflictCounts:
    """Counts over the maps of one arm."""

    debates: int = 0
    conflicts: int = 0
    contradictions: int = 0
    split: int = 0
    changes: int = 0
    after_peers: int = 0
    after_passages: int = 0
    quotes: int = 0
    found: int = 0

    def add(self, found: ConflictMap) -> None:
        """Count one more map."""
        quotes = [quote for position in found.positions for quote in position.quotes]
        self.debates += 1
        self.conflicts += found.is_conflict
        self.contradictions += bool(found.contradictions)
        self.split += found.outcome == "split"
        self.changes += len(found.changes)
        self.after_peers += sum(bool(each.read) for each in found.changes)
        self.after_passages += sum(bool(each.passages) for each in found.changes)
        self.quotes += len(quotes)
        self.found += sum(quote.status in ("found", "approximate") for quote in quotes)


def conflict_table(counts: Mapping[str, ConflictCounts]) -> Table:
    """How often debaters differ, and what goes with changes of their answers."""
    rows: list[TableRow] = [
        {
            "run": name,
            "debates": count_cell(each.debates),
            "several answers": count_cell(each.conflicts),
            "passages differ": count_cell(each.contradictions),
            "ended split": count_cell(each.split),
            "changes": count_cell(each.changes),
            "after a peer %": percent_cell(each.after_peers / each.changes if each.changes else None),
            "after a passage %": percent_cell(each.after_passages / each.changes if each.changes else None),
            "quotes": count_cell(each.quotes),
            "found %": percent_cell(each.found / each.quotes if each.quotes else None),
        }
        for name, each in counts.items()
    ]
    return table_of("Disagreements", rows, [_NOTE])


_NOTE = (
    "several answers: debates in which more than one answer was given. passages differ: two of them appear in "
    "passages. changes: debaters that changed their answer; after a peer: the debater had read the new answer in a "
    "stance; after a passage: it named a passage that contains the new answer, and had not before. quotes: looked up; "
    "found: as they are or with another spelling."
)
