"""The calls that a run made itself, from its call store."""

from collections.abc import Iterator

from madke.llm import CallStore
from madke.llm.store_file import Recorded
from madke.runs.spec import run_files
from madke.scoring.arms import Results


def recorded_calls(arm: Results) -> Iterator[Recorded]:
    """In the order of writing; none if the call store is gone, or for predictions."""
    if not arm.path.is_dir() or not (file := run_files(arm.path).calls).is_file():
        return
    # In the store that the arms of an experiment share, calls carry the name of their arm.
    shared = file.resolve().parent != arm.path.resolve()
    with CallStore(file) as store:
        yield from store.recorded(payer=arm.path.resolve().name if shared else "")
