"""What the benchmarks share: generated text, processes of their own, and their results."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice, product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from madke._util.assets import asset
from madke._util.files import atomic_write, read_jsonl
from madke.retrieval.indexes.index_folder import StoredPassage

T = TypeVar("T")

BENCHMARKS = {
    "first_answer": "commands",
    "calls": "runs",
    "bm25": "search",
    "dense": "search",
}
"""Name of a benchmark -> the module with the function of this name, which yields its results."""

_WORDS_EACH = 100
_VOCABULARY = 200_000
_BLOCK = 1_000
_SYLLABLES = [consonant + vowel for consonant, vowel in product("bdfgklmnprst", "aeiou")]
_POLL = 0.02


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all benchmarks of one command have in common."""

    folder: Path
    """For corpora and indexes, which several benchmarks use."""
    quick: bool = False
    """Small sizes, which show that a benchmark works and say nothing about speed."""


def generated_corpus(folder: Path, count: int) -> Path:
    """A JSON Lines corpus of ``count`` passages of 100 words each, made once; a smaller one is a larger one's start.

    Word frequencies follow Zipf and Mandelbrot, 1 / (rank + 2.7) over 200,000 words: the words of the sample corpus by
    their own frequency, then made-up ones.
    """
    path = folder / f"passages-{count}.jsonl"
    if not path.exists():
        with atomic_write(path) as file:
            file.writelines(json.dumps(passage._asdict()).encode() + b"\n" for passage in _generated(count))
    return path


def _generated(count: int) -> Iterator[StoredPassage]:
    words = _vocabulary()
    ranks = np.arange(1, len(words) + 1)
    shares = np.cumsum(1 / (ranks + 2.7))
    for start in range(0, count, _BLOCK):
        random = np.random.default_rng(start)
        drawn = words[np.searchsorted(shares, random.random((_BLOCK, _WORDS_EACH)) * shares[-1])]
        for number, text in enumerate(drawn[: count - start].tolist(), start=start):
            yield StoredPassage(str(number), " ".join(text[:2]), " ".join(text))


@cache
def _vocabulary() -> Any:
    """An array of words, the most frequent first."""
    sample = (str(item["text"]).split() for _, item in read_jsonl(asset("indexes", "sample", "passages.jsonl")))
    known = [word for word, _ in Counter(word for text in sample for word in text).most_common()]
    made_up = ("".join(reversed(syllables)) for syllables in product(_SYLLABLES, repeat=3))
    return np.array([*known, *islice(made_up, _VOCABULARY - len(known))], dtype=object)


def in_own_process(function: Callable[..., T], *arguments: object) -> tuple[T, int]:
    """What the function returns in a fresh process, and the most bytes of anonymous memory (RssAnon) that it had.

    Read fifty times a second. Pages of mapped files do not count: the system takes them back when it needs room.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(theirs, function, *arguments))
    process.start()
    theirs.close()
    peak = 0
    while not ours.poll(_POLL):
        peak = max(peak, _anonymous_memory(process.pid))
    try:
        return ours.recv(), peak
    except EOFError:
        raise RuntimeError(f"{function.__module__}.{function.__qualname__} failed; its process said why") from None
    finally:
        process.join()
        ours.close()


def _send_result(pipe: Connection, function: Callable[..., object], *arguments: object) -> None:
    pipe.send(function(*arguments))


def _anonymous_memory(process: int | None) -> int:
    """Bytes of memory that a process holds and that no file backs; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    name: str
    ours: str
    baseline: str = ""
    ratio: float | None = None
    aim: str = ""
    met: bool | None = None

    def __str__(self) -> str:
        parts = [self.ours, self.baseline, "" if self.ratio is None else f"ratio {self.ratio:.2f}"]
        verdict = f" (aim {self.aim}: {'met' if self.met else 'missed'})" if self.aim else ""
        return f"{self.name}: {', '.join(filter(None, parts))}{verdict}"


def results_of(name: str, setting: Setting) -> list[Result]:
    """Run a benchmark in this process, print each result, and return all."""
    found = []
    for result in getattr(import_module(f"eval.benchmarks.{BENCHMARKS[name]}"), name)(setting):
        print(result, flush=True)
        found.append(result)
    return found


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
