"""Figures: which there are, what they say, and that they are at home in any page."""

import subprocess
import sys
from colorsys import rgb_to_hsv
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from madke.core.errors import UserError
from madke.core.transcript import Final, Round, StageUsage, Stance, Turn
from madke.data.stance_draw import Draw
from madke.engine.protocol import Protocol
from madke.report import figures
from madke.report.figures import canvas
from madke.report.figures.by_arm import (
    accuracy_by_calls,
    accuracy_by_output_tokens,
    accuracy_by_tokens,
    agreement_by_round,
    flip_counts,
    flips,
    tokens_by_stage,
)
from madke.report.figures.by_setting import (
    agents_curves,
    facts,
    headings,
    model_size,
    rounds_curves,
    selection_ablation,
    size_curves,
    source_ablation,
    stances_curves,
)
from madke.report.figures.by_step import gain_by_step, gains
from madke.report.figures.canvas import INK, arms_of, page_svg, style
from madke.runs.spec import RunSpec
from madke.scoring.arms import Results, read_arm
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate
from tests.support.transcripts import transcript

RIGHT = "Lake Baikal"
ALWAYS = ["accuracy-by-tokens", "accuracy-by-output-tokens", "accuracy-by-calls"]
ROUNDS = ["agreement-by-round", "disagreement-by-round", "flips"]
HOSTILE = '$x^2$ <script>alert(1)</script> & "it\'s" \\frac{1}{2}'


def debate(id_: Any, *rounds: Any, answer: Any = RIGHT, tokens: int = 100, **changes: Any) -> Any:
    """A debate in which debaters gave these answers, round by round."""
    played = tuple(
        Round(
            n=n,
            order=tuple(f"Debater {k}" for k in range(1, len(said) + 1)),
            turns=tuple(
                Turn(agent=f"Debater {k}", stance=Stance(answer=one, status="ok" if one else "abstained"))
                for k, one in enumerate(said, start=1)
            ),
        )
        for n, said in enumerate(rounds, start=1)
    )
    usage = {
        "summarize": StageUsage(calls=1, prompt_tokens=tokens // 2),
        "speak": StageUsage(calls=2, prompt_tokens=tokens, completion_tokens=tokens // 2),
    }
    fields = {"rounds": played, "usage": usage, "final": Final(by="summarizer", answer=answer, status="ok"), **changes}
    return transcript(id_, said=rounds[0], consensus=None, answer=answer, **fields)


def debates(right: int = 3, n: int = 4, rounds: Any = ("xy", "xx"), **changes: Any) -> Any:
    """So many debates, of which some end with the right answer."""
    return [debate(f"q{k}", *rounds, answer=RIGHT if k < right else "x", **changes) for k in range(n)]


def config(data: str = "nq.jsonl", model: str = "openai/m", **protocol: Any) -> Any:
    made = Protocol(source="test", **protocol)
    return RunSpec(
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
    transcripts = debates() if transcripts is None else transcripts
    return Results(name=name, path=Path(name), config=settings, transcripts=lambda: iter(transcripts))


def informed(*sources: Any, **more: Any) -> Any:
    return config(knowledge={"sources": sources, **more})


def scored(arms: Any) -> Any:
    return {one.name: scores_of(one.transcripts()) for one in arms}


def values_of(arms: Any) -> Any:
    return [read_arm(one.name, one.transcripts()) for one in arms]


def drawn(*arms: Any) -> Any:
    return {one.name: one for one in figures.draw(arms, scored(arms), values_of(arms))}


def page_arms(*arms: Any) -> Any:
    return arms_of(arms, scored(arms), values_of(arms))


def texts(svg: Any) -> Any:
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def shown(figure: Any, *arms: Any) -> Any:
    """The text in one figure of some arms; nothing where it has nothing to show."""
    with style():
        drawing = figure(page_arms(*arms))
        return texts(page_svg(drawing)) if drawing else []


def test_there_is_a_figure_only_where_there_is_something_to_show() -> None:
    single = debates(rounds=(["x"],))
    assert list(drawn()) == []
    assert list(drawn(arm("a", single))) == ["tokens-by-stage"]
    assert list(drawn(arm("a", single), arm("b", single))) == [*ALWAYS, "tokens-by-stage"]
    assert list(drawn(arm("a"), arm("b"))) == [*ALWAYS, *ROUNDS, "tokens-by-stage"]


def test_answers_from_elsewhere_have_no_cost_and_are_in_no_figure_of_it() -> None:
    bought = [replace(one, usage={}) for one in debates(rounds=(["x"],))]
    arms = [arm("a"), arm("b"), arm("bought", bought)]
    for figure in (accuracy_by_tokens, accuracy_by_output_tokens, accuracy_by_calls, tokens_by_stage):
        assert {"a", "b"} == {"a", "b", "bought"} & set(shown(figure, *arms))
    assert not shown(accuracy_by_tokens, arms[0], arms[2])


def test_questions_without_gold_answers_leave_agreement_and_tokens() -> None:
    bare = debates(golds=())
    assert "a" not in shown(accuracy_by_tokens, arm("a", bare), arm("b"), arm("c"))
    assert "a" in shown(agreement_by_round, arm("a", bare), arm("b"))
    assert list(drawn(arm("a", bare))) == ["agreement-by-round", "disagreement-by-round", "tokens-by-stage"]


def test_arms_that_differ_in_their_sources_alone_are_a_source_ablation() -> None:
    arms = [
        arm("both", debates(4), informed("wiki", "google")),
        arm("wiki", debates(3), informed("wiki")),
        arm("none", debates(1), config(knowledge=None)),
        arm("other model", debates(2), config(knowledge={"sources": ["google"]}, model="openai/other")),
    ]
    told = shown(source_ablation, *arms)
    assert [text for text in told if text in ("no knowledge", "wiki", "google", "wiki + google")] == [
        "no knowledge",
        "wiki",
        "wiki + google",
    ]
    assert [text for text in told if "." in text] == ["25.0", "75.0", "100.0"]
    assert not shown(source_ablation, arms[0], arms[3])


def test_the_selection_is_compared_for_each_choice_of_sources() -> None:
    arms = [
        arm(f"{source} {select}", settings=informed(source, select=select))
        for source in ("wiki", "google")
        for select in ("adaptive", "all")
    ]
    told = shown(selection_ablation, *arms)
    assert [text for text in told if text in ("adaptive, at most 3", "whole pool")] == [
        "adaptive, at most 3",
        "whole pool",
    ] * 2
    assert {"wiki", "google"} <= set(told)
    assert {"select adaptive", "select all"} <= set(shown(source_ablation, *arms))


def test_curves_are_over_arms_that_differ_in_that_number_alone() -> None:
    arms = [
        arm(f"{data} {n} {rounds}", settings=config(data=data, debaters=n, rounds=rounds))
        for data in ("nq.jsonl", "fever.jsonl")
        for n, rounds in ((2, 3), (3, 3), (4, 3), (2, 1))
    ]
    panels = {"nq", "fever", "Accuracy (%)", "Co2, by the matcher (%)", "Cons, by the matcher (%)", "Mean rounds"}
    assert {*panels, "Debaters", "2", "3", "4"} <= set(shown(agents_curves, *arms))
    assert {*panels, "Maximum rounds", "1", "3"} <= set(shown(rounds_curves, *arms))
    assert not shown(agents_curves, arms[1], arms[3])
    assert not shown(rounds_curves, arms[1], arms[3])


def test_curves_over_stances_have_a_line_for_each_order() -> None:
    def readers(order: Any, read: int, right: int) -> Any:
        """Four replies to the first ``read`` stances, of which some are right."""
        replies = [RIGHT] * right + ["x"] * (4 - right)
        made = [debate("q0", [RIGHT] * read, replies, first_round_given=True)]
        settings = config(order="fixed", debaters=4)
        draw = Draw(each=2, order=order, read=read)
        spec = settings.model_copy(update={"first_round": {"q0": f"{order} {read}"}, "first_round_draw": draw})
        return arm(f"{order} {read}", made, spec)

    orders = {"correct_first": (4, 3, 1), "incorrect_first": (0, 1, 4), "alternating": (4, 2, 2)}
    arms = [
        readers(order, n, right) for order, held in orders.items() for n, right in zip((1, 3, 4), held, strict=True)
    ]
    lines = {"right stances first", "wrong stances first", "alternating"}
    assert {*lines, "Right replies (%)", "Stances read"} <= set(shown(stances_curves, *arms))
    with style():
        drawing = stances_curves(page_arms(*arms))
    assert drawing is not None
    axis = drawing.figure.axes[0]
    lines_drawn: Any = [line.get_ydata() for line in axis.lines]
    heights = [[round(4 * y) for y in ys] for ys in lines_drawn if len(ys) == 3]
    assert heights == [list(held) for held in orders.values()]
    assert not shown(stances_curves, arms[0], arms[3])
    assert not shown(stances_curves, arm("a"), arm("b"))


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("openai/Qwen/Qwen1.5-1.8B-Chat", 1.8),
        ("openai/Qwen1.5-32B-Chat", 32),
        ("hf/SmolLM2-135M-Instruct", 0.135),
        ("openai/qwen2.5:7b", 7),
        ("openai/gpt-4o-mini", None),
        ("openai/Mixtral-8x7B", None),
        ("offline", None),
    ],
)
def test_the_size_of_a_model_is_read_from_its_name(model: str, size: float | None) -> None:
    assert model_size(config(model=model)) == size


def test_curves_over_sizes_have_a_line_for_each_choice_of_sources() -> None:
    arms = [
        arm(f"{size} {sources}", settings=config(model=f"openai/Q-{size}-Chat", knowledge={"sources": sources}))
        for size in ("72B", "1.8B", "500M")
        for sources in (["wiki"], ["wiki", "google"])
    ]
    told = shown(size_curves, *arms)
    assert [text for text in told if text in ("500M", "1.8B", "72B")] == ["500M", "1.8B", "72B"]
    assert {"wiki", "wiki + google"} <= set(told)
    assert not shown(size_curves, arms[0], arms[3]), "two sizes with other sources are no line"
    twins = [arm("a", settings=config(model="openai/A-7B")), arm("b", settings=config(model="openai/B-7B"))]
    assert not shown(size_curves, *twins)


def test_output_tokens_are_completion_tokens_alone() -> None:
    arms = [arm("a", debates(tokens=100)), arm("b", debates(tokens=300))]
    with style():
        drawing = accuracy_by_output_tokens(page_arms(*arms))
        assert drawing is not None
        (axis,) = drawing.figure.axes
        xs: list[Any] = [line.get_xdata() for line in axis.lines]
        points = [float(x[0]) for x in xs]
    assert points == [50, 150]


def steps() -> Any:
    pool: Any = {"knowledge": {"sources": ["wiki"], "select": "all"}}
    alone: Any = {"debaters": 1, "rounds": 1, "stop": "never", "finish": "only"}
    alone |= {"sees": {"peers": "none", "own": "none"}}
    votes = alone | {"debaters": 5, "finish": "majority"}
    return {
        "cot": config(knowledge=None, **alone),
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


def test_the_gain_shows_the_difference_in_each_repeat() -> None:
    by_seed = {"rag": (2, 2), "votes": (2, 3), "debate": (3, 3)}
    arms = [
        arm(name, [*debates(by_seed[name][0]), *debates(by_seed[name][1], repeat=1)], settings)
        for name, settings in steps().items()
        if name in by_seed
    ]
    assert [one.by_repeat for one in gains(page_arms(*arms))] == [(0, 0.25), (0.25, 0)]
    with style():
        drawing = gain_by_step(page_arms(*arms))
    assert drawing is not None
    assert "each repeat (seed)" in drawing.caption


def test_arms_with_another_pool_or_model_are_no_step() -> None:
    made = steps()
    other = made | {"votes": config(knowledge={"sources": ["google"]}, debaters=5, rounds=1, finish="majority")}
    assert not shown(gain_by_step, *(arm(name, settings=settings) for name, settings in other.items()))
    del made["debate"]
    assert not shown(gain_by_step, *(arm(name, settings=settings) for name, settings in made.items()))


def test_groups_are_called_by_what_tells_them_apart() -> None:
    made = [
        informed("wiki", "google"),
        config(knowledge=None, order="madc"),
        config(data="fever.jsonl", knowledge={"sources": ["wiki"]}, rounds=2, debaters=3, model="openai/other"),
    ]
    assert headings([facts(one) for one in made]) == [
        "nq, 2 debaters, 3 rounds, order by fixed, openai/m, wiki + google",
        "nq, 2 debaters, 3 rounds, order by madc, openai/m, no knowledge",
        "fever, 3 debaters, 2 rounds, order by fixed, openai/other, wiki",
    ]
    assert headings([facts(made[0])]) == [""]


def test_values_by_round_are_those_of_the_scores() -> None:
    arms = [arm("a"), arm("b")]
    half = Estimate(value=0.5, low=0.4, high=0.6, n=100)
    scores = {
        name: replace(one, by_round={"accuracy": (half, None, half), "entropy": (half,)})
        for name, one in scored(arms).items()
    }
    found = {one.name: one for one in figures.draw(arms, scores, values_of(arms))}
    told = texts(page_svg(found["agreement-by-round"]))
    assert {"Accuracy (%)", "1", "2", "3", "a", "b"} <= set(told)
    assert "Cons (%)" not in told
    assert "over 100 questions" in found["agreement-by-round"].caption
    assert "disagreement-by-round" not in found, "one round alone is no course"


def test_more_arms_than_colours_have_lines_of_their_own() -> None:
    assert {f"arm {n}" for n in range(9)} <= set(shown(agreement_by_round, *(arm(f"arm {n}") for n in range(9))))


def test_flips_are_counted_between_rounds_and_to_the_final_answer() -> None:
    up, down = ([["x", "x"], [RIGHT, RIGHT]], [[RIGHT, RIGHT], ["x", "x"]])
    counted = flip_counts(
        read_arm(
            "a",
            [
                debate("a", *up, ["y", "y"], answer="y"),
                debate("b", *up),
                debate("c", *down, answer=RIGHT),
                debate("d", [RIGHT, RIGHT]),
                debate("e", [None, None], ["x", "x"], answer="x"),
                debate("f", *up, answer=None, status="failed"),
                debate("g", *up, golds=()),
                debate("h", *up, task="translation"),
            ],
        )
    )
    assert counted == {
        "round 1 to 2": {"corrected": 2, "collapsed": 1, "stayed wrong": 1},
        "round 2 to 3": {"collapsed": 1},
        "round 1 to the answer": {"stayed right": 2, "corrected": 1, "stayed wrong": 2},
    }


def test_flips_of_many_arms_are_one_row_each() -> None:
    def rows(count: Any) -> Any:
        with style():
            figure = flips(page_arms(*(arm(f"arm {n}") for n in range(count)))).figure
            return [label.get_text() for label in figure.axes[0].get_yticklabels()]

    assert rows(2) == ["round 1 to 2", "round 1 to the answer"] * 2
    assert rows(20) == [f"arm {n}" for n in range(20)]


def test_stages_stand_in_the_order_of_a_debate() -> None:
    told = shown(tokens_by_stage, arm("a"))
    assert told.index("speak") < told.index("summarize")
    assert "200" in told


def everything() -> Any:
    settings = [
        config(knowledge=None),
        informed("wiki"),
        informed("wiki", select="all"),
        config(knowledge={"sources": ["wiki"]}, rounds=2),
        config(knowledge={"sources": ["wiki"]}, debaters=3),
    ]
    return [arm(f"{n} {HOSTILE}", [*debates(n % 4), *debates(2, repeat=1)], one) for n, one in enumerate(settings)]


def test_figures_of_one_page_do_not_disturb_each_other_or_the_page() -> None:
    found = drawn(*everything())
    assert len(found) == 11
    ids = []
    for one in found.values():
        root = ElementTree.fromstring(page_svg(one))
        elements = list(root.iter())
        mine = [element.get("id") for element in elements if element.get("id")]
        used = [element.get("href") for element in elements if element.get("href")]
        used += [element.get("clip-path")[4:-1] for element in elements if element.get("clip-path")]
        assert all(link.startswith(f"#figure-{one.name}-") and link[1:] in mine for link in used)
        ids += mine
        names = {name for element in elements for name in element.attrib}
        assert not names & {"style", "class"}
        assert not set(root.attrib) & {"width", "height"}
        assert not {element.tag.partition("}")[2] for element in elements} & {"style", "metadata", "script", "image"}
        assert root.get("viewBox")
        assert "fill" not in root.attrib
        values = {value.lower() for element in elements for value in element.attrib.values()}
        assert "currentcolor" in values
        assert not values & {INK, "#ffffff", "#000000", "white", "black"}
    assert len(set(ids)) == len(ids)


def test_screen_readers_are_told_what_a_figure_is() -> None:
    for one in drawn(arm("a", debates(rounds=(["x"],))), arm("b", debates(rounds=(["x"],)))).values():
        root = ElementTree.fromstring(page_svg(one))
        title, caption = root[:2]
        assert (title.text, caption.text) == (one.title, one.caption)
        assert (root.get("role"), root.get("aria-labelledby")) == ("img", title.get("id"))
        assert root.get("aria-describedby") == caption.get("id")


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "_hidden",
        "id='x' #1b1f24 url(#a)",
        "日本語 العربية",
        "a\u202eb\x00\x1b[31m\ufffe\uffff\nc",
        "long " * 60,
        "",
    ],
)
def test_a_name_is_shown_as_text_even_if_it_has_markup(name: Any) -> None:
    arms = [arm(name, debates(oracle=True, rounds=(["x", "y"],))), arm("b", debates(rounds=(["x", "y"],)))]
    (label, _) = [one.label for one in page_arms(*arms)]
    assert label.endswith("*")
    assert len(label) <= 33
    for one in drawn(*arms).values():
        svg = page_svg(one)
        assert label in texts(svg), one.name
        assert "<script" not in svg
        assert "reads the gold answers" in one.caption


def test_shortened_names_remain_distinct() -> None:
    arms = [arm(f"{'x' * 40}{n}{'y' * 40}") for n in range(2)]
    first, second = (one.label for one in page_arms(*arms))
    assert first != second


@pytest.mark.slow
@pytest.mark.parametrize(("form", "magic"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_files_for_papers_are_the_same_each_time(tmp_path: Path, form: Any, magic: bytes) -> None:
    made = [drawn(arm(f"{HOSTILE} 日本語", debates(rounds=(["x"],)))) for _ in "ab"]
    folders = [tmp_path / folder / "new" for folder in "ab"]
    written = [figures.write_figures([*each.values()], into, form) for each, into in zip(made, folders, strict=True)]
    assert [path.name for path in written[0]] == [f"{name}.{form}" for name in made[0]]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes().startswith(magic)
        assert one.read_bytes() == other.read_bytes()


def test_a_folder_that_cannot_be_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        figures.write_figures([*drawn(arm("a")).values()], tmp_path / "file")


def test_figures_ignore_and_keep_the_users_matplotlib_settings() -> None:
    import matplotlib

    arms = [arm("a", debates(rounds=(["x"],))), arm("b", debates(rounds=(["x"],)))]
    usual = [*map(page_svg, drawn(*arms).values())]
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert [*map(page_svg, drawn(*arms).values())] == usual
        assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_there_are_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    assert not figures.available()


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, madke.report.figures as f; assert f.available(); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_green_and_red_are_for_right_and_wrong_answers_only() -> None:
    outcomes = {*canvas.FLIP_COLOURS}
    assert len(outcomes) == 4
    assert not outcomes & set(canvas.COLOURS)
    hues = [rgb_to_hsv(*(int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)))[:2] for colour in canvas.COLOURS]
    for hue, saturation in hues:
        assert saturation < 0.1 or not (hue < 0.08 or 0.25 < hue < 0.5), "a red or a green"


def test_figures_of_the_paper_are_by_the_grader_if_it_graded_every_arm() -> None:
    debates = [debate("q0", *[[RIGHT, RIGHT]] * 2), debate("q1", *[["x", "x"]] * 2, answer="x")]
    grades = {"grader": {("q0", 0): 1.0, ("q1", 0): 1.0}}
    results = [Results(name=name, path=Path(name), config=None, transcripts=lambda: iter(debates)) for name in "ab"]
    for graded, by_grader in ((("a", "b"), True), (("a",), False)):
        outside = {name: grades if name in graded else {} for name in "ab"}
        scores = {name: scores_of(debates, outside[name]) for name in "ab"}
        values = [read_arm(name, debates, outside[name]) for name in "ab"]
        drawn = {one.name: one for one in figures.draw(results, scores, values)}
        by_tokens = drawn["accuracy-by-tokens"]
        names_the_grader = "The grader says which answers are right." in by_tokens.caption
        assert names_the_grader is by_grader
        assert "grader" not in drawn["flips"].caption
