"""A protocol: a function over the steps of a debate, with values for its parameters; and one debate by it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import BeforeValidator, SerializeAsAny, create_model

from madke.core import events
from madke.core.chat import fields_of
from madke.core.errors import UserError, unknown
from madke.core.question import Question
from madke.core.registry import qualified_name
from madke.core.transcript import Final, Transcript, outcome
from madke.engine import protocols
from madke.engine.agreement import Evidence, agreement_of
from madke.engine.scene import Scene, citable_numbers, searchable
from madke.engine.settings import Settings
from madke.engine.simulate import Trace, simulated
from madke.engine.steps import Debate
from madke.tasks.base import BaseTask

ProtocolFunction = Callable[..., Awaitable[Final]]
"""``async def NAME(debate, *, parameter: type = default, ...) -> Final``."""


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
        return simulated(function_of(self.function), self, self.values)

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
    found = re.findall(r"^ {4}([^\s:]+): (.*(?:\n {5}.*)*)", section.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


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
    check_needs(protocol, [scene.question], given=bool(first_round), scored=scene.score_answers is not None)
    check_task(protocol, scene.task)
    if protocol.needs_search and scene.retrieve is None:
        raise UserError("allow_search needs sources that can be searched, not only a pool")
    scene.tell(events.DebateStarted, pool=scene.pool)
    debate, final = await run_protocol(scene)
    rounds = debate.past
    turns = [turn for entry in rounds for turn in entry.turns]
    turn_failed = any(turn.stance.status == "failed" or (turn.search and turn.search.error) for turn in turns)
    texts = searchable(scene, range(len(scene.pool.passages))) or None
    evidence = Evidence(scene.task, scene.question, texts, partial(citable_numbers, scene))
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


def check_needs(protocol: Protocol, questions: Sequence[Question], *, given: bool, scored: bool) -> None:
    """UserError if first-round stances are needed and not ``given``, or golds or an answer scorer are missing."""
    if protocol.first_round_given and not given:
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
