"""Figures: which there are, and what they say."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from madke.engine.protocol import as_protocol
from madke.report import figures
from madke.report.figures import (
    SETTINGS,
    arms_of,
    by_setting,
    file_bytes,
    gain_by_step,
    gains,
    style,
)
from madke.runs.directory import RunRecord
from madke.scoring.arms import read_arm
from madke.scoring.scores import scores_of
from tests.report.run_folders import debate
from tests.support.transcripts import arm as arm_of

RIGHT = "Lake Baikal"
BY_SETTING = {each.name: partial(by_setting, setting=each) for each in SETTINGS}
HOSTILE = '$x^2$ <script>alert(1)</script> & "it\'s" \\frac{1}{2}'


def debates(right: int = 3, n: int = 4, rounds: Any = ("xy", "xx"), **changes: Any) -> Any:
    """So many debates, of which some end with the right answer."""
    return [debate(f"q{k}", *rounds, answer=RIGHT if k < right else "x", **changes) for k in range(n)]


def config(data: str = "nq.jsonl", model: str = "openai/m", **protocol: Any) -> Any:
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


def arm(name: Any, transcripts: Any = None, settings: Any = None) -> Any:
    return replace(arm_of(name, debates() if transcripts is None else transcripts), config=settings)


def informed(*sources: Any, **more: Any) -> Any:
    return config(sources=sources, **more)


def scored(arms: Any) -> Any:
    return {one.name: scores_of(one.transcripts()) for one in arms}


def values_of(arms: Any) -> Any:
    return [read_arm(one.name, one.transcripts()) for one in arms]


def drawn(*arms: Any) -> Any:
    return {one.name: one for one in figures.draw(arms, scored(arms), values_of(arms))}


def page_arms(*arms: Any) -> Any:
    return arms_of(arms, scored(arms), values_of(arms))


def texts(drawing: Any) -> Any:
    """The texts of a figure, in order."""
    root = ElementTree.fromstring(file_bytes(drawing, "svg"))
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def shown(figure: Any, *arms: Any) -> Any:
    """The text in one figure of some arms; nothing where it has nothing to show."""
    with style():
        drawing = figure(page_arms(*arms))
        return texts(drawing) if drawing else []


def test_there_is_a_figure_only_where_there_is_something_to_show() -> None:
    single = debates(rounds=(["x"],))
    assert list(drawn()) == []
    assert list(drawn(arm("a", single))) == []
    assert list(drawn(arm("a", single), arm("b", single))) == ["accuracy-by-calls", "accuracy-by-tokens"]


def test_arms_that_differ_in_their_sources_alone_are_a_source_ablation() -> None:
    arms = [
        arm("both", debates(4), informed("wiki", "google")),
        arm("wiki", debates(3), informed("wiki")),
        arm("none", debates(1), config(sources=[])),
        arm("other model", debates(2), config(sources=["google"], model="openai/other")),
    ]
    told = shown(BY_SETTING["source-ablation"], *arms)
    assert [text for text in told if text in ("no knowledge", "wiki", "google", "wiki + google")] == [
        "no knowledge",
        "wiki + google",
        "wiki",
    ]
    assert [text for text in told if "." in text] == ["25.0", "100.0", "75.0"]
    assert not shown(BY_SETTING["source-ablation"], arms[0], arms[3])


def test_the_selection_is_compared_for_each_choice_of_sources() -> None:
    arms = [
        arm(f"{source} {select}", settings=informed(source, select=select))
        for source in ("wiki", "google")
        for select in ("adaptive", "all")
    ]
    told = shown(BY_SETTING["selection-ablation"], *arms)
    assert [text for text in told if text.endswith(("e)", "l)"))] == [
        "adaptive, at most 3 (wiki adaptive)",
        "whole pool (wiki all)",
        "adaptive, at most 3 (google adaptive)",
        "whole pool (google all)",
    ]


@pytest.mark.parametrize(
    ("name", "changes", "labels"),
    [
        ("agents", [{"debaters": n} for n in (2, 3, 10)], ["2", "3", "10"]),
        ("rounds", [{"rounds": n} for n in (1, 3)], ["1", "3"]),
        ("models", [{"model": f"openai/{n}"} for n in "ab"], ["openai/a", "openai/b"]),
    ],
)
def test_arms_that_differ_in_one_setting_alone_are_compared_by_it(name: str, changes: Any, labels: Any) -> None:
    arms = [
        arm(f"{data} {n}", settings=config(data=data, **change))
        for data in ("nq.jsonl", "fever.jsonl")
        for n, change in enumerate(changes)
    ]
    told = shown(BY_SETTING[name], *arms)
    values = [text.partition(" (")[0] for text in told if "json" in text]
    assert values == [*labels, *labels]
    assert not shown(BY_SETTING[name], arms[0], arms[-1])


def steps() -> Any:
    pool: Any = {"sources": ["wiki"], "select": "all"}
    alone: Any = {"function": "alone", "debaters": 1}
    votes: Any = {"function": "vote", "debaters": 5}
    return {
        "cot": config(sources=[], **alone),
        "rag": config(**pool, **alone),
        "votes": config(**pool, **votes),
        "debate": config(**pool),
    }


def test_the_gain_is_split_into_retrieval_further_calls_and_talk_paired_by_question() -> None:
    rights = {"cot": 1, "rag": 2, "votes": 2, "debate": 4}
    arms = [arm(name, debates(rights[name]), settings) for name, settings in steps().items()]
    found = gains(page_arms(*arms))
    assert [(one.step, one.left.label, one.right.label) for one in found] == [
        ("retrieval", "cot", "rag"),
        ("further calls", "rag", "votes"),
        ("talk", "votes", "debate"),
    ]
    assert [one.test.difference.value for one in found] == [0.25, 0, 0.5]
    assert [one.test.difference.n for one in found] == [4, 4, 4]
    assert {"Retrieval", "Further calls", "Talk", "votes → debate", "+50.0"} <= set(shown(gain_by_step, *arms))


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "_hidden",
        "日本語 العربية",
        "a\u202eb\x00\x1b[31m\ufffe\uffff\nc",
        "long " * 60,
    ],
)
def test_a_name_is_shown_as_text_even_if_it_has_markup(name: Any) -> None:
    arms = [arm(name, debates(oracle=True, rounds=(["x", "y"],))), arm("b", debates(rounds=(["x", "y"],)))]
    (label, _) = [one.label for one in page_arms(*arms)]
    assert label.endswith("*")
    assert len(label) <= 33
    for one in drawn(*arms).values():
        assert label in texts(one), one.name
        assert b"<script" not in file_bytes(one, "svg")
        assert "reads the gold answers" in one.caption


@pytest.mark.parametrize(("form", "magic"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_files_for_papers_are_the_same_each_time(tmp_path: Path, form: Any, magic: bytes) -> None:
    made = [drawn(arm(f"{HOSTILE} 日本語", debates(rounds=(["x"],)))) for _ in "ab"]
    folders = [tmp_path / folder / "new" for folder in "ab"]
    written = [figures.write_figures([*each.values()], into, form) for each, into in zip(made, folders, strict=True)]
    assert [path.name for path in written[0]] == [f"{name}.{form}" for name in made[0]]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes().startswith(magic)
        assert one.read_bytes() == other.read_bytes()
