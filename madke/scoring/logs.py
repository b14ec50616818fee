"""Right or wrong for each question, from the logs of other tools: Inspect, lm-evaluation-harness, any JSON Lines."""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from madke._util.assets import require
from madke._util.files import read_jsonl
from madke.core.errors import UserError
from madke.core.question import Question
from madke.runs.directory import read_transcripts
from madke.scoring.debate_rows import correct
from madke.tasks import get_task

_GRADES: Mapping[object, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "no": 0.0, True: 1.0, False: 0.0}
"""What Inspect's scorers write, and their numbers."""
_METRICS = ("exact_match", "acc", "em", "f1")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d+-]+_|_\d{4}-\d\d-\d\dT[\d.+-]+(?=\.jsonl$)")
"""As in ``2026-11-28T13-57-39+00-00_task_ID.eval`` and ``samples_task_2026-11-28T13-57-39.930594.jsonl``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """The results of one system."""

    name: str
    path: Path
    right: Mapping[str, float]
    """Question -> its share of right answers, from 0 to 1; several answers to a question are averaged."""
    cost: Mapping[str, float]
    """``calls``, ``tokens`` and ``cost`` of all answers, as far as the log tells."""


def is_log(path: Path) -> bool:
    """Whether a path is a log that :func:`read_log` reads, by its name."""
    return path.is_file() and path.suffix in (".eval", ".json", ".jsonl")


def read_logs(paths: Sequence[Path]) -> list[Log]:
    """The logs and run directories at some paths; each is named by what tells its path from the others.

    Names leave out the time that lm-eval and Inspect write into names of files, if they differ without it.
    """
    whole = list(dict.fromkeys(path.absolute() for path in paths))
    short = [path.with_name(_TIME.sub("", path.name) or path.name) for path in whole]
    named = short if len({*short}) == len(whole) else whole
    depth = 1
    while len({path.parts[-depth:] for path in named}) < len(whole):
        depth += 1
    return [read_log(path, "/".join(name.parts[-depth:])) for path, name in zip(whole, named, strict=True)]


def read_log(path: Path, name: str = "") -> Log:
    """The results in one log: a run of madke, an Inspect log, lm-eval's samples, or other JSON Lines.

    The first scorer of Inspect counts, and lm-eval's first filter and metric; its questions are named by the ``id`` of
    their document, else by ``doc_id``. Other lines have ``id`` and ``right`` (true, false, or 0 to 1), or ``id``,
    ``answer`` and ``gold``, which madke's matcher of short answers compares. UserError if a line lacks what is needed.
    """
    if not path.exists():
        raise UserError("no such file or run", file=path)
    if path.is_dir():
        rows: Iterable[_Row] = (
            (each.id, right, {"calls": each.total.calls, "tokens": each.total.tokens})
            for each in read_transcripts(path)
            if (right := correct(each)) is not None
        )
    else:
        rows = _inspect(path) if path.suffix in (".eval", ".json") else _lines(path)
    answers: dict[str, list[float]] = {}
    cost: dict[str, float] = {}
    for id_, right, spent in rows:
        answers.setdefault(id_, []).append(right)
        for what, amount in spent.items():
            cost[what] = cost.get(what, 0) + amount
    if not answers:
        raise UserError("holds no question with a result", file=path)
    return Log(name=name or path.name, path=path, right={id_: fmean(each) for id_, each in answers.items()}, cost=cost)


_Row = tuple[str, float, Mapping[str, float]]
"""Question, share right, cost."""


def _inspect(path: Path) -> Iterator[_Row]:
    try:
        if path.suffix == ".json":
            log = json.loads(path.read_bytes())
            samples = log.get("samples") if isinstance(log, dict) else None
        else:
            with zipfile.ZipFile(path) as whole:
                names = [name for name in whole.namelist() if name.startswith("samples/") and name.endswith(".json")]
                samples = [json.loads(whole.read(name)) for name in sorted(names)]
    except NotImplementedError:  # Zstandard, which newer versions of Inspect write
        require("Logs of this version of Inspect need", "inspect", "inspect_ai")
        from inspect_ai.log import read_eval_log

        samples = [each.model_dump() for each in read_eval_log(str(path)).samples or ()]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"is not a log of Inspect: {error}", file=path) from None
    if not isinstance(samples, list) or not all(isinstance(each, dict) and "id" in each for each in samples):
        raise UserError("is not a log of Inspect: it has no samples with an id", file=path)
    for sample in samples:
        scores = sample.get("scores") or {}
        usage = (sample.get("model_usage") or {}).values()
        tokens = sum(each.get("total_tokens") or 0 for each in usage if isinstance(each, dict))
        first = next(iter(scores.values()), None) if isinstance(scores, dict) else None
        if isinstance(first, dict):  # else an error, or a sample that was not scored
            yield str(sample["id"]), _share(first.get("value"), path), {"tokens": tokens} if tokens else {}


def _lines(path: Path) -> Iterator[_Row]:
    chosen: object = None
    for number, item in read_jsonl(path):
        if "doc_id" in item:  # lm-eval's; the other filters read the same reply in another way
            chosen = item.get("filter") if chosen is None else chosen
            if item.get("filter") != chosen:
                continue
            # Older versions do not name the metrics.
            known = [item[name] for name in item.get("metrics", _METRICS) if name in item]
            if not known:
                raise UserError("expected 'metrics', and a value for the first of them", file=path, line=number)
            document = item.get("doc")
            id_ = document.get("id") if isinstance(document, dict) else None
            yield str(id_ if isinstance(id_, str | int) else item["doc_id"]), _share(known[0], path, number), {}
            continue
        if "id" not in item or not ("right" in item or {"answer", "gold"} <= item.keys()):
            keys = ", ".join(map(repr, item))
            hint = "; for predictions, give the questions with --data" if {"answer", "output"} & item.keys() else ""
            expected = "expected 'id' with 'right', or with 'answer' and 'gold', or lm-eval's 'doc_id'"
            raise UserError(f"{expected}, found {keys}{hint}", file=path, line=number)
        if "right" in item:
            right = _share(item["right"], path, number)
        else:
            answer = str("" if item["answer"] is None else item["answer"])
            golds = item["gold"] if isinstance(item["gold"], list) else [item["gold"]]
            question = Question(
                id=str(item["id"]), question=str(item.get("question") or "?"), answers=tuple(map(str, golds))
            )
            right = float(bool(answer.strip()) and get_task("short_answer").accepts(answer, question))
        spent = {what: item[what] for what in ("calls", "tokens", "cost") if isinstance(item.get(what), int | float)}
        yield str(item["id"]), right, spent


def _share(value: object, path: Path, number: int | None = None) -> float:
    if isinstance(value, str | bool) and value in _GRADES:
        return _GRADES[value]
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    raise UserError(f"found {value!r}, expected right or wrong, or a share from 0 to 1", file=path, line=number)
