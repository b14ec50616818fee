"""Simulated debates: what a protocol does, found out by running it, without a model.

A protocol runs in two worlds: in one all debaters always agree, in the other they never do. Replies are replaced where
they are read, so no model has to know what a judge says. Together the two tell who speaks, who reads whom, which stages
and roles there are, what the debate needs, and the fewest and most calls that it can take.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from madke._util.concurrency import finished
from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Called, Final, StageUsage, Stance, Turn
from madke.engine.parse.reply import NO_CONTEXT
from madke.engine.scene import Scene, StageReply
from madke.engine.settings import NON_DEBATERS, STAGES, Knowledge, Settings
from madke.engine.steps import Debate
from madke.tasks.base import BaseTask

_MOST_CALLS = 2_000
_AS_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # a number could be read as a value
_SYMBOLS = BaseTask()
_SYMBOLS.name = "simulated"


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
        found = dict.fromkeys(call.stage for call in (*self.differ.calls, *self.agree.calls))
        own = [stage for stage in found if stage not in STAGES]
        # A debater that has read nothing speaks, in whichever round.
        return (*own, *(stage for stage in STAGES if stage in found or stage == "speak"))

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

    @property
    def equal_vote(self) -> tuple[int, int] | None:
        """The smallest and largest vote with as many calls, in samples; None if nobody reads anything."""
        fewest, most = self.calls
        return (max(1, fewest), most) if most > 1 and self.talks else None


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
            said = "" if agree else f"{agent} {round_n}"
            answer = sha256(said.encode()).hexdigest()[:16].translate(_AS_LETTERS)
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
        if len(self.calls) >= _MOST_CALLS:
            raise UserError(f"a debate of more than {_MOST_CALLS:,} calls; lower rounds or debaters")
        self.calls.append(SimulatedCall(stage, agent, round_n))
        # Any budget of tokens is used up where all agree.
        self.usage[stage] = StageUsage(prompt_tokens=10**12 if self.agree else 0)
        said = simulated_reply(self.agree, stage, agent, round_n, values)
        return StageReply(Called(text="-"), NO_CONTEXT, simulated=said)


Function = Callable[..., Awaitable[Final]]
_known: dict[tuple[Function, str], Trace] = {}


def simulated(function: Function, settings: Settings, values: Mapping[str, Any]) -> Trace:
    """The trace of a protocol's function with these settings."""
    key = (function, repr(settings.model_dump(exclude={"source"})))
    if key not in _known:
        if len(_known) > 500:
            _known.clear()
        _known[key] = _simulated(function, settings, values)
    return _known[key]


def _simulated(function: Function, settings: Settings, values: Mapping[str, Any]) -> Trace:
    debates, worlds = [], []
    for agree in (True, False):
        given = {debater.name: "given" if agree else f"given to {debater.name}" for debater in settings.cast}
        turns = [Turn(agent=name, stance=Stance(text="-", answer=answer)) for name, answer in given.items()]
        scene = _SilentScene(
            question=Question(id="simulated", question="?", task="simulated"),
            protocol=settings,
            cast={},
            pool=placeholders(settings),
            task=_SYMBOLS,
            prompts=None,  # nothing is rendered
            first_round=turns if settings.first_round_given else (),
            retrieve=nothing_found,
            score_answers=equal_scores,
            agree=agree,
        )
        debate = Debate(scene)
        try:
            final = finished(debate.run(function, values))
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
    if settings.first_round_given and worlds[1].rounds < 2:
        raise UserError("first_round_given needs rounds >= 2: the given stances are round 1")
    if settings.early_stop is not None and "rounds" not in steps:
        raise UserError(f"early_stop = {settings.early_stop} has no effect: the protocol has no rounds")
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
