"""The declarative description of a debate, as in a variant's ``protocol.yaml``."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from madke.engine.parse import Marker
from madke.engine.protocol_parts import (
    FINISH_RULES,
    MAX_DEBATERS,
    RESERVED,
    RETRIEVER,
    STAGES,
    STOP_RULES,
    Count,
    Debater,
    Knowledge,
    Order,
    Sees,
    Talk,
    Temperature,
    is_debater_name,
    readable_by,
    role_key,
)


def _none_as_null(value: Any) -> Any:
    return None if value == "none" else value


class Protocol(BaseModel, frozen=True, extra="forbid"):
    """One debate protocol. Unknown keys are refused; the defaults are MADKE's reference settings."""

    source: str
    """The paper or code that the variant follows."""
    debaters: Annotated[int, Field(ge=1, le=MAX_DEBATERS, strict=True)] | tuple[Debater, ...] = 2
    """A count, or a list (Wang et al., section 4.4: 2)."""
    knowledge: Annotated[Knowledge | None, BeforeValidator(_none_as_null)] = Knowledge()
    """None or ``none``: no knowledge pool."""
    rounds: Count = 3
    """At most this many (section 4.4: 3)."""
    talk: Talk = Talk()
    sees: Sees = Sees()
    order: Annotated[Order, BeforeValidator(lambda value: {"by": value} if isinstance(value, str) else value)] = Order()
    """``order: madc`` is short for ``{by: madc}``."""
    marker: Marker = "plain"
    """How replies state the answer. ``plain``: "The answer is X." ``brackets``, ``parentheses``, ``boxed``: ``[X]``,
    ``(X)``, ``\\boxed{X}`` in that sentence. ``alone``: the answer and nothing else. ``text``: free text."""
    examples: Annotated[int, Field(ge=0, le=8)] = 0
    """The number of the task's worked examples that a first stance sees, as earlier turns of the chat."""
    level: Literal[0, 1, 2, 3] = 2
    """How strongly debaters are told to disagree, from 0 (not at all) to 3 (always) (Liang et al., Table 12)."""
    temperature: Temperature = 0.5
    """Sampling temperature of every role (section 4.4: 0.5)."""
    max_tokens: Count = 1024
    """Completion tokens per call. Not stated in the paper."""
    stop_strings: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    cite: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Whether debaters with passages are asked to quote the one that shows their answer. Tasks may ask for it too."""
    structured: Annotated[
        Literal["auto", "off", "require"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML reads off as false
        Field(exclude_if=lambda value: value == "auto"),
    ] = "auto"
    """Whether selections, verdicts and final answers are asked for with a JSON schema. ``auto``: where the endpoint
    takes one. ``off``: never. ``require``: always; a call fails if its endpoint takes none."""
    overflow: Literal["fail", "drop"] = "fail"
    """For a prompt that is too long for the model. ``fail``: the call fails. ``drop``: the oldest stances of others,
    then the lowest-ranked passages are left out until it fits, and this is recorded. Judge and summarizer always get
    the last round's stances."""
    first_round_given: bool = False
    """The first round's stances are given as input."""
    stop: Literal["never", "judge", "agreement", "agreement_then_judge", "satisfied", "stability", "budget"] = "judge"
    """When the debate ends before its last round. ``judge``: the judge finds it settled (Algorithm 1, line 14).
    ``agreement``: all answers (or the share ``agreement_share``) are the same under the task's matcher.
    ``agreement_then_judge``: ``agreement``, else ``judge``. ``satisfied``: every debater is satisfied with its own
    answer. ``stability``: no answer has changed since the previous round. ``budget``: ``token_budget`` is used up."""
    agreement_share: Annotated[float, Field(gt=0.5, le=1, exclude_if=lambda value: value == 1)] = 1
    """``stop: agreement`` and ``agreement_then_judge``: the share of the debaters that must give the same answer."""
    token_budget: int | None = Field(default=None, ge=1)
    """``stop: budget``: prompt and completion tokens of one question."""
    judge_asked: Annotated[Literal["always", "in_doubt"], Field(exclude_if=lambda value: value == "always")] = "always"
    """When the judge is asked. ``in_doubt``: not where the task's matcher finds all answers the same, values that
    differ (two numbers, yes and no), or a missing answer."""
    judge_sees: Literal["last_round", "history"] = "last_round"
    """What the judge reads before it decides whether to stop (Eq. 5: the round's stances)."""
    extract: Literal["unsettled", "always", "each_round"] = "unsettled"
    """``finish: judge_extract``: when the judge extracts the answer from the whole history. ``unsettled``: at the end,
    if it never settled the debate. ``always``: at the end. ``each_round``: after every round."""
    finish: Literal[
        "summarizer", "majority", "judge_extract", "judge_pick", "convergence", "rerank", "weighted", "only",
        "agreed_or_summarizer",
    ] = "summarizer"  # fmt: skip
    """Where the answer comes from, in the order of the values: a summary of the last round (Eq. 6); the majority; the
    judge; the debater that the judge picks; the debater whose words overlap most with the others'; the answer scorer's
    best; the answer with the most confidence; the only debater; the answer that all agree on, else a summary. Ties go
    to the earliest debater and are recorded."""

    @field_validator("debaters")
    @classmethod
    def _valid_names(cls, value: int | tuple[Debater, ...]) -> int | tuple[Debater, ...]:
        if isinstance(value, tuple):
            if not 1 <= len(value) <= MAX_DEBATERS:
                raise ValueError(f"debaters must be a count or a list of 1 to {MAX_DEBATERS} debaters")
            names = [debater.name for debater in value]
            if wrong := [name for name in names if not is_debater_name(name)]:
                raise ValueError(f"a debater's name must be one line with a letter or digit and no colon: {wrong[0]!r}")
            keys = [role_key(name) for name in names]
            if len(set(keys)) < len(keys):
                raise ValueError("debaters must have distinct names; case, spaces, hyphens and underscores are ignored")
            if reserved := set(keys) & RESERVED:
                raise ValueError(f"a debater cannot have the reserved name {reserved.pop()!r}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if reason := next(conflicts(self), None):
            raise ValueError(reason)
        return self

    @property
    def cast(self) -> tuple[Debater, ...]:
        """The debaters, named ``Debater 1``, ``Debater 2``, ... if only a count is given."""
        return _numbered(self.debaters) if isinstance(self.debaters, int) else self.debaters

    @property
    def samples(self) -> bool:
        """Whether the groups of ``talk.groups`` are samples of one vote, since nobody reads anybody."""
        return self.talk.groups is not None and (self.sees.peers, self.sees.own) == ("none", "none")

    def speakers(self, round_n: int) -> tuple[Debater, ...]:
        """The debaters who speak in a round (1-based)."""
        groups = self.talk.groups
        if groups is None:
            return self.cast
        start = sum(groups[: round_n - 1])
        return self.cast[start : start + groups[round_n - 1]]

    def with_one_each(self, passages: int) -> Self:
        """The protocol of ``select: one_each`` for a pool: as many debaters as passages; a single one has one round."""
        debaters = self.cast[: max(1, passages)]
        rounds = 1 if len(debaters) == 1 else self.rounds
        return self.model_copy(update={"debaters": debaters, "rounds": rounds})

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the knowledge sources."""
        return self.knowledge.sources if self.knowledge else ()

    @property
    def judge_finishes(self) -> bool:
        """Whether the judge decides on the answer."""
        return self.finish in ("judge_extract", "judge_pick")

    @property
    def needs_answer_scorer(self) -> bool:
        """Whether an answer scorer picks the answer."""
        return self.finish == "rerank"

    @property
    def needs_search(self) -> bool:
        """Whether debaters may search, so that a pool alone is not enough."""
        return self.knowledge is not None and self.knowledge.allow_search

    @property
    def needs_golds(self) -> bool:
        """Whether the order uses the gold answers: the debate is then an analysis, not a prediction."""
        return self.order.by in ("truth_first", "truth_last")

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of all roles that may be called: debaters, then judge, summarizer and retriever where needed."""
        stages = set(self.stages)
        judge = ["judge"] if stages & {"judge", "extract", "pick"} else []
        summarizer = ["summarizer"] if stages & {"digest", "summarize"} else []
        retriever = [RETRIEVER] if self.knowledge is not None and self.knowledge.needs_retriever else []
        return (*(d.name for d in self.cast), *judge, *summarizer, *retriever)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that need a template, in order."""
        needed = {
            **{stage: True for debater in self.cast for stage in debater.prepare},
            "select": self.knowledge is not None and self.knowledge.select == "adaptive",
            "speak": True,
            "reply": (self.rounds > 1 and not self.samples) or self.talk.first == "sequential",
            "reflect": self.stop == "satisfied",
            "digest": self.talk.later == "simultaneous_with_summary",
            "judge": self.stop in ("judge", "agreement_then_judge"),
            "extract": self.finish == "judge_extract",
            "pick": self.finish == "judge_pick",
            "summarize": self.finish in ("summarizer", "agreed_or_summarizer"),
        }
        return tuple(stage for stage, is_needed in needed.items() if is_needed)


@cache
def _numbered(count: int) -> tuple[Debater, ...]:
    # Cached: every call of every debate needs the cast.
    return tuple(Debater(name=f"Debater {number}") for number in range(1, count + 1))


def compares_answers(p: Protocol) -> str | None:
    """The setting that compares answers, or asks for a form of them, so that answers cannot be texts; None if none."""
    if STOP_RULES[p.stop].compares_answers:
        return f"stop = {p.stop}"
    if FINISH_RULES[p.finish].compares_answers:
        return f"finish = {p.finish}"
    if p.order.by == "madc":
        return "order = madc"
    if p.sees.grouped:
        return "sees.grouped = true"
    return f"marker = {p.marker}" if p.marker not in ("plain", "alone", "text") else None


def conflicts(p: Protocol) -> Iterator[str]:
    """Why the settings cannot work together, one reason for each conflict."""
    yield from _conflicts_reading(p)
    yield from _conflicts_end(p)
    if p.cite and p.marker == "alone":
        yield "cite = true does not work with marker = alone: its replies hold only the answer"
    if p.talk.groups is not None:
        yield from _conflicts_groups(p, p.talk.groups)
    if p.knowledge is not None:
        yield from _conflicts_knowledge(p, p.knowledge)
    for stage in (stage for debater in p.cast for stage in debater.prepare if stage in STAGES):
        yield f"debaters.prepare: {stage!r} is the name of a built-in stage; choose another name"


def _conflicts_reading(p: Protocol) -> Iterator[str]:
    sees, order, n = p.sees, p.order, len(p.cast)
    summed_up = p.talk.later == "simultaneous_with_summary"
    if sees.peers == "latest" and "sequential" not in (p.talk.first, p.talk.later):
        yield "sees.peers = latest needs talk.first or talk.later = sequential"
    if p.talk.first == "sequential" and sees.peers in ("last_round", "answers"):
        yield "talk.first = sequential needs sees.peers = latest or history: round 1 has no previous round to read"
    if sees.form == "chat" and (sees.peers, sees.own) != ("history", "history"):
        yield "sees.form = chat needs sees.peers and sees.own = history"
    if sees.anonymous and summed_up:
        yield "sees.anonymous does not work with talk.later = simultaneous_with_summary: the summary names debaters"
    if readable_by(sees.topology, 0, n) is None:
        forms = f"full, ring, star, sparse(k) or a matrix of {n} x {n}"
        yield f"sees.topology: {sees.topology!r} is not a topology for {n} debaters; expected {forms}"
    sequential = p.talk.first == "sequential" or (p.rounds > 1 and p.talk.later == "sequential")
    read = p.rounds > 1 and p.sees.peers in ("last_round", "latest", "answers") and not summed_up
    if order.by != "fixed" and not read and not (sequential and order.by == "random"):
        yield f"order.by = {order.by} has no effect: debaters do not read each other, or only in order of time"
    if order.by != "madc" and order.decay != 1:
        yield "order.decay needs order.by = madc"
    if order.by != "madc" and order.score != "global":
        yield "order.score needs order.by = madc"
    if order.score == "per_reader" and order.decay != 1:
        yield "order.decay needs order.score = global"
    if order.rotate_personas and not any(debater.persona for debater in p.cast):
        yield "order.rotate_personas needs debaters with personas"


def _conflicts_groups(p: Protocol, groups: tuple[int, ...]) -> Iterator[str]:
    if len(groups) != p.rounds:
        yield f"talk.groups has {len(groups)} numbers, one for each round; rounds is {p.rounds}"
    if sum(groups) != len(p.cast):
        yield f"talk.groups adds up to {sum(groups)} debaters, but there are {len(p.cast)}"
    if (p.talk.first, p.talk.later) != ("simultaneous", "simultaneous"):
        yield "talk.groups needs talk.first and talk.later = simultaneous"
    if p.stop in ("stability", "satisfied"):
        yield f"stop = {p.stop} compares the answers of one debater; with talk.groups each speaks once"
    if p.first_round_given:
        yield "talk.groups does not work with first_round_given"
    if p.knowledge is not None and p.knowledge.select == "one_each":
        yield "talk.groups needs a fixed number of debaters; with knowledge.select = one_each it varies"


def _conflicts_end(p: Protocol) -> Iterator[str]:
    n = len(p.cast)
    last = p.talk.groups[-1] if p.talk.groups else n
    if p.finish == "only" and last != 1:
        yield f"finish = only needs exactly one debater, found {last}"
    if p.agreement_share != 1 and p.stop not in ("agreement", "agreement_then_judge"):
        yield "agreement_share needs stop = agreement or agreement_then_judge"
    if p.finish in ("judge_pick", "agreed_or_summarizer") and n < 2:
        yield f"finish = {p.finish} needs at least two debaters"
    if p.stop in ("judge", "agreement", "agreement_then_judge") and n < 2:
        yield f"stop = {p.stop} needs at least two debaters"
    if (p.stop == "budget") != (p.token_budget is not None):
        yield "stop = budget and token_budget must be set together; one of them is missing"
    if p.extract != "unsettled" and p.finish != "judge_extract":
        yield f"extract = {p.extract} needs finish = judge_extract"
    if p.first_round_given and p.rounds < 2:
        yield "first_round_given needs rounds >= 2: the given stances are round 1"


def _conflicts_knowledge(p: Protocol, knowledge: Knowledge) -> Iterator[str]:
    names, passages = [debater.name for debater in p.cast], knowledge.pool_limit
    restricted = knowledge.per_debater_sources or {}
    if knowledge.select == "one_each":
        if len(names) < passages:
            needed = f"a debater for each of up to {passages} passages, found {len(names)}"
            yield f"knowledge.select = one_each needs {needed}"
        if restricted:
            yield "knowledge.per_debater_sources does not work with select = one_each: each debater has one passage"
        if not isinstance(p.sees.topology, str):
            yield "sees.topology: a matrix needs a fixed number of debaters; with select = one_each it varies"
    if knowledge.needs_retriever and RETRIEVER in map(role_key, names):
        yield f"knowledge.query and knowledge.rerank call the role {RETRIEVER!r}; give the debater another name"
    for name in (name for name in restricted if name not in names):
        yield f"knowledge.per_debater_sources: there is no debater {name!r}"
    for source in (source for sources in restricted.values() for source in sources if source not in knowledge.sources):
        yield f"knowledge.per_debater_sources: {source!r} is not among the sources"
