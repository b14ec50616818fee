"""The scripted model of the frozen debates: what every role says in each kind of debate."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.question import Question

LAKES = ("Lake Baikal", "Lake Tanganyika", "the Caspian Sea", "Lake Vostok")
"""The answers of debaters who differ; the first is right."""

MARKERS = {"standard": "alone", "rag": "alone", "madke-reference": "brackets"}
"""Protocol -> how it asks for answers; all others want the plain sentence."""

PLACES = {
    **{"Answerer": 1, "Affirmative": 1, "Negative": 2, "General Public": 1, "Critic": 2, "News Author": 3},
    **{"Plain": 1, "Keywords": 2, "Topics": 3, "Example": 4},
}
"""Debater with a name -> its place in the cast, from 1."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """The place of one call in a debate."""

    protocol: str
    stage: str
    agent: str
    round: int

    @property
    def place(self) -> int:
        """The debater's place in the cast, from 1; 0 for other roles."""
        number = re.search(r"\d+$", self.agent)
        return int(number[0]) if number else PLACES.get(self.agent, 0)

    @property
    def speaks(self) -> bool:
        """Whether a debater states its stance."""
        return self.stage in ("speak", "reply")


FAILED = Completion(outcome="failed", error="the server is gone", finish_reason="error")


@dataclass(frozen=True, kw_only=True)
class Mood:
    """What is said in one kind of debate."""

    answer: Callable[[Call], str] = lambda call: LAKES[0]
    """The answer of a debater, a judge or a summarizer."""
    agreed: Callable[[Call], bool | None] = lambda call: True
    """What a judge finds, or a debater about its own stance; None: nothing that can be read."""
    instead: Callable[[Call], Completion | str | None] = lambda call: None
    """A failure, or another text than a stance or verdict."""
    selected: Callable[[Call], str] = lambda call: "[0] [2]"
    confidence: Callable[[Call], str] = lambda call: "0.9"
    bound: str = "fits"
    """What a model that takes schemas does: ``fits``, ``ignores`` them, or is ``broken``."""


def own(call: Call) -> str:
    """Every debater keeps an answer of its own."""
    return LAKES[(call.place - 1) % len(LAKES)] if call.place else LAKES[0]


def from_round(n: int, then: Callable[[Call], Any], before: Callable[[Call], Any]) -> Callable[[Call], Any]:
    """What is said changes in round ``n``."""
    return lambda call: (then if call.round >= n else before)(call)


def failing(when: Callable[[Call], bool]) -> Callable[[Call], Completion | None]:
    """Calls that fail."""
    return lambda call: FAILED if when(call) else None


def turn_by_turn(call: Call) -> int:
    """0, 1 or 2: changes with debater and round."""
    return (call.place + call.round) % 3


def quiet(call: Call) -> Completion | str | None:
    """Debaters who say nothing, or decline, by turns."""
    if not call.speaks:
        return None
    return (None, Completion(text="", outcome="empty", finish_reason="stop"), "I do not know the answer.")[
        turn_by_turn(call)
    ]


def unreadable(call: Call) -> Completion | str | None:
    """Replies that are cut off, or give the question back, by turns; all others say nothing that can be read."""
    if call.stage == "digest" or call.stage in PREPARED:
        return None
    if call.speaks or call.stage in ("summarize", "extract"):
        cut = Completion(text="First, I look at the first lake, and then at", finish_reason="length")
        return (None, cut, "Which lake is the deepest?")[turn_by_turn(call)] if call.place else cut
    return "Hm."


PREPARED = ("keywords", "topics", "example")


def quoting(call: Call) -> str | None:
    """Stances that quote a passage, one that was not shown too, after hidden reasoning."""
    if not call.speaks:
        return None
    passage = 5 if call.place == 2 else 0
    quote = f'<think>Lake Chad?</think>"Lake Baikal is 1,642 metres deep" [{passage}].'
    return f"{quote}\n{stated(call, own(call))}"


DISPUTED = Mood(answer=own, agreed=lambda call: False)
"""Nobody gives in."""


def failing_dispute(when: Callable[[Call], bool]) -> Mood:
    """Nobody gives in, and these calls fail."""
    return replace(DISPUTED, instead=failing(when))


MOODS: Mapping[str, Mood] = {
    "agree": Mood(),
    "differ": replace(DISPUTED, confidence=lambda call: ("0.6", "0.7", "1")[call.place % 3]),
    "converge": Mood(
        answer=from_round(2, lambda call: LAKES[1], own), agreed=from_round(2, lambda call: True, lambda call: False)
    ),
    "last": Mood(
        answer=from_round(3, lambda call: LAKES[0], own), agreed=from_round(3, lambda call: True, lambda call: False)
    ),
    "misjudged": Mood(answer=own),
    "sideless": Mood(answer=lambda call: "" if call.stage == "judge" else own(call)),
    "two-camps": Mood(
        answer=lambda call: LAKES[1] if call.place in (2, 3) else LAKES[0],
        agreed=lambda call: False,
        confidence=lambda call: "0.5",
    ),
    "weights": Mood(
        answer=lambda call: LAKES[1] if call.place == 4 else LAKES[0],
        agreed=lambda call: False,
        confidence=lambda call: "0.7" if call.place == 4 else "0.5",
    ),
    "quiet": replace(DISPUTED, instead=quiet, selected=lambda call: "none"),
    "unreadable": Mood(answer=own, instead=unreadable),
    "unread": Mood(instead=lambda call: unreadable(call) or ("Which lake is the deepest?" if call.speaks else None)),
    "by-turns": failing_dispute(lambda call: call.speaks and not turn_by_turn(call)),
    "all-fail": Mood(instead=failing(lambda call: True)),
    "round-fails": failing_dispute(lambda call: call.speaks and call.round == 2),
    "survivor": failing_dispute(lambda call: call.speaks and call.place > 1),
    "alone-at-first": failing_dispute(lambda call: call.speaks and call.place > 1 and call.round == 1),
    "first-fails-later": failing_dispute(lambda call: call.speaks and call.place == 1 and call.round > 1),
    "judge-fails": Mood(answer=own, instead=failing(lambda call: call.stage in ("judge", "reflect"))),
    "end-fails": failing_dispute(lambda call: call.stage in ("summarize", "extract", "pick", "digest")),
    "selection-fails": failing_dispute(lambda call: call.stage in ("select", *PREPARED) and call.place != 1),
    "copies": Mood(
        answer=lambda call: LAKES[1],
        agreed=lambda call: False,
        instead=lambda call: "It is long and deep.\nThe answer is Lake Tanganyika." if call.speaks else None,
    ),
    "quotes": replace(DISPUTED, instead=quoting, selected=lambda call: "[5] [0] [1] [3]"),
    "ignores": replace(DISPUTED, bound="ignores"),
    "broken": replace(DISPUTED, bound="broken"),
}


def stated(call: Call, answer: str) -> str:
    """A stance with this answer, in the form that its protocol asks for."""
    marker = MARKERS.get(call.protocol, "plain")
    if marker == "alone":
        return answer
    shown = f"[{answer}]" if marker == "brackets" else answer
    return f"{call.agent} compared depths in round {call.round}.\nThe answer is {shown}."


def reply(call: Call, mood: Mood) -> str | Completion:
    """The reply to a call in free text."""
    instead = mood.instead(call)
    if instead is not None:
        return instead
    agreed = mood.agreed(call)
    match call.stage:
        case "select":
            search = f"[Search: depth, wanted by {call.agent} in round {call.round}]\n"
            return f"{search if call.protocol == 'madke-live' else ''}Selected: {mood.selected(call)}"
        case "judge" if call.protocol == "liang":
            side = "Affirmative" if mood.answer(call) and agreed else ""
            answer = mood.answer(call) if agreed else ""
            return json.dumps({"reason": "The depths.", "settled": agreed, "side": side, "answer": answer})
        case "judge" if call.protocol == "madke-reference":
            return "[Yes]" if agreed else "[No]"
        case "judge":
            return f"Verdict: {'SAME' if agreed else 'DIFFERENT'}"
        case "reflect":
            return f"I checked the depth.\nVerdict: {'KEEP' if agreed else 'REVISE'}"
        case "pick":
            return "The second one.\n[Debater 2]"
        case "digest":
            return f"After round {call.round}, the debaters name several lakes."
        case stage if stage in PREPARED:
            return f"{call.agent}: deep lake"
        case "extract":
            return f"Side: Negative\n{stated(call, mood.answer(call))}"
    text = stated(call, mood.answer(call))
    return f"{text}\nConfidence: {mood.confidence(call)}" if call.protocol == "reconcile" and call.speaks else text


def bound_reply(call: Call, mood: Mood, schema: Any) -> str:
    """The reply as JSON of a schema."""
    agreed = bool(mood.agreed(call))
    values = {
        "reasoning": f"{call.agent} compared depths.",
        "selected": [int(number) for number in re.findall(r"\d", mood.selected(call))],
        "quotes": [{"passage": 0, "text": "Lake Baikal is 1,642 metres deep"}],
        "answer": mood.answer(call) or "none",
    }
    found: dict[str, Any] = {}
    for each in schema.fields:
        found[each.name] = values.get(each.name, "")
        if each.words:  # the first word agrees or names the first debater, the last but one does not
            found[each.name] = each.words[0] if agreed else each.words[1]
        if each.numbers is not None and each.name == "selected":
            found[each.name] = [number for number in values["selected"] if number in each.numbers]
    text = json.dumps(found)
    return text[:-2] if mood.bound == "broken" else text


@dataclass(frozen=True, kw_only=True)
class Debated:
    """One debate of a frozen run."""

    mood: str
    passages: int = 6
    limit: int | None = None
    """The characters of the longest prompt that fits the model."""
    question: Question | None = None
    first_round: tuple[tuple[str, str, str | None], ...] = ()
    """Agent, text and answer of each given stance."""


@dataclass(kw_only=True)
class ScriptedModel:
    """A model that plays all roles, and records what it is asked."""

    protocol: str
    debates: Mapping[str, Debated]
    takes_schemas: bool = False
    name: str = "frozen"
    calls: list[dict[str, Any]] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    """The queries that debaters sent."""

    async def complete(self, request: Any) -> Completion:
        """The scripted reply."""
        purpose = request.purpose
        debated = self.debates[purpose.question]
        mood = MOODS[debated.mood]
        call = Call(protocol=self.protocol, stage=purpose.stage, agent=purpose.agent, round=purpose.round)
        is_bound = request.bound is not None and mood.bound != "ignores"
        sent = request.in_form(bound=is_bound)
        length = sum(len(message.content) for message in sent.messages)
        self.record(request, sent)
        if call.stage == "select" and call.place == 1:
            await self._others_first()
        said = reply(call, mood)
        if debated.limit is not None and length > debated.limit:
            said = Completion(outcome="too_long", error="the prompt is too long", finish_reason="error")
        elif is_bound and not isinstance(said, Completion):
            said = bound_reply(call, mood, request.bound.schema)
        completion = said if isinstance(said, Completion) else Completion(text=said)
        if request.on_delta is not None:
            for start in range(0, len(completion.text), 20):
                request.on_delta(completion.text[start : start + 20])
        usage = Usage(prompt_tokens=length // 4, completion_tokens=len(completion.text) // 4)
        return replace(completion, usage=usage, bound=None if request.bound is None else is_bound)

    async def _others_first(self) -> None:
        """Let the others' searches begin first, if they may before all have selected."""
        known = len(self.searched)
        for _ in range(40):
            if len(self.searched) > known:
                return
            await asyncio.sleep(0)

    def record(self, request: Any, sent: Any) -> None:
        """Keep what a call was asked."""
        purpose = request.purpose
        # The hashes were recorded when a schema could be required; none of these was.
        schema = [sent.bound.schema, False] if sent.bound is not None else None
        text = "\n".join(f"--- {message.role}\n{message.content}" for message in sent.messages)
        self.calls.append(
            {
                "question": purpose.question,
                "repeat": purpose.repeat,
                "round": purpose.round,
                "stage": purpose.stage,
                "agent": purpose.agent,
                "sample": purpose.sample,
                "temperature": request.temperature,
                "seed": request.seed,
                "text": f"{text}\n--- {request.max_tokens} tokens, stop {list(request.stop)}, schema {schema}",
                "values": stand_in_values(request),
            }
        )


def stand_in_values(request: ChatRequest) -> str:
    """What a stand-in for a language model is told of a call, besides its messages."""
    stage = request.stage
    if stage is None:
        return ""
    others = [(each.agent, each.round, each.answer, each.confidence) for each in stage.others]
    passages = [passage.number for passage in stage.passages]
    flags = (stage.allow_search, stage.asks_confidence, stage.decides)
    return repr((stage.marker, stage.persona, passages, stage.own, others, stage.max_selected, flags))


def short_hash(text: str) -> str:
    """Ten digits that tell texts apart."""
    return sha256(text.encode()).hexdigest()[:10]
