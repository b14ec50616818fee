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


def debate(*turns: Any, final: Any = None, rounds: Any = None, **changes: Any) -> Any:
    entry = {"n": 1, "order": tuple(turn.agent for turn in turns), "turns": turns}
    rounds = rounds or (Round(**{**entry, **changes.pop("entry", {})}),)
    final = final or Final(by="majority", answer="Baikal")
    return debate_text(
        transcript("q1", said=[], consensus=None, answer="Baikal", rounds=rounds, final=final, **changes)
    )


def turn(
    agent: Any,
    answer: str = "Baikal",
    reads: Any = (),
    selection: Any = None,
    search: Any = None,
    reflection: Any = None,
    **stance: Any,
) -> Any:
    said = Stance(text=f"[{answer}]", answer=answer, **stance)
    return Turn(agent=agent, stance=said, reads=reads, selection=selection, search=search, reflection=reflection)


def lines(shown: Any) -> Any:
    return [line.strip() for line in shown.splitlines()]


def test_a_plain_debate_shows_nothing_of_what_it_does_not_have() -> None:
    reads = {"A": ("B", "C"), "B": ("A", "C"), "C": ("A", "B")}
    shown = debate(*(turn(agent, reads=read) for agent, read in reads.items()))
    assert lines(shown) == [
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


def test_a_search_and_what_it_found_in_the_pool() -> None:
    pool = (
        PoolEntry(n=0, source="wiki", key="k0", title="Lakes"),
        PoolEntry(n=1, source="google", key="k1", title="Depths", asked_by="A", query="depth", round=1),
    )
    shown = debate(
        turn("A", selection=Selection(ids=(0,)), search=Search(query="depth", ids=(1,))),
        turn("B", selection=Selection(rule="no_found"), search=Search(query="width", error="gone")),
        turn("C", search=Search(query="height")),
        pool=pool,
    )
    assert "[0] wiki     Lakes  (k0)" in lines(shown)
    assert "[1] google   Depths  (k1), found by A in round 1" in lines(shown)
    assert "A selects [0], searches for 'depth': [1]" in lines(shown)
    assert "B finds nothing helpful in the pool, searches for 'width': failed: gone" in lines(shown)
    assert "C searches for 'height': found nothing" in lines(shown)


def test_reflections_digest_extraction_and_confidence() -> None:
    shown = debate(
        turn("A", confidence=0.85, reflection=Reflection(satisfied=True, text="Well argued.")),
        turn("B", reflection=Reflection(satisfied=False, text="I forgot one.")),
        turn("C", reflection=Reflection(satisfied=None, error="HTTP 500")),
        entry={
            "digest": Digest(text="All agree."),
            "extracted": Final(by="judge", answer="Como", text="It is [Como]."),
        },
    )
    at = [lines(shown).index(text) for text in ("A confidence 0.85", "A is satisfied with its answer", "Well argued.")]
    assert at == sorted(at)
    assert "B is not satisfied with its answer" in lines(shown)
    assert "C is asked whether it is satisfied" in lines(shown)
    assert "HTTP 500" in lines(shown)
    assert "Answer extracted so far: [Como]" in lines(shown)
    assert lines(shown)[lines(shown).index("Summary for the next round:") + 1] == "All agree."


def test_remarks_stand_between_the_turns_and_the_judge() -> None:
    remarks = (Remark(role="sceptic", text="How deep\nis it?"), Remark(role="clerk", error="HTTP 500"))
    shown = lines(debate(turn("A"), entry={"remarks": remarks, "verdict": Verdict(consensus=True, text="SAME")}))
    at = shown.index("sceptic remarks")
    assert shown[at : at + 6] == [
        "sceptic remarks",
        "How deep",
        "is it?",
        "clerk remarks",
        "HTTP 500",
        "Judge: consensus",
    ]


def test_all_that_the_judge_decided() -> None:
    verdict = Verdict(consensus=True, side="Affirmative", answer="Baikal", reason="It is\ndeeper.", text="{...}")
    shown = debate(turn("A"), entry={"verdict": verdict})
    judge = lines(shown).index("Judge: consensus, sides with Affirmative, answer [Baikal]")
    assert lines(shown)[judge + 1 : judge + 3] == ["It is", "deeper."]


def test_what_was_left_out_of_prompts() -> None:
    shown = debate(
        turn("A", truncated=Truncation(stances=2)),
        turn("B", selection=Selection(ids=(0,), truncated=Truncation(passages=(4, 3)))),
        final=Final(by="summarizer", answer="Baikal", truncated=Truncation(stances=1, passages=(2,))),
    )
    assert "A (prompt too long: 2 stances left out)" in lines(shown)
    assert "B selects [0] (prompt too long: passages [4] [3] left out)" in lines(shown)
    assert any(line.endswith("(prompt too long: 1 stances and passages [2] left out)") for line in lines(shown))


def test_what_came_from_outside_or_was_prepared_is_named() -> None:
    first = Round(n=1, order=("S1", "S2"), turns=(turn("S1"), turn("S2")))
    second = Round(n=2, order=("A", "S1", "S2"), turns=(turn("A", reads=("S1", "S2")),))
    shown = debate(
        rounds=(first, second), first_round_given=True, prepared={"A": {"keywords": "lake, depth"}}, oracle=True
    )
    assert "--- round 1, from a file ---" in lines(shown)
    assert "--- round 2 ---" in lines(shown)
    assert lines(shown)[lines(shown).index("A prepares keywords:") + 1] == "lake, depth"
    assert "(analysis: reads the gold answers)" in lines(shown)


def test_new_texts_of_others_cannot_pass_for_lines_of_ours() -> None:
    forged = "x\n--- round 9 ---\nFinal answer, by forger: [x]\x1b[31m"
    entry = PoolEntry(n=0, source=forged, key=forged, title=forged, asked_by=forged, query=forged, round=1)
    said = turn(
        forged,
        forged,
        reads=(forged, "B"),
        search=Search(query=forged, error=forged),
        reflection=Reflection(satisfied=True, text=forged),
    )
    verdict = Verdict(consensus=True, side=forged, answer=forged, reason=forged, text=forged)
    final = Final(by=forged, answer=forged, agent=forged, scores={forged: 1.0}, text=forged)
    shown = debate(
        said,
        turn("B"),
        final=final,
        pool=(entry,),
        prepared={forged: {forged: forged}},
        entry={"order": ("B", forged), "scores": {forged: 1.0}, "verdict": verdict, "digest": Digest(text=forged)}
        | {"remarks": (Remark(role=forged, text=forged),)},
    )
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.startswith(("--- round 9", "Final answer, by forger"))]
