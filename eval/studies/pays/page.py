"""The page of the study, ``docs/study.md``, and its figure, written from kept transcripts."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from eval.studies.kept import read_study
from eval.studies.pays.results import MEASURES, Changes, Contrast, Figures, model_votes
from madke._util.files import write_file
from madke.report import figures as canvas
from madke.scoring.paired import PairedTest
from madke.scoring.statistics import DIFFICULTY, Estimate

_ABOUT = """Three debaters read the same five passages, answer, read each other, and answer again. Each debate is
compared with a vote of exactly its own first-round prompt that makes as many calls: the two differ in what the last
three calls read. The plan, `eval/studies/pays/PLAN.md`, was committed before the first call; it names the contrasts,
their tests and the margins. `make study` rebuilds this page from the kept calls, and
`python -m eval.studies.pays.recompute` computes each test anew, with SciPy.
"""
_UNDECIDED = "**Not decided yet.** This page states a finding once a model has answered enough questions."
_BEFORE = """[The exploratory part](study_exploratory.md) has what 60 and 42 other questions showed. It suggested the
contrasts of the plan, and confirms none.
"""
_CAPTION = (
    "Mean of `match` (the task's matcher against any gold answer), 95 % interval, against calls per question. Some "
    "arms have fewer questions, as the tables say."
)
_LIMITS = """## What this does not say

- The models are small, made for code, and quantised to four bits. Nothing follows for strong models.
- Five passages from a collection of 103,515 are far easier to find than from all of Wikipedia. Do not put these scores
  next to published ones.
- Answers are short, prompts are ours, and each protocol has its default settings. One run per question.
- `match` forgives words around an answer; EM and F1 do not. Where they disagree, arms differ in how they state answers.
- "Not decided" is not "equal": only an interval within the margin shows that.
"""


def write_page(calls: Path, page: Path) -> None:
    """Write the page, and next to it its figure NAME.svg if a model has enough questions."""
    studies = [Figures.of(read_study(file)) for file in sorted(calls.glob("*.jsonl.xz"))]
    if any(not each.interim for each in studies):
        write_file(page.with_suffix(".svg"), drawn([each for each in studies if not each.interim]))
    write_file(page, page_text(studies, page.with_suffix(".svg").name).encode())


def page_text(studies: Sequence[Figures], figure: str) -> str:
    """The Markdown page. Nothing of a model with fewer questions than the plan's least is compared."""
    whole = [each for each in studies if not each.interim]
    parts = ["# Does a debate pay?", "<!-- Written by python -m eval.studies.pays page. -->"]
    parts += [f"**{_sentence(each)}**" for each in whole] or [_UNDECIDED]
    parts += [_interim(each) for each in studies if each.interim]
    parts += [_ABOUT, _BEFORE]
    if whole:
        parts += [f"![Accuracy against calls per question]({figure})", _CAPTION]
    for each in whole:
        parts += [f"## {each.plan.name}, n = {each.study.questions}", *_of_model(each)]
    models = model_votes(whole)
    if models:
        parts.append(
            f"The first samples of both models were worth {_votes(models)} independent votes of 2. {DIFFICULTY}"
        )
    return "\n\n".join(part.strip() for part in [*parts, _LIMITS]) + "\n"


def _interim(found: Figures) -> str:
    least = f"{found.plan.planned} planned, nothing is compared below {found.plan.least}"
    return f"On {found.plan.short}, {found.study.questions} questions are answered ({least})."


def _sentence(found: Figures) -> str:
    """What was found, with one call beside it."""
    test, rag = found.primary[0].test, found.arms["rag"].mean()
    gained = "gained" if test.difference.value >= 0 else "lost"
    interval = f"95 % {100 * test.difference.low:+.1f} to {100 * test.difference.high:+.1f}"
    told = (
        f"On {found.plan.short} (n = {test.n}), talking {gained} {100 * abs(test.difference.value):.1f} points of "
        f"match over a vote of the same prompt, {interval}: {found.primary[0].finding}. The debate is right on "
        f"{100 * test.right_value:.1f} %"
    )
    return told + ("." if rag is None else f", one call of `rag`, a sixth of its calls, on {100 * rag.value:.1f} %.")


def _of_model(found: Figures) -> Iterator[str]:
    yield "\n".join(_arms_table(found))
    yield "\n".join(_contrasts_table(found))
    if found.waiting:
        yield f"Not tested yet, because the arms have too few questions: {', '.join(found.waiting)}."
    if found.interaction:
        yield (
            "**Knowledge times debate.** What debate gains over its vote, with the pool minus without it: "
            f"{_points(found.interaction)} (95 %, bootstrap over {found.interaction.n} questions; no test)."
        )
    yield "\n".join(_ballots_table(found))
    for name in ("mad", "mad-brief"):
        yield f"What the second round of `{name}` changed, by the answers of the first:"
        rows = found.changes(name)
        yield "\n".join(_changes_table(rows))
        yield _gate(name, rows)


def _arms_table(found: Figures) -> Iterator[str]:
    yield "| arm | n | `match` % | EM % | F1 % | calls | tokens | readable % | words |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, arm in sorted(found.arms.items(), key=lambda each: each[1].per_question("calls")):
        scores = found.scores[name]
        readable = scores.readable.get("speak")
        cells = [str(len(arm.transcripts)), *(_share(arm.mean(measure)) for measure in MEASURES)]
        cells.append(f"{arm.per_question('calls'):.1f}")
        cells += [f"{arm.per_question('tokens'):,.0f}", "-" if readable is None else f"{100 * readable.value:.1f}"]
        cells.append("-" if scores.answer_words is None else f"{scores.answer_words:g}")
        yield f"| `{name}` | {' | '.join(cells)} |"


def _contrasts_table(found: Figures) -> Iterator[str]:
    yield "| contrast | n | points of `match`, 95 % | p | p, Holm | EM | F1 | left out | finding |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for kind, contrasts in (("primary", found.primary), ("secondary", found.secondary)):
        for each in contrasts:
            test = each.test
            cells = [str(test.n), _points(test.difference), _p(test.p), _p(test.p_holm)]
            cells += [_difference(each.others.get(measure)) for measure in MEASURES[1:]]
            cells += [str(test.left_out), _finding(each)]
            yield f"| {kind}: `{test.right}` minus `{test.left}` | {' | '.join(cells)} |"


def _difference(test: PairedTest | None) -> str:
    return "-" if test is None else f"{100 * test.difference.value:+.1f}"


def _finding(contrast: Contrast) -> str:
    stages = ", ".join(contrast.unequally_read)
    return contrast.finding + (f"; readable shares of {stages} differ by more than 5 points" if stages else "")


def _ballots_table(found: Figures) -> Iterator[str]:
    yield "| ballots, by what was varied | independent votes, 95 % |"
    yield "|---|---|"
    for name, worth in found.ballots.items():
        yield f"| {name} | {_votes(worth)} |"


def _votes(worth: Estimate) -> str:
    return f"{worth.value:.1f} [{worth.low:.1f}, {worth.high:.1f}]"


def _share(found: Estimate | None) -> str:
    """A share in percent with its interval."""
    if found is None:
        return "-"
    return f"{100 * found.value:.1f} [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def _points(found: Estimate) -> str:
    """A difference in points with its interval."""
    return f"{100 * found.value:+.1f} points [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.995 else "1"


def _changes_table(rows: Sequence[Changes]) -> Iterator[str]:
    yield "| first answers | questions | right before | right after | corrected | spoiled |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        cells = (row.questions, row.right_before, row.right_after, row.corrected, row.spoiled)
        yield f"| {row.agreement} | {' | '.join(map(str, cells))} |"


def _gate(name: str, rows: Sequence[Changes]) -> str:
    """What a gate would have done that skips the second round where all first answers agree."""
    agreed = rows[0]
    corrected, spoiled = sum(row.corrected for row in rows), sum(row.spoiled for row in rows)
    return (
        f"A gate that skips the second round where all first answers agree would have lost {agreed.corrected} of the "
        f"{corrected} answers that `{name}` corrected, and saved {agreed.spoiled} of the {spoiled} that it spoiled."
    )


def drawn(studies: Sequence[Figures]) -> bytes:
    """The figure as SVG: accuracy against calls, a panel for each model."""
    import matplotlib as mpl

    with canvas.style(), mpl.rc_context({"svg.hashsalt": "pays"}):
        figure = canvas.new_figure(2.9 * len(studies))
        panels = figure.subplots(len(studies), 1, squeeze=False)[:, 0]
        names = list(dict.fromkeys(name for found in studies for name in found.arms))
        looks: Mapping[str, tuple[str, str]] = {
            name: (canvas.COLOURS[n % 6], canvas.MARKERS[n % 8]) for n, name in enumerate(names)
        }
        for panel, found in zip(panels, studies, strict=True):
            means = {name: mean for name, arm in found.arms.items() if (mean := arm.mean())}
            calls = {name: found.arms[name].per_question("calls") for name in means}
            places = {}  # arms with as many calls stand side by side
            for name, cost in calls.items():
                level = [each for each in calls if calls[each] == cost]
                places[name] = cost + 0.12 * (level.index(name) - (len(level) - 1) / 2)
            for name, mean in means.items():
                colour, marker = looks[name]
                canvas.interval_line(panel, places[name], mean, colour=colour)
                panel.plot(places[name], mean.value, marker, color=colour)
            canvas.percent_axis(panel, [*means.values()])
            panel.set_ylabel("match (%)")
            panel.set_title(f"{found.plan.name}, n = {found.study.questions}")
        panels[-1].set_xlabel("Calls per question")
        canvas.line_key(figure, [(name, *look) for name, look in looks.items()])
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        return re.sub(rb"[ \t]+\n", b"\n", file.getvalue())
