"""The agreement at the end of a debate, and the map of a disagreement: who holds which answer, and what says so."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Agreement, PoolEntry, Selection, Stance, Transcript, Turn, from_json, to_json
from madke.engine.agreement import ConflictMap, conflicts_of
from madke.tasks import get_task
from tests.conftest import passage
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate
from tests.support.debates import asked, disagreeing_until, play, shown

SAID = (
    "Lake Baikal is the deepest lake in the world.",
    "Lake Tanganyika is the second deepest lake.",
    "Some lakes freeze in winter.",
)
POOL = KnowledgePool(passages=tuple(passage("wiki", str(n), "", text, rank=n) for n, text in enumerate(SAID)))


def ended(reply: Any = None, name: str = "madke", pool: KnowledgePool = POOL, **options: Any) -> Agreement:
    transcript, _ = play(name, reply or disagreeing_until(2), pool=pool, sources=("wiki",), **options)
    assert from_json(to_json(transcript)) == transcript
    assert transcript.agreement is not None
    return transcript.agreement


def test_a_consensus_names_supporters_passages_and_who_changed() -> None:
    found = ended()
    assert (found.outcome, found.by, found.same, found.dissent) == ("consensus", "judge", True, ())
    (position,) = found.positions
    assert position.answer == "Lake Baikal"
    assert position.supporters == ("Debater 1", "Debater 2")
    assert (position.passages, position.containing, found.cited) == ((0, 2), (0,), (0,))
    (change,) = found.changes
    assert (change.agent, change.round, change.before, change.after) == (
        "Debater 2", 2, "Lake Tanganyika", "Lake Baikal",
    )  # fmt: skip


def test_a_split_has_the_final_answer_first_and_the_dissent() -> None:
    found = ended(disagreeing_until(9))
    assert (found.outcome, found.by, found.same) == ("split", "judge", False)
    assert [each.answer for each in found.positions] == ["Lake Baikal", "Lake Tanganyika"]
    assert found.dissent == ("Debater 2",)
    assert found.positions[1].containing == (), "it chose passages 0 and 2, which do not name Tanganyika"


def test_a_judge_may_find_consensus_where_the_answers_differ() -> None:
    def reply(request: ChatRequest) -> Any:
        return "[Yes]" if request.purpose.stage == "judge" else disagreeing_until(9)(request)

    found = ended(reply)
    assert (found.outcome, found.by, found.same) == ("consensus", "judge", False)
    assert found.dissent == ("Debater 2",)


def test_a_missing_answer_is_no_agreement_whatever_the_judge_says() -> None:
    def reply(request: ChatRequest) -> Any:
        if request.purpose.stage in ("speak", "reply") and request.purpose.agent == "Debater 2":
            return "I have read all passages and agree with the others."
        return "[Yes]" if request.purpose.stage == "judge" else disagreeing_until(1)(request)

    found = ended(reply, settings={"judge_asked": "always"})
    assert (found.outcome, found.same, found.silent) == ("split", False, ("Debater 2",))


LAKES = Question(id="q", question="Which?", task="choice", choices=("Lake Tanganyika", "Lake Baikal", "3"))


@pytest.mark.parametrize(
    ("question", "answer", "containing"),
    [
        (Question(id="q", question="Is Baikal a lake?"), "yes", None),
        (LAKES, "(C)", None),
        (LAKES, "(B)", (0,)),
    ],
)
def test_yes_no_and_options_without_words_cannot_be_looked_up(question: Question, answer: str, containing: Any) -> None:
    found = ended(lambda request: f"The answer is {answer}.", "rag", question=question)
    assert (found.positions[0].containing, found.cited) == (containing, containing or ())
    assert found.checked is bool(containing)


def test_quotes_are_looked_up_and_a_false_one_is_no_citation() -> None:
    said = 'Passage 1 says "Lake Baikal is the deepest lake in the world" [1] and "Lake Baikal lies in Wales" [2].'
    found = ended(lambda request: f"{said} The answer is yes.", "rag", question=Question(id="q", question="Is it?"))
    assert [(quote.passage, quote.status, quote.found_in) for quote in found.quotes] == [
        (1, "misattributed", (0,)), (2, "not_found", ()),
    ]  # fmt: skip
    assert found.cited == (0,)
    assert found.checked


@pytest.mark.parametrize(("pool", "asks"), [(POOL, True), (KnowledgePool(), False)])
def test_prompts_ask_for_quotes_where_there_is_something_to_quote(pool: KnowledgePool, asks: bool) -> None:
    _, model = play("madke", disagreeing_until(2), pool=pool, sources=("wiki",), settings={"cite": True})
    assert ("quotation marks" in shown(asked(model, stage="speak")[0])) is asks
    assert "quotation marks" not in shown(asked(model, stage="judge")[0])


# The map of a disagreement: positions, what stands behind them, contradictions and changes.

TEXTS = {
    0: "Lake Baikal\nLake Baikal is the deepest lake on Earth, at 1,642 metres.",
    1: "Lake Tanganyika\nLake Tanganyika is the deepest lake of Africa, at 1,470 metres.",
    2: "Lists\nThe deepest lakes are Lake Baikal and Lake Tanganyika.",
    3: "Rivers\nThe Amazon is a river.",
}
ENTRIES = tuple(PoolEntry(n=n, source="web" if n == 2 else "wiki", key=str(n), title="") for n in TEXTS)


def mapped(transcript: Transcript, texts: Any = TEXTS) -> ConflictMap:
    found = conflicts_of(transcript, get_task(transcript.task), texts)
    assert found is not None
    return found


def with_turn(transcript: Transcript, n: int, agent: str, **changes: Any) -> Transcript:
    """The debate with other fields in a debater's turn of round ``n``."""

    def changed(turn: Turn) -> Turn:
        return replace(turn, **changes) if turn.agent == agent else turn

    rounds = tuple(
        replace(entry, turns=tuple(map(changed, entry.turns))) if entry.n == n else entry for entry in transcript.rounds
    )
    return replace(transcript, rounds=rounds)


def test_positions_are_the_answers_of_all_rounds_with_their_holders_and_passages() -> None:
    found = mapped(debate([WRONG, RIGHT, None], ["Baikal", RIGHT, FAILED], pool=ENTRIES))
    first, second = found.positions
    assert (first.answer, first.final, second.answer, second.final) == (RIGHT, True, WRONG, False)
    assert first.held == {"A": (2,), "B": (1, 2)}
    assert second.held == {"A": (1,)}
    assert first.containing == (0, 2)


def test_answers_contradict_each_other_if_both_stand_in_passages() -> None:
    ((one, other),) = mapped(debate([WRONG, RIGHT, OTHER], pool=ENTRIES)).contradictions
    assert (one.answer, other.answer) == (RIGHT, WRONG)
    assert (one.containing, other.containing) == ((0, 2), (1, 2))
    unseen = mapped(debate([WRONG, RIGHT], pool=ENTRIES), texts=None)
    assert [each.containing for each in unseen.positions] == [None, None]
    assert unseen.contradictions == ()


def test_what_a_debater_had_read_stands_next_to_its_change() -> None:
    held = debate(
        [WRONG, RIGHT, RIGHT], [RIGHT, RIGHT, RIGHT], selected=[[(1,), (), ()], [(0, 1), (), ()]], pool=ENTRIES
    )
    (change,) = mapped(with_turn(held, 2, "A", reads=("B", "A"))).changes
    assert (change.change.agent, change.change.before, change.change.after) == ("A", WRONG, RIGHT)
    assert (change.read, change.passages) == (("B",), (0,))
    (alone,) = mapped(with_turn(held, 2, "A", selection=Selection(ids=(1, 3)))).changes
    assert (alone.read, alone.passages) == ((), ())


def test_quotes_of_all_rounds_are_looked_up() -> None:
    quote = 'It says "Lake Tanganyika is the deepest lake of Africa" [1]. The answer is Lake Tanganyika.'
    held = debate([WRONG, RIGHT], [RIGHT, RIGHT], selected=[[(), (0,)], [(), (0,)]], pool=ENTRIES)
    held = with_turn(held, 1, "A", stance=Stance(text=quote, answer=WRONG), selection=None)
    found = mapped(held)
    (looked_up,) = found.positions[1].quotes
    assert (looked_up.status, looked_up.found_in) == ("found", (1,))


def test_silence_and_prose_have_no_map() -> None:
    silent = debate([None, None], answer=None)
    assert conflicts_of(silent, get_task(silent.task), TEXTS) is None
    prose = debate(["Baikal [0].", "Tanganyika [1]."], task="text", pool=ENTRIES)
    assert conflicts_of(prose, get_task(prose.task), TEXTS) is None


def test_a_title_that_the_question_names_is_no_quote_unless_a_passage_is_named() -> None:
    held = debate([RIGHT, WRONG], pool=ENTRIES, question='Which of "the deepest lakes" is first?')
    for number, quotes in (("", 0), (" [2]", 1)):
        stance = Stance(text=f'It is in "The deepest lakes"{number}. The answer is Lake Baikal.', answer=RIGHT)
        assert len(mapped(with_turn(held, 1, "A", stance=stance)).positions[0].quotes) == quotes
