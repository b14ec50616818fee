"""A protocol: a function over the steps of a debate, with values for its parameters; simulated and real debates."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

from pydantic import BeforeValidator, SerializeAsAny, create_model

from madke._util.concurrency import run_coroutine
from madke.core import events
from madke.core.chat import fields_of
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.registry import qualified_name
from madke.core.transcript import Called, Final, StageUsage, Stance, Transcript, Turn, outcome
from madke.engine import protocols
from madke.engine.agreement import Evidence, agreement_of
from madke.engine.parse.reply import NO_CONTEXT
from madke.engine.scene import Scene, StageReply
from madke.engine.settings import NON_DEBATERS, STAGES, Knowledge, Settings
from madke.engine.steps import Debate
from madke.tasks.base import BaseTask

ProtocolFunction = Callable[..., Awaitable[Final]]
"""``async def NAME(debate, *, parameter: type = default, ...) -> Final``."""


class SimulatedCall(NamedTuple):
    """A call of a simulated debate."""

    stage: str
    agent: str
    round: int
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A debate in one of the two worlds."""

    calls: tuple[SimulatedCall, ...] = ()
    rounds: int = 0
    by: str = ""
    stop_reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What the simulation of a protocol found out."""

    agree: World = World()
    differ: World = World()
    samples: bool = False
    """Whether all rounds are samples of one vote."""
    compares: str | None = None
    """The first step that compares answers, so that they cannot be texts."""
    weighs: bool = False
    """Whether answers are weighed by confidence, so that stances state one."""
    decides: bool = False
    """Whether the judge decides on the answer."""
    needs_golds: str | None = None
    """The order that uses gold answers: the debate is then an analysis, not a prediction."""
    needs_answer_scorer: bool = False
    shown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that need a template: those of debaters and other roles, in the order of a debate."""
        names = dict.fromkeys(call.stage for call in (*self.differ.calls, *self.agree.calls))
        own = [stage for stage in names if stage not in STAGES]
        # A debater that has read nothing speaks, in whichever round.
        return (*own, *(stage for stage in STAGES if stage in names or stage == "speak"))

    @property
    def other_roles(self) -> tuple[str, ...]:
        """The roles that are no debaters, judge and summarizer first."""
        stages, remarks = {*self.stages}, [call for call in self.differ.calls if call.stage == call.agent]
        judge = ["judge"] if stages & {"judge", "extract", "pick"} else []
        summarizer = ["summarizer"] if stages & {"digest", "summarize"} else []
        others = [call.agent for call in remarks if call.agent not in NON_DEBATERS]
        return (*judge, *summarizer, *dict.fromkeys(others))

    @property
    def calls(self) -> tuple[int, int]:
        """The fewest and the most calls of a question, if all succeed."""
        counts = (len(self.agree.calls), len(self.differ.calls))
        return min(counts), max(counts)

    @property
    def talks(self) -> bool:
        """Whether anybody reads anything: else it is a vote already."""
        return any(call.stage == "reply" for call in self.differ.calls)


class Protocol(Settings, frozen=True, extra="forbid"):
    """A protocol's settings. The parameters of its function are fields of a subclass, see :func:`settings_of`."""

    function: str
    """The protocol's function: a name in :mod:`madke.engine.protocols`, or ``module:function`` for one of your own."""

    own_parameters: ClassVar[tuple[str, ...]] = ()
    """The names of the function's parameters."""

    def __reduce__(self) -> tuple[Any, ...]:
        return as_protocol, (self.model_dump(),)  # the record of a function has no importable name

    @property
    def values(self) -> dict[str, Any]:
        """The function's parameters -> their values."""
        return {name: getattr(self, name) for name in self.own_parameters}

    @cached_property
    def trace(self) -> Trace:
        """A simulated debate: who speaks, who reads whom, and what it needs."""
        key = function_of(self.function), repr(self.model_dump(exclude={"source"}))
        if key not in _traces:
            if len(_traces) > _MAX_TRACES:
                _traces.clear()
            _traces[key] = simulate(self)
        return _traces[key]

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of all roles that may be called: debaters, then the others."""
        return (*(debater.name for debater in self.cast), *self.trace.other_roles)


_own: dict[str, ProtocolFunction] = {}
"""The functions that were given in this process: ``module:function`` -> it."""


def shipped_functions() -> Mapping[str, ProtocolFunction]:
    """Name -> every function that madke ships."""
    return {name: getattr(protocols, name) for name in protocols.__all__}


def name_of(function: ProtocolFunction) -> str:
    """The name of a function of your own, ``module:function``, by which this process finds it from now on."""
    if not inspect.iscoroutinefunction(function):
        raise UserError(f"protocol = {function!r}: expected an async function, or the name of a protocol")
    name = qualified_name(function)
    _own[name] = function
    return name


def function_of(name: str) -> ProtocolFunction:
    """The function of that name; one of your own if :func:`name_of` has named it."""
    if name in _own:
        return _own[name]
    functions = shipped_functions()
    if name not in functions:
        raise unknown("protocol function", name, functions)
    return functions[name]


@cache
def settings_of(function: ProtocolFunction) -> type[Protocol]:
    """The record of a function's settings: its keyword parameters, and those of every debate."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UserError(f"{function.__name__}: a parameter's type is not known at run time: {error}") from None
    fields: dict[str, Any] = {}
    for name, parameter in [*inspect.signature(function).parameters.items()][1:]:
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            raise UserError(f"{function.__name__}: {name!r} must be a keyword parameter with a default")
        if hasattr(Protocol, name) or name in Protocol.model_fields:
            raise UserError(f"{function.__name__}: {name!r} is a parameter of every debate; choose another name")
        fields[name] = (hints.get(name, Any), parameter.default)
    record: type[Protocol] = create_model(function.__name__, __base__=Protocol, **fields)
    record.own_parameters = tuple(fields)
    return record


def help_of(function: ProtocolFunction) -> dict[str, str]:
    """Parameter -> its text in the section ``Args`` of the function's docstring."""
    _, _, section = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    entries = re.findall(r"^ {4}([^\s:]+): (.*(?:\n {5}.*)*)", section.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def as_protocol(value: Any) -> Any:
    """The settings of a mapping, as the record of its function; those that 0.4.0 wrote, as the nearest one's."""
    if not isinstance(value, Mapping):
        return value
    name = value.get("function")
    if name is None:
        value = settings_of_0_4(value)
        record = settings_of(function_of(value["function"]))
        return record.model_validate({key: each for key, each in value.items() if key in record.model_fields})
    if ":" in name and name not in _own:
        return UnknownProtocol.model_validate(value)
    return settings_of(function_of(name)).model_validate(value)


AnyProtocol = Annotated[SerializeAsAny[Protocol], BeforeValidator(as_protocol)]
"""The field of a record that holds a protocol of any function."""


class UnknownProtocol(Protocol, frozen=True, extra="allow"):
    """A protocol whose function this process does not have, as in the run of somebody else."""

    @cached_property
    def trace(self) -> Trace:
        """Nothing is known but the debaters."""
        return Trace()


# Simulated debates.
#
# A protocol runs in two worlds, without a model: in one all debaters always agree, in the other they never do. Replies
# are replaced where they are read, so no model has to know what a judge says. Together the two tell who speaks, who
# reads whom, which stages and roles there are, what the debate needs, and the fewest and most calls that it can take.

_MAX_CALLS = 2_000
_MAX_TRACES = 500
_traces: dict[tuple[ProtocolFunction, str], Trace] = {}
"""Of protocols with these functions and settings: each is simulated once in a process."""
_AS_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # a number could be read as a value
_SYMBOLS = BaseTask()
_SYMBOLS.name = "simulated"


def simulated_reply(agree: bool, stage: str, agent: str, round_n: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the reply to a call says if all always ``agree``, or never do: fields of its record.

    ``partial(simulated_reply, agree)`` is a value for ``simulate`` of :class:`madke.engine.scene.Scene`.
    """
    first = next((spoken for spoken in values.get("stances", ()) if spoken.round == round_n), None)
    last = first.answer if first is not None else None
    match stage:
        case "select":
            return {"ids": tuple(values["knowledge"][: values["max_selected"]])}
        case "speak" | "reply":
            content = "" if agree else f"{agent} {round_n}"
            answer = sha256(content.encode()).hexdigest()[:16].translate(_AS_LETTERS)
            return {"answer": answer, "status": "ok", "confidence": 1.0}
        case "reflect":
            return {"satisfied": agree}
        case "judge":
            side = first.agent if first is not None and agree else None
            return {"consensus": agree, "side": side, "answer": last if agree else None}
        case "extract" | "summarize":
            return {"answer": last, "status": "ok"}
        case "pick":
            return {"agent": first and first.agent, "answer": last, "status": "ok"}
    return {}


@dataclass(slots=True)
class _SilentScene(Scene):
    """A scene whose calls are only noted."""

    agree: bool = field(kw_only=True)
    calls: list[SimulatedCall] = field(default_factory=list, kw_only=True)

    async def call(self, stage: str, agent: str, round_n: int, values: Mapping[str, Any], **how: Any) -> StageReply:
        if len(self.calls) >= _MAX_CALLS:
            raise UserError(f"a debate of more than {_MAX_CALLS:,} calls; lower rounds or debaters")
        self.calls.append(SimulatedCall(stage, agent, round_n))
        # Any budget of tokens is used up where all agree.
        self.usage[stage] = StageUsage(prompt_tokens=10**12 if self.agree else 0)
        reply = simulated_reply(self.agree, stage, agent, round_n, values)
        return StageReply(Called(text="-"), NO_CONTEXT, simulated=reply)


def simulate(protocol: Protocol) -> Trace:
    """The trace of a protocol."""
    function = function_of(protocol.function)
    debates, worlds = [], []
    for agree in (True, False):
        first_answers = {debater.name: "given" if agree else f"given to {debater.name}" for debater in protocol.cast}
        turns = [Turn(agent=name, stance=Stance(text="-", answer=answer)) for name, answer in first_answers.items()]
        scene = _SilentScene(
            question=Question(id="simulated", question="?", task="simulated"),
            protocol=protocol,
            cast={},
            pool=placeholders(protocol),
            task=_SYMBOLS,
            prompts=None,  # nothing is rendered
            first_round=turns if protocol.first_round_given else (),
            retrieve=nothing_found,
            score_answers=equal_scores,
            agree=agree,
        )
        debate = Debate(scene)
        try:
            final = run_coroutine(debate.run(function, protocol.values))
        except UserError:
            raise
        except Exception as error:
            name = f"{function.__module__}:{function.__qualname__}"
            raise UserError(f"the protocol function {name} fails in a simulated debate: {error!r}") from error
        debates.append(debate)
        reads = {(entry.n, turn.agent): turn.reads for entry in debate.past for turn in entry.turns}
        calls = tuple(
            call._replace(reads=reads[call.round, call.agent]) if call.stage == "reply" else call
            for call in scene.calls
        )
        worlds.append(World(calls=calls, rounds=len(debate.past), by=final.by, stop_reason=debate.stop_reason or ""))
    steps = {step: how for debate in debates for step, how in debate.used.items()}
    if protocol.first_round_given and worlds[1].rounds < 2:
        raise UserError("first_round_given needs rounds >= 2: the given stances are round 1")
    if protocol.early_stop is not None and "rounds" not in steps:
        raise UserError(f"early_stop = {protocol.early_stop} has no effect: the protocol has no rounds")
    return Trace(
        agree=worlds[0],
        differ=worlds[1],
        samples=debates[1].samples,
        compares=next((debate.compared for debate in reversed(debates) if debate.compared), None),
        weighs="weigh" in steps,
        decides="decides" in steps,
        needs_golds=steps.get("golds"),
        needs_answer_scorer="score" in steps,
        shown={
            name: value
            for name, value in debates[1].scene.shared.items()
            if name not in ("question", "rounds", "debaters")
        },
    )


def placeholders(knowledge: Knowledge, title: str = "", text: str = "") -> KnowledgePool:
    """A pool as large as it can be."""
    kept = [(source, n) for source in knowledge.sources for n in range(knowledge.count(source))]
    passages = [
        Passage(source=source, key=f"{source}-{n}", title=title, text=f"{source} {n} {text}", score=0, rank=n)
        for source, n in kept[: knowledge.pool_limit]
    ]
    return KnowledgePool(passages=tuple(passages))


async def nothing_found(*_: object) -> Hits:
    """A search without results."""
    return Hits()


async def equal_scores(question: Question, candidates: Sequence[str]) -> Sequence[float]:
    """An answer scorer that likes all answers equally."""
    return [0.0] * len(candidates)


# A debate, from a question to its transcript.


async def run_protocol(scene: Scene) -> tuple[Debate, Final]:
    """Run the protocol of a scene."""
    protocol = scene.protocol
    assert isinstance(protocol, Protocol), "only a simulated debate has no function"
    trace = protocol.trace
    scene.weighs, scene.decides = trace.weighs, trace.decides
    debate = Debate(scene)
    return debate, await debate.run(function_of(protocol.function), protocol.values, by=trace.differ.by)


async def hold_debate(scene: Scene) -> Transcript:
    """Debate the question of a scene.

    Returns:
        The transcript. A debater whose call failed is left out of its round; the debate goes on with the others and is
        marked ``degraded``. ``status`` is ``failed`` if all calls of a round or the final call failed, ``abstained`` if
        the final text holds no answer.

    Raises:
        UserError: The protocol needs something that is missing: given stances, golds, a search, an answer scorer.
    """
    protocol, first_round = scene.protocol, scene.first_round
    assert isinstance(protocol, Protocol), "only a simulated debate has no function"
    check_needs(protocol, [scene.question], has_first_round=bool(first_round), scored=scene.score_answers is not None)
    check_task(protocol, scene.task)
    if protocol.needs_search and scene.retrieve is None:
        raise UserError("allow_search needs sources that can be searched, not only a pool")
    scene.tell(events.DebateStarted, pool=scene.pool)
    debate, final = await run_protocol(scene)
    rounds = debate.past
    turns = [turn for entry in rounds for turn in entry.turns]
    turn_failed = any(turn.stance.status == "failed" or (turn.search and turn.search.error) for turn in turns)
    texts = scene.searchable(range(len(scene.pool.passages))) or None
    evidence = Evidence(scene.task, scene.question, texts, scene.citable_numbers)
    transcript = Transcript(
        **fields_of(scene.question),
        status=outcome(final.status),
        answer=final.answer,
        stop_reason=debate.stop_reason or "",
        rounds=tuple(rounds),
        final=final,
        degraded=any(stage.failed for stage in scene.usage.values()) or turn_failed,
        oracle=protocol.trace.needs_golds is not None,
        repeat=scene.repeat,
        first_round_given=bool(first_round),
        prepared=scene.prepared,
        pool=scene.pool_entries(),
        pool_partial=scene.pool.partial,
        usage=scene.usage_by_stage(),
        agreement=agreement_of(rounds, final, evidence, samples=debate.samples),
    )
    if scene.settle is not None:
        transcript = scene.settle(transcript)
    scene.tell(events.DebateFinished, transcript=transcript)
    return transcript


def check_needs(protocol: Protocol, questions: Sequence[Question], *, has_first_round: bool, scored: bool) -> None:
    """UserError if the protocol needs first-round stances, golds or an answer scorer that are missing."""
    if protocol.first_round_given and not has_first_round:
        raise UserError("the protocol needs first-round stances; pass their file with madke run --first-round FILE")
    order = protocol.trace.needs_golds
    if order is not None and (unknown := [question.id for question in questions if not question.answers]):
        raise UserError(f"order = {order} needs gold answers, but question {unknown[0]!r} has none")
    if protocol.trace.needs_answer_scorer and not scored:
        raise UserError("this protocol needs an answer scorer; pass its command with --answer-scorer")


def check_task(protocol: Protocol, task: BaseTask) -> None:
    """UserError if answers are texts and the protocol compares answers, or asks for a form of them."""
    what = protocol.trace.compares
    if what is None and protocol.marker not in ("plain", "alone", "text"):
        what = f"marker = {protocol.marker}"
    if task.is_prose and what is not None:
        why = f"this protocol compares answers ({what}), and no two texts are the same"
        raise UserError(f"task {task.name!r}: {why}; take one with a judge or a summarizer, such as madke or moa")


# The settings of 0.4.0: their names today, and what its run directories hold.

RENAMED: Mapping[str, str] = {
    "knowledge": "sources",
    "talk": "talk (simultaneous, sequential or sequential_later)",
    "talk.first": "talk (simultaneous, sequential or sequential_later)",
    "talk.later": "talk (sequential_later: one after another from round 2 on), or summarized",
    "talk.groups": "layers",
    "sees": "reads",
    "sees.form": "reads.chat",
    "stop": "early_stop, or the function's own rule",
    "finish": "function: that of the protocol, vote, ...; for lemmas end",
    "judge_sees": "a value in the protocol's function",
}
"""Former name of a setting -> what is set instead."""


def present_name(name: str) -> str | None:
    """What is set instead of a setting of 0.4.0; None if the name was none."""
    if name in RENAMED:
        return RENAMED[name]
    section, _, field = name.partition(".")
    return {"knowledge": field, "sees": f"reads.{field}"}.get(section) if field else None


def settings_of_0_4(old: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a protocol that 0.4.0 wrote, with the function that does most of what it did."""
    knowledge, talk, sees = old.get("knowledge") or {}, old.get("talk") or {}, dict(old.get("sees") or {})
    first, later = talk.get("first", "simultaneous"), talk.get("later", "simultaneous")
    finish, stop = old.get("finish", "summarizer"), old.get("stop", "judge")
    by_finish = {
        "agreed_or_summarizer": "gated",
        "judge_extract": "liang",
        "judge_pick": "lemmas",
        "convergence": "lemmas",
        "rerank": "best_of",
        "weighted": "reconcile",
        "only": "self_reflect" if stop == "satisfied" else "alone",
        "majority": "chateval" if sees.get("peers") == "history" else "mad",
    }
    function = by_finish.get(finish, "per_document" if stop == "stability" else "madke")
    if talk.get("groups") or finish == "majority":
        reads_nothing = (sees.get("peers"), sees.get("own")) == ("none", "none")
        function = "vote" if reads_nothing else "moa" if talk.get("groups") else function
    if later == "simultaneous_with_summary":
        later, sees["peers"] = first, "last_round"
    sees["chat"] = sees.pop("form", "text") == "chat"
    return {
        **{name: value for name, value in old.items() if name not in RENAMED},
        **knowledge,
        "function": function,
        "reads": sees,
        "talk": first if first == later else "sequential_later" if later == "sequential" else "simultaneous",
        "layers": talk.get("groups"),
        "summarized": talk.get("later") == "simultaneous_with_summary",
        "end": "pick" if finish == "judge_pick" else "overlap",
        "early_stop": stop if stop == "budget" else None,
    }
