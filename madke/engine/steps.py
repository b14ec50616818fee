"""The steps of a debate. A protocol is a function over them (:mod:`madke.engine.protocols`).

Whatever can go wrong is handled here once: a call that fails, a prompt that is too long, a first round that is given,
a round in which nobody speaks, a stop that spans protocols.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import inf, isfinite
from types import MappingProxyType
from typing import Any, Self

from madke.core import events
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.core.transcript import (
    UNREAD_STATUSES,
    Digest,
    Final,
    Reflection,
    Remark,
    Round,
    Search,
    Selection,
    Stance,
    Turn,
    Verdict,
)
from madke.engine.agreement import all_agree, answer_groups
from madke.engine.citations import looked_up, merge_citations
from madke.engine.parse import decisions
from madke.engine.parse.answer import answer_of
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.reply import is_copied
from madke.engine.reading import View, by_cast, order_for, reading_order, stances_of, view
from madke.engine.scene import Scene, Schemas, StageReply
from madke.engine.settings import Debater, JudgeAsked, Order, Reads, Talk, readable_by

ALL_FAILED, NO_REASON = "all_failed", "stopped"
"""Stop reasons: all calls of a round failed; the protocol's function ended the debate and no step says why."""


class RoundFailed(Exception):
    """Nobody spoke in a round, so the debate is over: with the first error, for whoever runs the function."""


class Debate:
    """One debate in progress: what a protocol's function gets. Its methods are the steps.

    Steps that end with an answer (:meth:`summarize`, :meth:`vote`, ...) return a :class:`Final`, which the function
    returns. A loop over :meth:`rounds` or :meth:`layers` is left with ``break`` as soon as the debate is settled.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.past: list[Round] = []
        """The rounds so far."""
        self.samples = False
        """Whether the rounds are samples of one vote."""
        self.stop_reason: str | None = None
        self.compared: str | None = None
        """The first step that compared answers, so that they cannot be texts."""
        self.used: dict[str, str] = {}
        """What the debate needs: ``rounds``, ``golds``, ``score``, ``weigh``, ``decides``."""
        self._number, self._limit, self._sizes = 0, 1, tuple[int, ...]()
        self._is_open = self._in_loop = self._digests = False
        self._found: str | None = None
        """Why the debate may end after this round."""

    async def run(self, function: Callable[..., Awaitable[Final]], values: Mapping[str, Any], *, by: str = "") -> Final:
        """The answer of a protocol's function with these values; ``by`` is noted if nobody speaks in a round.

        Raises:
            UserError: The function refuses a value, or returns no answer.
        """
        await self.scene.gather(self._prepare(debater) for debater in self.scene.debaters if debater.prepare)
        try:
            final = await function(self, **values)
        except RoundFailed as failed:
            self.end(ALL_FAILED)
            return Final(by=by, status="failed", rule=ALL_FAILED, error=failed.args[0])
        if not isinstance(final, Final):
            steps = "debate.summarize(), debate.vote(), ..."
            raise UserError(f"{function.__name__} returned {final!r}; expected the answer that a step gives: {steps}")
        if not self.past:
            raise UserError(f"{function.__name__} ended without a turn; call debate.turns()")
        self.end()
        return final

    # The rounds

    def rounds(self, most: int, *, digest: bool = False) -> AsyncIterator[int]:
        """At most so many rounds, numbered from 1. ``digest``: between two, the debate so far is summed up.

        With ``early_stop``, the rounds end by that rule, and tests inside the loop find nothing.
        """
        # Where each debater reads one passage, a pool of one passage has one debater, who cannot talk to anybody.
        self._limit = 1 if self.scene.one_each and len(self.scene.debaters) == 1 else most
        self.scene.shared["rounds"] = self._limit
        self._in_loop, self._digests = True, digest
        self.used["rounds"] = str(most)
        return self

    def layers(self, sizes: Sequence[int]) -> AsyncIterator[int]:
        """A round for each number, in which so many debaters speak; each debater speaks in one round only."""
        if sum(sizes) != (count := len(self.scene.protocol.cast)):
            raise UserError(f"the layers {list(sizes)} add up to {sum(sizes)} debaters, but there are {count}")
        if self.scene.protocol.first_round_given:
            raise UserError("first_round_given does not work with layers: each debater speaks once")
        if self.scene.one_each:
            raise UserError("select = one_each does not work with layers, which need a fixed number of debaters")
        self._sizes = tuple(sizes)
        return self.rounds(len(sizes))

    @property
    def is_last_round(self) -> bool:
        """Whether no round can follow."""
        return self._number >= self._limit

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        """End the round, if one is open, and begin the next: a generator would not see when the loop is left."""
        if self._is_open:
            reason = await self._stopped_early() or ("rounds" if self.is_last_round else None)
            if reason is None and self._digests:
                await self.digest()
            self._close(reason)
            if reason is not None:
                self._in_loop = False
                raise StopAsyncIteration
        self._open()
        return self._number

    def _open(self) -> None:
        self._number += 1
        self._is_open, self._found = True, None
        self.scene.tell(events.RoundStarted, n=self._number)

    def _close(self, reason: str | None) -> None:
        if len(self.past) < self._number:
            raise UserError("a round has no turns; call debate.turns() in each")
        self._is_open = False
        self.stop_reason = reason
        self.scene.tell(events.RoundEnded, round=self.past[-1])

    def end(self, reason: str | None = None) -> None:
        """End the last round, if it has not ended. Steps that give an answer do."""
        if self._is_open:
            self._close(reason or self._found or ("rounds" if self.is_last_round else NO_REASON))

    async def _stopped_early(self) -> str | None:
        """The reason, if ``early_stop`` ends the debate after this round."""
        rule, self._in_loop = self.scene.protocol.early_stop, False  # so that the tests below find something
        match rule:
            case "judge":
                stops = bool((await self.judge()).consensus)
            case "agreement" | "majority":
                stops = self.agreed(1 if rule == "agreement" else 0.5 + 1e-6)  # more than half
            case "stability":
                stops = self.stable()
            case "budget":
                used = sum(each.tokens for each in self.scene.usage.values())
                stops = used >= (self.scene.protocol.token_budget or inf)
            case _:
                stops = False
        self._in_loop = True
        return ("consensus" if rule == "judge" else rule) if stops else None

    @property
    def _is_overruled(self) -> bool:
        """Whether ``early_stop`` decides, so that tests inside a loop find nothing."""
        return self.scene.protocol.early_stop is not None and self._in_loop and self._is_open

    # Turns

    async def turns(
        self, reads: Reads = Reads(), *, order: Order = Order(), talk: Talk = "simultaneous"
    ) -> tuple[Turn, ...]:
        """The turns of a round: each debater selects, searches, and speaks or replies (Wang et al., Eq. 2 to 4).

        Outside a loop, and for a second time in one round, it is a round of its own. A debater whose call fails is left
        out; if all calls fail, the debate is over.
        """
        if self._is_open and len(self.past) == self._number:
            self._close(None)
        if not self._is_open:
            self._open()
        n, first_round = self._number, self.scene.first_round
        self._check(reads, order, talk)
        self.samples = bool(self._sizes) and reads.nothing
        self.scene.rotates_personas = order.rotate_personas
        if first_round and n == 1:
            self.past.append(Round(n=1, order=tuple(turn.agent for turn in first_round), turns=tuple(first_round)))
            for turn in first_round:
                self.scene.tell(events.StanceGiven, n=1, agent=turn.agent, stance=turn.stance)
        else:
            self.past.append(
                await self._play(n, reads, order, talk == "sequential" or (talk != "simultaneous" and n > 1))
            )
        turns = self.past[-1].turns
        if not stances_of(self.past):
            raise RoundFailed(turns[0].stance.error if turns else None)
        return turns

    def _check(self, reads: Reads, order: Order, talk: Talk) -> None:
        count = len(self.scene.debaters)
        if readable_by(reads.topology, 0, count) is None:
            forms = f"full, ring, star, sparse(k) or a matrix of {count} x {count}"
            raise UserError(f"{reads.topology!r} is not a topology for {count} debaters; expected {forms}")
        if reads.grouped:
            self._compare("reads.grouped")
        if order.by == "madc":
            self._compare("order = madc")
        if order.by in ("truth_first", "truth_last"):
            self.used["golds"] = order.by
        if talk == "simultaneous" and reads.peers == "latest":
            raise UserError("reads.peers = latest needs sequential talk")
        if talk == "sequential" and reads.peers in ("last_round", "answers"):
            raise UserError("sequential talk needs reads.peers = latest or history: round 1 has no previous round")
        if (
            order.by != "fixed"
            and reads.peers in ("history", "none")
            and (talk == "simultaneous" or order.by != "random")
        ):
            why = "debaters do not read each other, or only in order of time"
            raise UserError(f"order = {order.by} has no effect: {why}")
        if order.rotate_personas and not any(debater.persona for debater in self.scene.protocol.cast):
            raise UserError("order.rotate_personas needs debaters with personas")

    async def _play(self, n: int, reads: Reads, by: Order, in_turn: bool) -> Round:
        scene, rounds = self.scene, self.past
        names = [debater.name for debater in scene.debaters]
        seed = repr((scene.seed, scene.question.id, scene.repeat, n))
        order, scores = reading_order(by, rounds, names, question=scene.question, task=scene.task, seed=seed)
        turns: list[Turn] = []

        def view_of(debater: Debater) -> View:
            shown = order
            if by.score == "per_reader" and rounds:
                own_order = order_for(debater.name, rounds[-1].turns, names, scene.same)
                shown = tuple(dict.fromkeys((*own_order, *order)))
            return view(reads, debater.name, names, rounds, turns, shown, scene.same)

        start = sum(self._sizes[: n - 1])
        at_once = [scene.debaters[start : start + self._sizes[n - 1]] if self._sizes else scene.debaters]
        if in_turn:
            # Debaters who have not spoken yet (after a given first round of others) come last.
            order = tuple(dict.fromkeys((*order, *names)))
            at_once = [(debater,) for debater in sorted(at_once[0], key=lambda debater: order.index(debater.name))]
        for debaters in at_once:
            turns += await self._simultaneous(n, [(debater, view_of(debater)) for debater in debaters])
        return Round(n=n, order=order, scores=scores, turns=tuple(turns))

    async def _simultaneous(self, n: int, views: Sequence[tuple[Debater, View]]) -> list[Turn]:
        """Simultaneous turns. Searched passages are numbered in the order of the cast, not of the replies."""

        async def whole(debater: Debater, view: View) -> Turn:
            return await self._speak(debater, n, view, await self._select(debater, n, view))

        if not self.scene.protocol.needs_search:
            return await self.scene.gather(whole(debater, view) for debater, view in views)
        selected = await self.scene.gather(self._select(debater, n, view) for debater, view in views)
        scene = self.scene

        async def search(turn: Turn) -> Hits:
            assert scene.retrieve is not None, "hold_debate() checks it"
            purpose = scene.purpose("search", turn.agent, n)
            return await scene.retrieve(turn.search.query, purpose) if turn.search is not None else Hits()

        searched = []
        for turn, hits in zip(selected, await self.scene.gather(map(search, selected)), strict=True):
            if turn.search is not None:
                passages = () if hits.error is not None else hits.passages
                ids = scene.add_passages(passages, turn.agent, n, turn.search.query)
                turn = replace(turn, search=replace(turn.search, ids=ids, error=hits.error))
                scene.tell(events.SearchMade, n=n, agent=turn.agent, search=turn.search)
            searched.append(turn)
        return await self.scene.gather(
            self._speak(d, n, view, turn) for (d, view), turn in zip(views, searched, strict=True)
        )

    async def _select(self, debater: Debater, n: int, view: View) -> Turn:
        """A turn with the debater's selection and search query, but without its stance."""
        scene = self.scene
        turn = Turn(agent=debater.name, stance=Stance(), reads=view.reads)
        if debater.name in scene.unprepared:
            return replace(turn, stance=Stance(status="failed", error=scene.unprepared[debater.name]))
        # With an empty pool, a selection is useful only if the debater may search.
        if scene.protocol.select != "adaptive" or not (scene.visible_passages(debater) or scene.protocol.needs_search):
            return turn
        selection, search = await self.select(debater, n, view)
        scene.tell(events.SelectionMade, n=n, agent=debater.name, selection=selection)
        if selection.error is not None:
            turn = replace(turn, stance=Stance(status="failed", error=f"its selection failed: {selection.error}"))
        return replace(turn, selection=selection, search=search)

    async def _speak(self, debater: Debater, n: int, view: View, turn: Turn) -> Turn:
        scene = self.scene
        if turn.stance.status != "failed":
            # A sample is the same call in whichever round it is taken, so a vote that takes all at once shares it.
            asked_in = 1 if self.samples else n
            numbers = scene.citable_numbers(turn)
            turn = replace(turn, stance=await self.speak(debater, asked_in, numbers, view))
        scene.tell(events.StanceGiven, n=n, agent=debater.name, stance=turn.stance)
        return replace(turn, usage=scene.turn_usage.pop(debater.name, None))

    async def _prepare(self, debater: Debater) -> None:
        """Make the calls of a debater's ``prepare`` stages; each sees the texts of the earlier ones."""
        scene = self.scene
        texts = scene.prepared.setdefault(debater.name, {})
        for stage in debater.prepare:
            values = {"knowledge": scene.visible_passages(debater), "own": None}
            called = (await self._ask(stage, debater, 1, values)).called
            if called.error is not None:
                scene.unprepared[debater.name] = f"its {stage} failed: {called.error}"
                return
            texts[stage] = called.text

    async def select(self, debater: Debater, n: int, view: View) -> tuple[Selection, Search | None]:
        """Ask one debater which passages it wants (Eq. 2: it never sees the peers), and what to search for."""
        scene = self.scene
        numbers, size = scene.visible_passages(debater), len(scene.pool.passages)
        limit, allow_search = scene.protocol.max_selected, scene.protocol.allow_search
        values = {"knowledge": numbers, "max_selected": limit, "allow_search": allow_search, "own": view.last}
        schema = None if allow_search else partial(decisions.selection_schema, limit)
        reply = await self._ask("select", debater, n, values, schema=schema)
        called, context = reply.called, reply.context
        if called.error is not None:
            return reply.record(Selection, status="failed"), None
        if reply.bound is not None:
            parsed = decisions.bound_selection(reply.bound, limit)
        else:
            shown = set(numbers) - set(called.truncated.passages if called.truncated else ())
            parsed = decisions.parse_selection(called.text, size=size, limit=limit, shown=shown, context=context)
        queries = decisions.parse_searches(called.text, limit=1, context=context).value if allow_search else ()
        chosen = {"ids": parsed.value.ids, "dropped": parsed.value.dropped}
        return reply.record(Selection, parsed, **chosen), Search(query=queries[0]) if queries else None

    async def speak(self, debater: Debater, n: int, numbers: Sequence[int], view: View) -> Stance:
        """Ask one debater for its stance, with the passages ``numbers``: Eq. 3, or Eq. 4 as a reply to ``view``."""
        scene, task = self.scene, self.scene.task
        stage = "speak" if view.empty else "reply"
        asks_quotes = scene.protocol.cite or task.cites
        shows = ("own", "peers", "history", "groups", "digest", "critique")
        values = {"knowledge": numbers, "cite": bool(numbers) and asks_quotes} | {n: getattr(view, n) for n in shows}
        bindable = asks_quotes and scene.marker not in ("text", "alone") and not scene.weighs
        schema = partial(decisions.stance_schema, task, scene.question) if bindable else None
        droppable = len(view.peers) + len(view.history)
        reply = await self._ask(stage, debater, n, values, droppable=droppable, schema=schema, chat=view.chat)
        called = reply.called
        if called.error is not None:
            return reply.record(Stance, stage=stage, status="failed")
        shown = set(numbers) - set(called.truncated.passages if called.truncated else ())
        parsed = self._answer(reply, shown)
        answer, text = parsed.value, called.text
        if task.is_prose and answer is not None:
            answer = text = looked_up(answer, scene.question.question, scene.searchable(shown))
        return reply.record(
            Stance,
            parsed,
            stage=stage,
            text=text,
            answer=answer,
            confidence=decisions.parse_confidence(text, context=reply.context).value if scene.weighs else None,
            copied=is_copied(text, reply.context),
        )

    async def _ask(self, stage: str, debater: Debater, n: int, values: Mapping[str, Any], **how: Any) -> StageReply:
        scene, persona = self.scene, debater.persona
        if scene.rotates_personas:
            persona = scene.debaters[(scene.debaters.index(debater) - (n - 1)) % len(scene.debaters)].persona
        texts = scene.prepared.get(debater.name, {})
        prepared = {name: texts.get(name) for other in scene.debaters for name in other.prepare}
        shown = {**values, "debater": debater.name, "persona": persona, "prepared": prepared}
        return await scene.call(stage, debater.name, n, shown, **how)

    def _answer(self, reply: StageReply, shown: set[int]) -> Parsed[str | None]:
        (called, context, bound, simulated), scene = reply, self.scene
        task, question = scene.task, scene.question
        if simulated is not None:
            return Parsed(value=None, status="unmarked", rule="none")
        if bound is not None:
            return decisions.bound_answer(bound, task, question, context)
        text, cut = called.text, called.cut
        return answer_of(text, task, question, scene.marker, shown=shown, cut=cut, context=context)

    def show(self, **values: Any) -> None:
        """Let all templates show further values, under these names."""
        self.scene.shared.update(values)

    # Calls after the turns

    async def judge(self, *, asked: JudgeAsked = "always", history: bool = False, decides: bool = False) -> Verdict:
        """The judge's verdict on the last round (Wang et al., Eq. 5; Liang et al., Eq. 1).

        It is asked if at least two stances have text, parsed or not. A missing answer is no consensus, whatever the
        judge says; a judge that ``decides`` on the answer may still settle the debate.

        Args:
            asked: ``in_doubt``: not where the task's matcher decides.
            history: The judge reads all rounds.
            decides: The judge states the answer too, if it settles the debate.
        """
        if self._is_overruled:
            return Verdict(consensus=None, rule="not_asked")
        self._needs_two("a judge")
        if decides:
            self._compare("a judge that decides on the answer")
            self.used["decides"] = "judge"
        task, question, same = self.scene.task, self.scene.question, self.scene.same
        spoke = [turn for turn in self._last_turns() if turn.stance.status != "failed"]  # the debate goes on without
        answers = [turn.stance.answer for turn in spoke if turn.stance.answer is not None]
        lacks_answer, verdict = len(answers) < len(spoke), None
        if sum(bool(spoken.text.strip()) for spoken in stances_of(self.past)) < 2:
            verdict = Verdict(consensus=None, rule="too_few")
        elif asked == "in_doubt" and not task.is_prose:
            if lacks_answer:
                verdict = Verdict(consensus=False, rule="no_answer")
            elif all_agree(self._last_turns(), same):
                verdict = Verdict(consensus=True, rule="matcher")
            elif any(task.clearly_differ(one, other, question) for one, other in combinations(answers, 2)):
                verdict = Verdict(consensus=False, rule="values")
        if verdict is None:
            # It sees no pool.
            sides = [each.name for each in self.scene.debaters]
            schema = (lambda shown: decisions.verdict_schema(task, question, sides)) if decides else None
            reply = await self._conclude("judge", "judge", history, schema=schema)
            if reply.called.error is not None:
                verdict = reply.record(Verdict, consensus=None)
            else:
                parsed = self._decision(reply, sides=sides, read=lambda raw: task.read(raw, question))
                read = parsed.value
                parts = {"consensus": read.consensus, "side": read.side, "answer": read.answer, "reason": read.reason}
                verdict = reply.record(Verdict, parsed, **parts)
        if verdict.consensus and not decides and lacks_answer:
            verdict = replace(verdict, consensus=False, rule="no_answer")
        self._record(verdict=verdict)
        self.scene.tell(events.VerdictGiven, n=self.past[-1].n, verdict=verdict)
        self._finds("settled" if decides else "consensus", bool(verdict.consensus))
        return verdict

    def _decision(self, reply: StageReply, **how: Any) -> Parsed[Verdict]:
        if reply.bound is not None:
            return decisions.bound_verdict(reply.bound, self.scene.task, self.scene.question)
        return decisions.parse_verdict(reply.called.text, context=reply.context, **how)

    async def _conclude(
        self,
        stage: str,
        agent: str,
        history: bool = False,
        values: Mapping[str, Any] = MappingProxyType({}),
        *,
        schema: Schemas | None = None,
    ) -> StageReply:
        """Call a role outside the cast. Only stances of earlier rounds may be dropped, never the last round's."""
        stances, n = stances_of(self.past, history=history), self.past[-1].n
        old = sum(spoken.round < n for spoken in stances)
        return await self.scene.call(stage, agent, n, {**values, "stances": stances}, droppable=old, schema=schema)

    async def reflect(self) -> bool:
        """Whether every debater, asked to review its own stance, is satisfied."""
        if self._is_overruled:
            return False
        debaters, entry = {debater.name: debater for debater in self.scene.debaters}, self.past[-1]

        async def reviewed(turn: Turn) -> Turn:
            if turn.stance.status == "failed" or turn.agent not in debaters:
                return turn
            debater, own = debaters[turn.agent], turn.stance.text
            values = {"knowledge": self.scene.visible_passages(debater), "own": own}
            reply = await self._ask("reflect", debater, entry.n, values, schema=lambda shown: decisions.review_schema())
            if reply.called.error is not None:
                return replace(turn, reflection=reply.record(Reflection, satisfied=None))
            parsed = self._decision(reply)
            return replace(turn, reflection=reply.record(Reflection, parsed, satisfied=parsed.value.consensus))

        turns = tuple(await self.scene.gather(reviewed(turn) for turn in entry.turns))
        self._record(turns=turns)
        satisfied = [turn.reflection.satisfied for turn in turns if turn.reflection is not None]
        return self._finds("satisfied", bool(satisfied) and all(satisfied))

    async def remark(self, role: str, *, history: bool = False) -> Remark:
        """What a role outside the cast says of the last round, or of all rounds; its template has the role's name.

        It sees the pool. Debaters read it in the next round. It has no answer: the judge does not read it, and it has
        no vote.
        """
        values = {"knowledge": [*range(len(self.scene.pool.passages))]}
        remark = (await self._conclude(role, role, history, values)).record(Remark, role=role)
        self._record(remarks=(*self.past[-1].remarks, remark))
        return remark

    async def digest(self) -> None:
        """Let the summarizer sum up the debate so far. In the next round, debaters read this instead of each other."""
        before = self.past[-2].digest if len(self.past) > 1 else None
        values = {"stances": stances_of(self.past), "digest": before.text if before and not before.error else None}
        reply = await self.scene.call("digest", "summarizer", self.past[-1].n, values)
        self._record(digest=reply.record(Digest))

    def _record(self, **what: Any) -> None:
        self.past[-1] = replace(self.past[-1], **what)

    # What ends a debate

    def agreed(self, share: float = 1) -> bool:
        """Whether all answers of the last round, or that share of them, are the same under the task's matcher."""
        if self._is_overruled:
            return False
        self._compare("agreement")
        self._needs_two("agreement")
        return self._finds("agreement", all_agree(self._last_turns(), self.scene.same, share))

    def stable(self) -> bool:
        """Whether every debater repeats its answer of the previous round; a missing answer is not stable."""
        if self._is_overruled:
            return False
        self._compare("stability")
        if self._sizes:
            raise UserError("stability compares the answers of one debater; in layers each speaks once")
        if len(self.past) < 2:
            return False
        before = {turn.agent: turn.stance.answer for turn in self.past[-2].turns}
        answers = [(turn.stance.answer, before.get(turn.agent)) for turn in self.past[-1].turns]
        same = (new is not None and old is not None and self.scene.same(new, old) for new, old in answers)
        return self._finds("stability", all(same))

    def _finds(self, reason: str, is_reached: bool) -> bool:
        if is_reached:
            self._found = reason
        return is_reached

    def _compare(self, what: str) -> None:
        """Answers are compared here, so they cannot be texts."""
        self.compared = self.compared or what

    def _needs_two(self, what: str) -> None:
        if len(self.scene.protocol.cast) < 2:
            raise UserError(f"debaters = 1: {what} needs at least two debaters")

    # The answer

    async def summarize(self) -> Final:
        """The summarizer's answer from the last round (Wang et al., Eq. 6); a tie if the debate ended undecided.

        It sees no pool.
        """
        self.end()
        final = await self._final("summarize", "summarizer")
        if self.scene.task.is_prose and final.answer is not None:
            stances = [spoken.answer for spoken in stances_of(self.past) if spoken.answer is not None]
            text, check = merge_citations(final.answer, self.scene.question.question, stances)
            final = replace(final, answer=text, text=text, citations=check)
        verdict = self.past[-1].verdict
        is_settled = verdict is not None and verdict.consensus
        return replace(final, tie=not is_settled and len(answer_groups(self._last_turns(), self.scene.same)) > 1)

    def vote(self, *, by: str = "majority") -> Final:
        """The answer of the largest group; a tie goes to the group with the earliest debater and is recorded."""
        return replace(self._tally(by, lambda turn: 1), scores={})

    def weigh(self) -> Final:
        """The answer with the largest sum of recalibrated confidences (Chen et al., 2024, ReConcile)."""
        self.used["weigh"] = "weighted"
        return self._tally("weighted", lambda turn: vote_weight(turn.stance.confidence))

    def decided(self, verdict: Verdict) -> Final | None:
        """The answer in the verdict of a judge that settled the debate; None if it has none."""
        if not verdict.consensus or verdict.answer is None:
            return None
        self.end()
        return Final(by="judge", answer=verdict.answer, text=verdict.text, rule=verdict.rule, agent=verdict.side)

    async def extract(self, *, each_round: bool = False) -> Final:
        """The answer that the judge extracts from the whole debate. ``each_round``: so far, and it is recorded."""
        self._compare("an answer that the judge extracts")
        self.used["decides"] = "extract"
        if not each_round:
            self.end()
        final = await self._final("extract", "judge", [each.name for each in self.scene.debaters])
        if each_round:
            self._record(extracted=final)
        return final

    async def pick(self) -> Final:
        """The answer of the debater that the judge picks. An unreadable pick is an abstention."""
        self.used["decides"] = "pick"
        self.end()
        reply = await self._conclude("pick", "judge")
        if reply.called.error is not None:
            return reply.record(Final, by="judge", status="failed")
        names = [spoken.agent for spoken in stances_of(self.past)]
        parsed = decisions.parse_pick(reply.called.text, names, context=reply.context)
        final = reply.record(Final, parsed, by="judge", agent=parsed.value)
        if final.agent is None:
            return final
        stance = next(turn.stance for turn in self.past[-1].turns if turn.agent == final.agent)
        return replace(final, answer=stance.answer, status=stance.status)

    def overlap(self) -> Final:
        """The answer of the last stance whose words overlap most with the others'; in a tie, the earliest debater's."""
        turns = self._turns_with_answers()
        if not turns:
            return self._no_answer("convergence")
        return _best(turns, overlaps([turn.stance.text for turn in turns]), by="convergence", rule="overlap")

    async def score(self) -> Final:
        """The answer with the highest score of the answer scorer (He et al., 2024; Liang et al., section 4.1)."""
        self.used["score"] = "rerank"
        turns = self._turns_with_answers()
        if not turns:
            return self._no_answer("rerank")
        assert self.scene.score_answers is not None, "hold_debate() checks that there is an answer scorer"
        try:
            scores = await self.scene.score_answers(self.scene.question, [turn.stance.answer or "" for turn in turns])
            if len(scores) != len(turns) or not all(map(isfinite, scores)):
                raise UserError(f"expected {len(turns)} finite scores, one per answer, found {list(scores)}")
        except UserError as error:
            return Final(by="rerank", status="failed", rule="none", error=f"the answer scorer failed: {error}")
        return _best(turns, scores, by="rerank", rule="answer_scorer")

    def only(self) -> Final:
        """The only debater's own answer."""
        if (count := self._sizes[self._number - 1] if self._sizes else len(self.scene.debaters)) != 1:
            raise UserError(f"the answer is that of the only debater, but {count} speak in the last round")
        self.end()
        stance = self.past[-1].turns[0].stance
        return Final(by="only", answer=stance.answer, status=stance.status, rule=stance.rule, text=stance.text)

    async def _final(self, stage: str, agent: str, sides: Sequence[str] = ()) -> Final:
        """The answer to a call about the last round; with ``sides``, about the whole debate and for one of them."""
        scene = self.scene
        bindable = scene.marker != "text"
        schema = (lambda shown: decisions.answer_schema(scene.task, scene.question, sides)) if bindable else None
        reply = await self._conclude(stage, agent, bool(sides), schema=schema)
        called, bound = reply.called, reply.bound
        if called.error is not None:
            return reply.record(Final, by=agent, status="failed")
        turns = (turn for entry in self.past for turn in entry.turns)
        # The passages that the debaters were shown.
        parsed = self._answer(reply, {n for turn in turns for n in scene.citable_numbers(turn)})
        if bound is not None:
            side = decisions.bound_side(bound)
        else:
            side = decisions.parse_side(called.text, sides, context=reply.context).value
        return reply.record(Final, parsed, by=agent, answer=parsed.value, agent=side)

    def _last_turns(self) -> list[Turn]:
        """The turns on which the answer rests, in the order of the cast."""
        last = self.past if self.samples else self.past[-1:]
        return by_cast([turn for entry in last for turn in entry.turns], [each.name for each in self.scene.debaters])

    def _turns_with_answers(self) -> list[Turn]:
        self.end()
        return [turn for turn in self._last_turns() if turn.stance.answer is not None]

    def _tally(self, by: str, weight: Callable[[Turn], float]) -> Final:
        self._compare("a vote")
        self.end()
        groups = answer_groups(self._last_turns(), self.scene.same)
        if not groups:
            return self._no_answer(by)
        scores = {group[0].stance.answer or "": sum(map(weight, group)) for group in groups}
        answer = max(scores, key=scores.__getitem__)
        tie = sum(abs(score - scores[answer]) < 1e-9 for score in scores.values()) > 1
        return Final(by=by, answer=answer, rule="tie" if tie else "votes", tie=tie, scores=scores)

    def _no_answer(self, by: str) -> Final:
        """No debater has an answer. It is an abstention only if none of their replies was unreadable."""
        unread = (turn.stance for turn in self._last_turns() if turn.stance.status in UNREAD_STATUSES)
        if (stance := next(unread, None)) is not None:
            return Final(by=by, status=stance.status, rule=stance.rule)
        return Final(by=by, status="abstained", rule="declined")


def overlaps(texts: Sequence[str]) -> list[float]:
    """For each text, the sum of its overlaps with the others: Jaccard indexes of sets of lower-case words.

    Summed in the order of the texts, as the package lemmas does: with four texts or more, rounding can decide a tie.
    """
    words = [frozenset(text.lower().split()) for text in texts]
    return [
        sum((len(own & other) / max(1, len(own | other)) for m, other in enumerate(words) if m != n), 0.0)
        for n, own in enumerate(words)
    ]


def vote_weight(confidence: float | None) -> float:
    """The vote weight of a confidence (0 .. 1), lowered since models overstate it (Chen et al., 2024, section 3.3)."""
    if confidence is None or confidence <= 0.6:
        return 0.1
    if confidence < 0.8:
        return 0.3
    if confidence < 0.9:
        return 0.5
    return 0.8 if confidence < 1 else 1.0


def _best(turns: Sequence[Turn], scores: Sequence[float], *, by: str, rule: str) -> Final:
    score_of = {turn.agent: float(score) for turn, score in zip(turns, scores, strict=True)}
    best = max(turns, key=lambda turn: score_of[turn.agent])
    tie = list(score_of.values()).count(score_of[best.agent]) > 1
    return Final(by=by, answer=best.stance.answer, agent=best.agent, scores=score_of, rule=rule, tie=tie)
