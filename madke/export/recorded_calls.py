"""The calls that a run made itself, from its call store: as they are, or laid out in time by debate."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from madke.core.transcript import Transcript
from madke.export.spans import TimedCall, is_of_debate, laid_out
from madke.llm import CallStore
from madke.llm.store_file import Recorded
from madke.runs.spec import run_files, sessions_of
from madke.scoring.arms import Results


def recorded_calls(arm: Results) -> Iterator[Recorded]:
    """In the order of writing; none if the call store is gone, or for predictions."""
    if not arm.path.is_dir() or not (file := run_files(arm.path).calls).is_file():
        return
    # In the store that the arms of an experiment share, calls carry the name of their arm.
    shared = file.resolve().parent != arm.path.resolve()
    with CallStore(file) as store:
        yield from store.recorded(payer=arm.path.resolve().name if shared else "")


def debates_with_calls(arm: Results, *, text: bool) -> Iterator[tuple[Transcript, Sequence[TimedCall]]]:
    """Each debate with its own calls, laid out from their durations; without ``text``, calls have no texts."""
    calls: dict[str, list[TimedCall]] = {}
    for call in recorded_calls(arm):
        timed = TimedCall(
            purpose=call.purpose,
            # Without texts that nobody asked for: the calls of a whole run are held here.
            completion=call.completion if text else replace(call.completion, text="", reasoning=""),
            model=call.model,
            messages=call.messages if text else (),
        )
        calls.setdefault(call.purpose.question, []).append(timed)
    for transcript in arm.transcripts():
        own = [call for call in calls.get(transcript.id, ()) if is_of_debate(call.purpose, transcript)]
        debaters = {turn.agent for each in transcript.rounds for turn in each.turns}
        yield transcript, laid_out(own, debaters)


def first_start(arm: Results) -> int:
    """The start of the run's first command, in nanoseconds of Unix time; 0 if it is not known."""
    sessions = sessions_of(arm.path) if arm.path.is_dir() else ()
    try:
        return int(datetime.fromisoformat(str(sessions[0]["started"])).timestamp()) * 1_000_000_000
    except (IndexError, KeyError, ValueError):
        return 0
