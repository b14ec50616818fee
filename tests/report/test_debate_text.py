"""One debate as text: what happened is shown, and nothing is shown that did not."""

from typing import Any

from madke.core.transcript import (
    Digest,
    Final,
    PoolEntry,
    Reflection,
    Remark,
    Round,
    Search,
    Selection,
    Stance,
    Truncation,
    Turn,
    Verdict,
)
from madke.report.debate_text import debate_text
from tests.support.transcripts import transcript


def text_of(*turns: Turn, entry: dict[str, Any] | None = None, **changes: Any) -> str:
    """A debate of one round as text. ``entry``: fields of the round; ``changes``: of the transcript."""
    only = Round(**{"n": 1, "order": tuple(turn.agent for turn in turns), "turns": turns, **(entry or {})})
    fields = {"rounds": (only,), "final": Final(by="majority", answer="Baikal"), **changes}
    return debate_text(transcript("q1", said=[], consensus=None, answer="Baikal", **fields))


def shown(*turns: Turn, **changes: Any) -> list[str]:
    return [line.strip() for line in text_of(*turns, **changes).splitlines()]


def turn(agent: str, answer: str = "Baikal", *, stance: dict[str, Any] | None = None, **fields: Any) -> Turn:
    return Turn(agent=agent, stance=Stance(text=f"[{answer}]", answer=answer, **(stance or {})), **fields)


def after(lines: list[str], head: str, count: int = 1) -> list[str]:
    """The lines below one of the lines."""
    at = lines.index(head) + 1
    return lines[at : at + count]


def test_a_plain_debate_shows_nothing_of_what_it_does_not_have() -> None:
    reads = {"A": ("B", "C"), "B": ("A", "C"), "C": ("A", "B")}
    assert shown(*(turn(agent, reads=read) for agent, read in reads.items())) == [
        "Question (q1): Which lake is the deepest?",
        "Gold: Lake Baikal",
        "",
        "--- round 1 ---",
        *[line for agent in "ABC" for line in (agent, "[Baikal]")],
        "",
        "Final answer, by majority: [Baikal]",
        "Agreement: consensus, by the task's matcher.",
        "[Baikal] A, B, C",
        "Ended by: rounds. 2 calls, 110 tokens.",
    ]


def test_searches_and_what_they_found_in_the_pool() -> None:
    pool = (
        PoolEntry(n=0, source="wiki", key="k0", title="Lakes"),
        PoolEntry(n=1, source="google", key="k1", title="Depths", asked_by="A", query="depth", round=1),
    )
    lines = shown(
        turn("A", selection=Selection(ids=(0,)), search=Search(query="depth", ids=(1,))),
        turn("B", selection=Selection(rule="no_found"), search=Search(query="width", error="gone")),
        turn("C", search=Search(query="height")),
        pool=pool,
    )
    assert {
        "[0] wiki     Lakes  (k0)",
        "[1] google   Depths  (k1), found by A in round 1",
        "A selects [0], searches for 'depth': [1]",
        "B finds nothing helpful in the pool, searches for 'width': failed: gone",
        "C searches for 'height': found nothing",
    } <= {*lines}


def test_what_debaters_remarkers_and_the_judge_said_after_the_turns_in_order() -> None:
    lines = shown(
        turn("A", stance={"confidence": 0.85}, reflection=Reflection(satisfied=True, text="Well argued.")),
        turn("B", reflection=Reflection(satisfied=False, text="I forgot one.")),
        turn("C", reflection=Reflection(satisfied=None, error="HTTP 500")),
        entry={
            "remarks": (Remark(role="sceptic", text="How deep\nis it?"), Remark(role="clerk", error="HTTP 500")),
            "verdict": Verdict(
                consensus=True, side="Affirmative", answer="Baikal", reason="It is\ndeeper.", text="{...}"
            ),
            "extracted": Final(by="judge", answer="Como", text="It is [Como]."),
            "digest": Digest(text="All agree."),
        },
    )
    assert "A confidence 0.85" in lines
    assert " ".join(after(lines, "A is satisfied with its answer", 17)) == (
        "Well argued. B is not satisfied with its answer I forgot one. C is asked whether it is satisfied HTTP 500 "
        "sceptic remarks How deep is it? clerk remarks HTTP 500 "
        "Judge: consensus, sides with Affirmative, answer [Baikal] It is deeper. "
        "Answer extracted so far: [Como] It is [Como]. Summary for the next round: All agree."
    )


def test_what_was_left_out_of_prompts() -> None:
    lines = shown(
        turn("A", stance={"truncated": Truncation(stances=2)}),
        turn("B", selection=Selection(ids=(0,), truncated=Truncation(passages=(4, 3)))),
        final=Final(by="summarizer", answer="Baikal", truncated=Truncation(stances=1, passages=(2,))),
    )
    assert "A (prompt too long: 2 stances left out)" in lines
    assert "B selects [0] (prompt too long: passages [4] [3] left out)" in lines
    assert any(line.endswith("(prompt too long: 1 stances and passages [2] left out)") for line in lines)


def test_what_came_from_outside_or_was_prepared_is_named() -> None:
    first = Round(n=1, order=("S1", "S2"), turns=(turn("S1"), turn("S2")))
    second = Round(n=2, order=("A", "S1", "S2"), turns=(turn("A", reads=("S1", "S2")),))
    prepared = {"A": {"keywords": "lake, depth"}}
    lines = shown(rounds=(first, second), first_round_given=True, prepared=prepared, oracle=True)
    assert "--- round 1, from a file ---" in lines
    assert "--- round 2 ---" in lines
    assert after(lines, "A prepares keywords:") == ["lake, depth"]
    assert "(analysis: reads the gold answers)" in lines


def test_texts_of_others_cannot_pass_for_lines_of_ours() -> None:
    forged = "x\n--- round 9 ---\nFinal answer, by forger: [x]\x1b[31m"
    said = turn(
        forged,
        forged,
        reads=(forged, "B"),
        search=Search(query=forged, error=forged),
        reflection=Reflection(satisfied=True, text=forged),
    )
    entry = {
        "order": ("B", forged),
        "scores": {forged: 1.0},
        "verdict": Verdict(consensus=True, side=forged, answer=forged, reason=forged, text=forged),
        "digest": Digest(text=forged),
        "remarks": (Remark(role=forged, text=forged),),
    }
    final = Final(by=forged, answer=forged, agent=forged, scores={forged: 1.0}, text=forged)
    pool = (PoolEntry(n=0, source=forged, key=forged, title=forged, asked_by=forged, query=forged, round=1),)
    text = text_of(said, turn("B"), entry=entry, final=final, pool=pool, prepared={forged: {forged: forged}})
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line.startswith(("--- round 9", "Final answer, by forger"))]
