"""Debates over a pool of three passages, and run directories with that pool."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from madke.core.transcript import Final, PoolEntry, Round, Selection, StageUsage, Stance, Transcript, Turn, Verdict
from madke.engine.protocol import as_protocol
from tests.data.published import write
from tests.support import run_folder
from tests.support.transcripts import transcript

PASSAGES = [
    {"source": "wiki", "key": "baikal-1", "title": "Lake Baikal", "text": "Lake Baikal is 1,642 metres deep."},
    {"source": "wiki", "key": "tanganyika-1", "title": "Lake Tanganyika", "text": "It is 1,470 metres deep."},
    {
        "source": "google",
        "key": "https://lakes.example/deep",
        "title": "Deep lakes",
        "text": "Baikal is the deepest of all. " * 12,
        "url": "https://lakes.example/deep",
        "date": "2024-05-01",
    },
]


def debate(
    id_: str,
    *rounds: Sequence[str | None],
    answer: Any = ...,
    golds: tuple[str, ...] = ("Lake Baikal",),
    consensus: bool = True,
    dataset: str = "lakes",
    **changes: Any,
) -> Transcript:
    """A debate in whose rounds the debaters said these answers (None: unreadable); the last majority is its answer."""
    names = [f"Debater {n}" for n in range(1, len(rounds[0]) + 1)]
    played = []
    for n, said in enumerate(rounds, start=1):
        verdict = Verdict(consensus=consensus and n == len(rounds), text=f"I compared what was said in round {n}.")
        turns = tuple(turn(name, text, n) for name, text in zip(names, said, strict=True))
        played.append(Round(n=n, order=tuple(names), turns=turns, verdict=verdict))
    final = rounds[-1][0] if answer is ... else answer
    fields = {
        "question": f"Which lake is the deepest, in survey {id_}?",
        "rounds": tuple(played),
        "final": Final(by="summarizer", answer=final, status="ok" if final else "abstained", text=f"They say {final}."),
        "pool": tuple(
            PoolEntry(n=n, source=p["source"], key=p["key"], title=p["title"]) for n, p in enumerate(PASSAGES)
        ),
        "metadata": {"dataset": dataset},
        "usage": {"speak": StageUsage(calls=2, paid=1, prompt_tokens=1000, completion_tokens=100)},
    }
    return transcript(id_, said=[], consensus=consensus, answer=final, golds=golds, **{**fields, **changes})


def turn(name: str, said: str | None, n: int) -> Turn:
    """Debater 1 chooses passage 0, the others 1 and 2."""
    stance = Stance(text=f"In round {n} I say [{said}].", answer=said, status="ok" if said else "abstained")
    ids = (0,) if name.endswith("1") else (1, 2)
    return Turn(agent=name, stance=stance, selection=Selection(ids=ids, text="These help."))


def write_run(
    path: Path,
    transcripts: Sequence[Transcript],
    *,
    passages: Sequence[dict[str, str]] = PASSAGES,
    pools: Path | None = None,
    **changes: Any,
) -> Path:
    """A run directory with these transcripts, and a pool file that gives each question the same passages.

    ``pools``: where that file is, by default in the directory; ``changes``: of the configuration.
    """
    questions = {transcript.id: transcript.question for transcript in transcripts}
    lines = [{"id": id_, "question": text, "passages": passages} for id_, text in questions.items()]
    file = write(pools or path / "pools.jsonl", lines)
    fields = {
        "data": "lakes.jsonl",
        "models": {"debater-1": "scripted/a", "judge": "scripted/b"},
        "protocol": as_protocol({"function": "madke", "source": "a test", "sources": ["wiki", "google"]}),
    }
    return run_folder.write_run(path, *transcripts, pools=file, **{**fields, **changes})
