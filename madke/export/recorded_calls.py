"""The calls that a run made itself, from its call store."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from madke.core.transcript import Transcript
from madke.models.store import CallStore, Recorded
from madke.runs.record import run_files, sessions_of
from madke.scoring.arms import Results
from madke.scoring.scores import RETRIEVAL_STAGES


def recorded_calls(arm: Results) -> Iterator[Recorded]:
    """In the order of writing; none if the call store is gone, or for predictions."""
    if not arm.path.is_dir() or not (file := run_files(arm.path).calls).is_file():
        return
    # In the store that the arms of an experiment share, calls carry the name of their arm.
    shared = file.resolve().parent != arm.path.resolve()
    with CallStore(file) as store:
        yield from store.recorded(payer=arm.path.resolve().name if shared else "")


def debates_with_calls(arm: Results) -> Iterator[tuple[Transcript, Sequence[Recorded]]]:
    """Each debate with its own calls by round, those of its pool first. The calls of a whole run are held in memory."""
    calls: dict[str, list[Recorded]] = {}
    for call in recorded_calls(arm):
        calls.setdefault(call.purpose.question, []).append(call)
    for transcript in arm.transcripts():
        own = (call for call in calls.get(transcript.id, ()) if _is_of_debate(call, transcript))
        yield transcript, sorted(own, key=_round_of)


def _round_of(call: Recorded) -> int:
    return 0 if call.purpose.stage in RETRIEVAL_STAGES else call.purpose.round


def _is_of_debate(call: Recorded, transcript: Transcript) -> bool:
    """Whether a stored call is one of those that the transcript counts; stores also hold searches and grades."""
    # Repeats read one pool, and each counts the calls that it took.
    shared = call.purpose.stage in RETRIEVAL_STAGES
    return call.purpose.stage in transcript.usage and (shared or call.purpose.repeat == transcript.repeat)


def first_start(arm: Results) -> datetime:
    """The start of the run's first command; the beginning of 1970 if it is not known."""
    sessions = sessions_of(arm.path) if arm.path.is_dir() else ()
    try:
        return datetime.fromisoformat(str(sessions[0]["started"])).astimezone(UTC)
    except (IndexError, KeyError, ValueError):
        return datetime.fromtimestamp(0, UTC)
