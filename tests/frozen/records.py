"""The records of the frozen debates: how they are made, kept and compared."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import madke
from madke.core.errors import UserError
from madke.core.events import Event
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.scoring.debate_rows import DebateMeasures
from tests.frozen.lemmas_call import recorded_call
from tests.frozen.runs import (
    SCORED,
    SHIPPED,
    FrozenRun,
    LiveSource,
    answer_scorer,
    has_pool,
    question,
    runs_of,
    write_first_rounds,
    write_pools,
)
from tests.frozen.script import ScriptedModel, short_hash

FOLDER = Path(__file__).parent
LEMMAS_CALL = "lemmas-call"
PROTOCOLS = (*SHIPPED, LEMMAS_CALL)
"""What has a record: the shipped protocols, and the call :func:`madke.debate`."""

Record = dict[str, list[str]]
"""Debate -> its lines: one for each call, then its outcome."""


def recorded(protocol: str, texts: dict[str, str]) -> Record:
    """The record of all frozen debates of a protocol. ``texts`` is filled with what each hash of a call stands for."""
    if protocol == LEMMAS_CALL:
        return recorded_call(texts)
    found: Record = {}
    for name, run in runs_of(protocol):
        with TemporaryDirectory() as folder:
            found |= _record_of(f"{protocol} {name}", protocol, run, Path(folder), texts)
    return found


def _record_of(name: str, protocol: str, run: FrozenRun, folder: Path, texts: dict[str, str]) -> Record:
    model = ScriptedModel(protocol=protocol, debates=run.debates, takes_schemas=run.takes_schemas)
    events: list[Event] = []
    asked = dict(_asked(protocol, run, folder, model))
    questions = [question(id_, each) for id_, each in run.debates.items()]
    try:
        if run.streamed:
            transcripts = [_streamed(each, events, protocol=protocol, model=model, **asked) for each in questions]
        else:
            done = madke.run(questions, protocol=protocol, model=model, listen=events.append, signals=False, **asked)
            transcripts = [*done.transcripts()]
    except UserError:
        return {name: ["refused"]}
    found: Record = {}
    for transcript in sorted(transcripts, key=lambda each: (list(run.debates).index(each.id), each.repeat)):
        repeat = f" repeat {transcript.repeat}" if run.repeats > 1 else ""
        own = [call for call in model.calls if (call["question"], call["repeat"]) == (transcript.id, transcript.repeat)]
        heard = [each for each in events if (each.question, each.repeat) == (transcript.id, transcript.repeat)]
        lines = (*_calls(own, texts), *_outcome(transcript), *_events(heard))
        found[f"{name} {transcript.id}{repeat}"] = [line.replace("Debater ", "D") for line in lines]
    return found


def _streamed(asked: Question, events: list[Event], **options: Any) -> Transcript:
    """The transcript of one debate that is watched while its replies arrive."""

    async def watched() -> list[Event]:
        return [event async for event in madke.stream(asked, deltas=True, **options)]

    heard = asyncio.run(watched())
    events += heard
    return next(event.transcript for event in heard if isinstance(event, madke.events.DebateFinished))


def _asked(protocol: str, run: FrozenRun, folder: Path, model: ScriptedModel) -> Iterator[tuple[str, Any]]:
    yield "settings", run.settings
    if not run.streamed:
        yield "repeats", run.repeats
    pool = has_pool(protocol) if run.pool is None else run.pool
    if pool and not run.streamed:
        write_pools(folder / "pools.jsonl", run.debates)
        yield "pools", folder / "pools.jsonl"
    if protocol == "madke-live" or (pool and run.streamed):
        yield "sources", [LiveSource(name, model.searched) for name in ("wiki", "google")]
    elif pool and not has_pool(protocol):
        yield "sources", "wiki,google"
    if any(each.first_round for each in run.debates.values()):
        write_first_rounds(folder / "first_round.jsonl", run.debates)
        yield "first_round", folder / "first_round.jsonl"
    if protocol in SCORED:
        yield "answer_scorer", answer_scorer(folder)


def _calls(calls: Sequence[Mapping[str, Any]], texts: dict[str, str]) -> Iterator[str]:
    """A line for each call: its place, then temperature, seed, and hashes of the prompt and of a stand-in's values."""
    for call in sorted(calls, key=lambda each: (each["round"], each["stage"], each["agent"], each["sample"])):
        shown, values = short_hash(call["text"])[:8], short_hash(call["values"])[:4]
        texts[shown] = f"{call['text']}\n--- values\n{call['values']}"
        sample = f" sample {call['sample']}" if call["sample"] else ""
        place = f"{call['round']} {call['stage']} {call['agent']}{sample}"
        yield f"{place}: {call['temperature']} {call['seed']} {shown} {values}"


def _outcome(transcript: Transcript) -> Iterator[str]:
    """What came of the debate: its rounds, turn by turn, its end, and what it used."""
    for entry in transcript.rounds:
        by = {name: round(score, 6) for name, score in entry.scores.items()}
        yield f"round {entry.n}: {', '.join(entry.order)}{f' {by}' if by else ''}"
        for turn in entry.turns:
            shown = [f"{turn.agent} {turn.stance.stage}{_short(turn.stance)}"]
            shown += [f"reads {', '.join(turn.reads)}"] if turn.reads else []
            shown += [f"selects{_short(turn.selection)}"] if turn.selection else []
            shown += [f"searches{_short(turn.search)}"] if turn.search else []
            shown += [f"reviews {turn.reflection.satisfied}{_short(turn.reflection)}"] if turn.reflection else []
            shown += [f"used {_usage(turn.usage)}"] if turn.usage is not None else []
            yield "; ".join(shown)
        if entry.verdict is not None:
            yield f"verdict {entry.verdict.consensus}{_short(entry.verdict)}"
        if entry.digest is not None:
            yield f"digest{_short(entry.digest)}"
        if entry.extracted is not None:
            yield f"extracted{_short(entry.extracted)}"
    yield f"final{_short(transcript.final)}"
    scores = DebateMeasures(transcript).row
    measures = [f"{name} {scores[name]:.3g}" for name in MEASURES if name in scores]
    flags = [name for name in ("degraded", "oracle", "first_round_given") if getattr(transcript, name)]
    yield ", ".join((f"{transcript.status} {transcript.answer!r}", transcript.stop_reason, *measures, *flags))
    yield from (f"prepared {name}: {dict(texts)}" for name, texts in transcript.prepared.items())
    found = [f"{each.n} {each.source} for {each.asked_by} in {each.round}" for each in transcript.pool if each.asked_by]
    yield f"pool of {len(transcript.pool)}{': ' if found else ''}{'; '.join(found)}"
    yield "used " + ", ".join(f"{stage} {_usage(usage)}" for stage, usage in sorted(transcript.usage.items()))
    if (agreement := transcript.agreement) is not None:
        groups = [
            f"{each.answer!r} of {', '.join(each.supporters)} in {[*each.passages]}" for each in agreement.positions
        ]
        ends = [f"{name} {', '.join(map(str, found))}" for name in _ENDS if (found := getattr(agreement, name))]
        yield "; ".join((f"agreement {agreement.outcome} by {agreement.by}", *groups, *ends))


MEASURES = ("em", "f1", "match", "accuracy")
_ENDS = ("silent", "dissent", "cited")


def _short(part: Any) -> str:
    """The fields of a part of a transcript that are not empty; a text as its hash."""
    names = ("by", "answer", "agent", "side", "tie", "scores", "confidence", "ids", "dropped", "query", "error")
    fields = {name: getattr(part, name, None) for name in (*names, "truncated", "cut", "bound")}
    if (status := getattr(part, "status", "ok")) != "ok":
        fields["status"] = status
    if (text := getattr(part, "text", "")) and type(part).__name__ in ("Stance", "Final"):
        fields["text"] = short_hash(text)[:4]
    return "".join(f" {name} {_plain(value)}" for name, value in fields.items() if value not in (None, (), {}, False))


def _plain(value: Any) -> str:
    if hasattr(value, "stances"):  # a truncation
        return f"{value.stances} stances {[*value.passages]}"
    if isinstance(value, Mapping):
        return str({name: round(score, 6) for name, score in value.items()})
    return str([*value]) if isinstance(value, tuple) else str(value)


def _usage(usage: Any) -> str:
    counts = ("calls", "failed", "bound", "prompt_tokens", "completion_tokens", "distinct_tokens")
    return "/".join(str(getattr(usage, name)) for name in counts)


_BETWEEN = {
    "CallStarted": "calls",
    "CallFinished": "replies",
    "CallDelta": "parts",
    "SelectionMade": "selections",
    "SearchMade": "searches",
    "StanceGiven": "stances",
}
_STEPS = {"DebateStarted": "start", "RoundStarted": "round", "VerdictGiven": "verdict", "RoundEnded": "end"}


def _events(events: Sequence[Event]) -> Iterator[str]:
    """What listeners hear. Calls and turns come in any order between two steps of the debate, so they are counted."""
    steps: list[str] = []
    between: dict[str, int] = {}
    for event in events:
        kind = type(event).__name__
        if kind in _BETWEEN:
            between[_BETWEEN[kind]] = between.get(_BETWEEN[kind], 0) + 1
            continue
        if between.get("calls") == between.get("replies"):
            between.pop("replies", None)
        steps += [" ".join(f"{count} {name}" for name, count in sorted(between.items()))] if between else []
        between = {}
        steps.append(_STEPS.get(kind, kind))
    yield f"heard {', '.join(steps)}"


def file_of(protocol: str) -> Path:
    """The file that keeps a protocol's record."""
    return FOLDER / f"{protocol}.json"


def kept(protocol: str) -> Record:
    """The record as it is kept; empty if there is none."""
    file = file_of(protocol)
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def keep(protocol: str, record: Record) -> None:
    """Write a record, a line for each call, so that a diff shows which calls changed."""
    text = json.dumps(record, indent=0, ensure_ascii=False)
    file_of(protocol).write_text(text + "\n", encoding="utf-8")


def differences(old: Record, new: Record) -> list[str]:
    """The lines that differ, under the name of their debate; ``-`` was, ``+`` is."""
    found: list[str] = []
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name, []), new.get(name, [])
        if was != now:
            found.append(f"{name}:")
            found += [f"- {line}" for line in was if line not in now]
            found += [f"+ {line}" for line in now if line not in was]
    return found


def prompts_of(changed: Sequence[str], texts: Mapping[str, str], most: int) -> str:
    """The whole prompts of the first calls in lines of :func:`differences`."""
    found = {line: word for line in changed for word in line.split() if word in texts}
    return "\n".join(f"\n===== {line}\n{texts[word]}" for line, word in [*found.items()][:most])
