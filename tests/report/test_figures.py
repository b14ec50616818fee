"""Figures: which there are, and what they say."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from madke.core.transcript import Transcript
from madke.engine.protocol import as_protocol
from madke.report import figures
from madke.report.figures import (
    SETTINGS,
    Drawing,
    DrawnArm,
    arms_of,
    by_setting,
    file_bytes,
    gain_by_step,
    gains,
    style,
)
from madke.runs.directory import RunRecord
from madke.scoring.arms import Results, read_arm
from madke.scoring.scores import scores_of
from tests.report.run_folders import debate
from tests.support.transcripts import arm as arm_of

HOSTILE = '$x^2$ <script>alert(1)</script> & "it\'s" \\frac{1}{2}'


def debates(right: int = 3, rounds: Sequence[str] = ("xy", "xx"), **changes: Any) -> list[Transcript]:
    """Four debates, of which some end with the right answer."""
    return [debate(f"q{n}", *rounds, answer="Lake Baikal" if n < right else "x", **changes) for n in range(4)]


def config(data: str = "nq.jsonl", model: str = "openai/m", **protocol: Any) -> RunRecord:
    usual = {"function": "madke", "source": "test", "sources": ["wiki", "google"], "select": "adaptive"}
    made = as_protocol({**usual, **protocol})
    return RunRecord(
        data=data,
        questions={"q0": data},
        variant="madke",
        protocol=made,
        prompts_sha256={},
        models=dict.fromkeys(made.roles, model),
        source_specs={},
        seed=0,
        repeats=1,
    )


def arm(name: str, transcripts: Sequence[Transcript] | None = None, settings: RunRecord | None = None) -> Results:
    return replace(arm_of(name, debates() if transcripts is None else transcripts), config=settings)


def parts(arms: Sequence[Results]) -> tuple[Any, ...]:
    """What figures are drawn from: the arms, their scores and their values."""
    scores = {one.name: scores_of(one.transcripts()) for one in arms}
    return arms, scores, [read_arm(one.name, one.transcripts()) for one in arms]


def drawn(*arms: Results) -> dict[str, Drawing]:
    return {one.name: one for one in figures.draw(*parts(arms))}


def page_arms(*arms: Results) -> list[DrawnArm]:
    return arms_of(*parts(arms))


def texts(drawing: Drawing | None) -> list[str]:
    """The texts of a figure, in order; none where there is none."""
    if drawing is None:
        return []
    root = ElementTree.fromstring(file_bytes(drawing, "svg"))
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def shown(name: str, *arms: Results) -> list[str]:
    """The texts of the figure that compares arms by one setting."""
    (setting,) = (each for each in SETTINGS if each.name == name)
    with style():
        return texts(by_setting(page_arms(*arms), setting))


def test_there_is_a_figure_only_where_there_is_something_to_show() -> None:
    single = debates(rounds=["x"])
    assert list(drawn()) == []
    assert list(drawn(arm("a", single))) == []
    assert list(drawn(arm("a", single), arm("b", single))) == ["accuracy-by-calls", "accuracy-by-tokens"]


def test_arms_that_differ_in_their_sources_alone_are_a_source_ablation() -> None:
    arms = [
        arm("both", debates(4), config(sources=["wiki", "google"])),
        arm("wiki", debates(3), config(sources=["wiki"])),
        arm("none", debates(1), config(sources=[])),
        arm("other model", debates(2), config(sources=["google"], model="openai/other")),
    ]
    told = shown("source-ablation", *arms)
    sources = ("no knowledge", "wiki", "google", "wiki + google")
    assert [text for text in told if text in sources] == ["no knowledge", "wiki + google", "wiki"]
    assert [text for text in told if "." in text] == ["25.0", "100.0", "75.0"]
    assert not shown("source-ablation", arms[0], arms[3])


@pytest.mark.parametrize(
    ("name", "changes", "labels"),
    [
        ("selection-ablation", [{"select": "adaptive"}, {"select": "all"}], ["adaptive, at most 3", "whole pool"]),
        ("agents", [{"debaters": n} for n in (2, 3, 10)], ["2", "3", "10"]),
        ("rounds", [{"rounds": n} for n in (1, 3)], ["1", "3"]),
        ("models", [{"model": f"openai/{n}"} for n in "ab"], ["openai/a", "openai/b"]),
    ],
)
def test_arms_that_differ_in_one_setting_alone_are_compared_by_it(
    name: str, changes: list[dict[str, Any]], labels: list[str]
) -> None:
    arms = [
        arm(f"{data} {n}", settings=config(data=data, **change))
        for data in ("nq.jsonl", "fever.jsonl")
        for n, change in enumerate(changes)
    ]
    values = [text.partition(" (")[0] for text in shown(name, *arms) if "json" in text]
    assert values == [*labels, *labels]
    assert not shown(name, arms[0], arms[-1])


def test_the_gain_is_split_into_retrieval_further_calls_and_talk_paired_by_question() -> None:
    alone: dict[str, Any] = {"function": "alone", "debaters": 1}
    pool: dict[str, Any] = {"sources": ["wiki"], "select": "all"}
    arms = [
        arm("cot", debates(1), config(sources=[], **alone)),
        arm("rag", debates(2), config(**pool, **alone)),
        arm("votes", debates(2), config(**pool, function="vote", debaters=5)),
        arm("debate", debates(4), config(**pool)),
    ]
    found = gains(page_arms(*arms))
    assert [(one.step, one.left.label, one.right.label, one.test.difference.value) for one in found] == [
        ("retrieval", "cot", "rag", 0.25),
        ("further calls", "rag", "votes", 0),
        ("talk", "votes", "debate", 0.5),
    ]
    with style():
        told = texts(gain_by_step(page_arms(*arms)))
    assert {"Retrieval", "Further calls", "Talk", "votes → debate", "+50.0"} <= {*told}


@pytest.mark.parametrize(
    "name", [HOSTILE, "_hidden", "日本語 العربية", "a\u202eb\x00\x1b[31m\ufffe\uffff\nc", "long " * 60]
)
def test_a_name_is_shown_as_text_even_if_it_has_markup(name: str) -> None:
    arms = [arm(name, debates(oracle=True, rounds=["xy"])), arm("b", debates(rounds=["xy"]))]
    (label, _) = [one.label for one in page_arms(*arms)]
    assert label.endswith("*")
    assert len(label) <= 33
    for one in drawn(*arms).values():
        assert label in texts(one), one.name
        assert b"<script" not in file_bytes(one, "svg")
        assert "reads the gold answers" in one.caption


@pytest.mark.parametrize(("form", "magic"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_files_for_papers_are_the_same_each_time(tmp_path: Path, form: Any, magic: bytes) -> None:
    made = [drawn(arm("a", debates(rounds=["x"])), arm(f"{HOSTILE} 日本語", debates(rounds=["x"]))) for _ in "ab"]
    folders = [tmp_path / folder / "new" for folder in "ab"]
    written = [figures.write_figures([*each.values()], into, form) for each, into in zip(made, folders, strict=True)]
    assert [path.name for path in written[0]] == [f"accuracy-by-calls.{form}", f"accuracy-by-tokens.{form}"]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes().startswith(magic)
        assert one.read_bytes() == other.read_bytes()
