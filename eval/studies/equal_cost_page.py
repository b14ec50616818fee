"""The page of the study and its figure, written from what is kept."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eval.studies.equal_cost_results import PARTS, PRIMARY, VOTE, Arm, Compared, Results
from eval.studies.kept import KeptStudy
from eval.studies.reread import Reread
from eval.studies.shared import MODELS
from madke._util.files import write_file
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = {"nq_open": "NQ", "hotpotqa": "HotpotQA", "ramdocs": "RAMDocs"}
_DECIDE = ("qwen-0.5b", "qwen-1.5b")
_PICTURE = "accuracy_and_calls.svg"
_SHOWN_VOTES = (1, 2, 4, 8, 16)

_HEAD = """# Does a debate pay? The exploratory part

<!-- Written by python -m eval.studies.equal_cost. -->

[The study](study.md) compares each debate with a vote of exactly its first-round prompt, on new questions. This part
came before it. It suggested the contrasts of the study's plan, and confirms none.
"""
_ABOUT = """One call, votes, isolated passages and debates answered the same questions over the same pools, and each
debate is compared with a vote that makes as many calls. Its plan (`eval/studies/equal-cost/PLAN.md`) was written before
the first run. The texts were read anew for this version, without a call (see Changes); `make study` rebuilds this page.
"""
_CAPTION = """Each point is an arm: the mean of `match` (the task's matcher against any gold answer) with its 95 %
interval, against calls per question. The line joins votes of 1, 2, ... 16 samples."""
_LIMITS = """## What this does not say

- The models are small, made for code, and quantised to four bits. Nothing follows for strong models.
- Recall in a collection of 103,515 passages is far easier than in all of Wikipedia. Do not put these scores next to
  published ones.
- Published gains of debate are 1 to 5 points. No interval here is narrow enough to confirm or refute them (the plan has
  the power of each test). "No difference was found" is not "equal".
- Answers are short, prompts are ours, and each debate has its protocol's default settings. One run per question.
- `madke` ran with the judge of 0.4.0, which called nearly all stances the same on the 1.5B (`eval/judge.md`): it hardly
  ever debated there.
"""
_CHANGES = """## Changes

The kept texts were read anew by today's reader, in which a plain sentence is an answer and a stance in a peer's words
counts. Who spoke and when a debate stopped stay as they were; debates that would stop elsewhere today are *off course*.
`match` % then and now, of arms with other readings:
"""


@dataclass(frozen=True, kw_only=True)
class ReadAnew:
    """A model's part of the study as it was read when it ran, and as it is read today."""

    before: KeptStudy
    now: KeptStudy
    arms: Mapping[str, Reread]


def write_page(studies: Sequence[ReadAnew], page: Path) -> None:
    """Write the page, and next to it its picture, which is also that of the README."""
    results = {study.now.model: Results(study=study.now) for study in studies}
    if results:
        write_file(page.with_name(_PICTURE), accuracy_and_calls(results))
    write_file(page, page_text(results, studies).encode())


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same figure."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(rb"[ \t]+\n", b"\n", file.getvalue())


_FIRST_PAGE = {"standard": "one call, no passages", "rag": "one call with passages", "mad": "mad", "madke": "madke"}
"""Arms in the picture of the README -> their labels."""


def accuracy_and_calls(results: Mapping[str, Results]) -> bytes:
    """The picture of the README as SVG: accuracy against calls, a panel for each model."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {
        "svg.hashsalt": "accuracy",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(8, 3), layout="constrained")
        panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
        for panel, (model, found) in zip(panels, results.items(), strict=True):
            votes = [(vote.per_question("calls"), 100 * mean.value) for vote in found.votes if (mean := vote.mean())]
            panel.plot(*zip(*votes, strict=True), "-", color="0.55", linewidth=1.2, label="votes of 1 to 16 samples")
            for name, label in _FIRST_PAGE.items():
                arm = found.arms[name]
                mean = arm.mean()
                if mean is not None:
                    ends = [[100 * (mean.value - mean.low)], [100 * (mean.high - mean.value)]]
                    panel.errorbar(arm.per_question("calls"), 100 * mean.value, ends, fmt="o", capsize=2, label=label)
            panel.set_title(f"{model_name(model)}, n = {found.questions}", fontsize=9)
            panel.set_xlabel("calls per question")
        panels[0].set_ylabel("correct (match), %")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
        return svg(figure)


def page_text(results: Mapping[str, Results], studies: Sequence[ReadAnew]) -> str:
    """The Markdown page."""
    parts = [_HEAD, _finding(results), _ABOUT]
    if results:
        parts.append(f"![Accuracy against calls per question, for each model]({_PICTURE})")
        parts.append(_CAPTION)
    for model, found in results.items():
        parts += [model_heading(model, found), *_of_model(found)]
    parts += [_LIMITS, *_changes(studies)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _changes(studies: Sequence[ReadAnew]) -> Iterator[str]:
    """What today's reader and matcher changed: old and new figures of each arm."""
    if studies:
        yield _CHANGES
        yield "\n".join(f"- {model_name(study.now.model)}: {', '.join(_changed_arms(study))}." for study in studies)


def _changed_arms(study: ReadAnew) -> Iterator[str]:
    before, now = Results(study=study.before), Results(study=study.now)
    for name, arm in now.arms.items():
        old, each = before.arms[name].mean(), study.arms[name]
        mean = arm.mean()
        if old is not None and mean is not None and (each.changed or each.off_course):
            moved = f" ({each.off_course} off course)" if each.off_course else ""
            yield f"`{_label(arm)}` {100 * old.value:.1f} to {100 * mean.value:.1f}{moved}"


def model_name(model: str) -> str:
    """The model's name for readers."""
    return MODELS[model].name if model in MODELS else model


def _finding(results: Mapping[str, Results]) -> str:
    """What the tests of the plan found, by its rule."""
    deciding = [results[model] for model in _DECIDE if model in results]
    if not deciding:
        return "No model has been measured yet."
    told = list(filter(None, (_told(deciding, name) for name in PRIMARY)))
    tested = [name for name in PRIMARY if any(name in found.primary for found in deciding)]
    where = " and ".join(f"{_short(found)} (n = {found.questions})" for found in deciding)
    if not told:
        named = ", ".join(f"`{name}`" for name in tested)
        told = [f"No difference was found between any of {named} and a vote of its cost."]
    controls = [line for found in deciding for each in found.controls if (line := _control(found, each))]
    return f"**On {where}:** " + " ".join([*told, *controls])


def _short(found: Results) -> str:
    return {"qwen-0.5b": "the 0.5B", "qwen-1.5b": "the 1.5B"}[found.study.model]


def _told(deciding: Sequence[Results], name: str) -> str:
    """A finding about one arm: a difference for one model, with the same sign for the other or not."""
    compared = [(found, found.primary[name]) for found in deciding if name in found.primary]
    sure = [(found, each) for found, each in compared if each.found]
    if not sure:
        return ""
    found, first = sure[0]
    sign = first.test.difference.value > 0
    same = len(deciding) > 1 and all((each.test.difference.value > 0) == sign for _, each in compared)
    verb = "is ahead of" if sign else "is behind"
    which = "" if same else f" for {_short(found)}"
    size = points(first.test.difference)
    p = shown_p(first.test.p_holm)
    return f"`{name}` {verb} a vote of {first.samples} calls{which}: {size}, Holm-corrected p {p}."


def _control(found: Results, each: Compared) -> str:
    if not each.found:
        return ""
    test = each.test
    better, worse = (test.right, test.left) if test.difference.value > 0 else (test.left, test.right)
    return (
        f"For {_short(found)}, `{better}` is ahead of `{worse}`: {points(test.difference)}, p {shown_p(test.p_holm)}."
    )


def model_heading(model: str, found: Results) -> str:
    """The heading of a model's section, and the line below it."""
    sha = f" SHA-256 `{MODELS[model].sha256}`." if model in MODELS else ""
    served = f" Served as `{found.study.served_as}`." if found.study.served_as else ""
    about = f"n = {found.questions}, madke {found.study.version}.{sha}{served}"
    return f"## {model_name(model)}\n\n{about}"


def _of_model(found: Results) -> Iterator[str]:
    yield "\n".join(_arms_table(found))
    if "mad-noise" in found.arms:
        yield "`mad-noise` also needs the first round of `mad`: its three calls are not counted here."
    if found.primary:
        yield "\n".join(_primary_table(found))
    if found.controls:
        yield "\n".join(_controls_table(found))
    yield "\n".join(_parts_table(found))
    if found.shadows:
        yield "What each debate changed, from its transcripts:"
        yield "\n".join(f"- `{name}`. {shadow.sentence}" for name, shadow in found.shadows.items())


def _arms_table(found: Results) -> Iterator[str]:
    yield "| arm | `match` % | EM % | F1 % | calls | tokens | of them output | distinct |"
    yield "|---|---|---|---|---|---|---|---|"
    votes = [vote for vote in found.votes if int(vote.name.partition("@")[2]) in _SHOWN_VOTES]
    arms = [arm for name, arm in found.arms.items() if name != VOTE]
    own_votes = votes if VOTE in found.arms else []
    for arm in sorted((*arms, *own_votes), key=lambda each: each.per_question("tokens")):
        scores = [share(arm.mean(name)) for name in ("match", "em", "f1")]
        distinct = arm.per_question("distinct_tokens")
        costs = [f"{arm.per_question('calls'):.1f}", f"{arm.per_question('tokens'):,.0f}"]
        costs += [f"{arm.per_question('completion_tokens'):,.0f}", f"{distinct:,.0f}" if distinct else "-"]
        yield f"| `{arm.name}` | {' | '.join([*scores, *costs])} |"


def _primary_table(found: Results) -> Iterator[str]:
    yield "| arm | against a vote of equal calls | difference in points | p | p, Holm | vote of equal tokens |"
    yield "|---|---|---|---|---|---|"
    for name, each in found.primary.items():
        test = each.test
        arm, tokens = found.arms[name], found.equal_vote(found.arms[name], "tokens")
        other = f"`{tokens.name}` {share(tokens.mean())}" if tokens else "-"
        vote = f"`vote@{each.samples}` {100 * test.left_value:.1f} %"
        cells = [vote, points(test.difference, unit=False), shown_p(test.p), shown_p(test.p_holm), other]
        yield f"| `{arm.name}` | {' | '.join(cells)} |"


def _controls_table(found: Results) -> Iterator[str]:
    yield "| control | difference in points | p | p, Holm |"
    yield "|---|---|---|---|"
    for each in found.controls:
        test = each.test
        name = f"`{test.right}` minus `{test.left}`"
        yield f"| {name} | {points(test.difference, unit=False)} | {shown_p(test.p)} | {shown_p(test.p_holm)} |"


def _parts_table(found: Results) -> Iterator[str]:
    names = [_TITLES[part] for part in PARTS]
    yield f"| arm, `match` % | {' | '.join(names)} | RAMDocs, wrong answer adopted % |"
    yield f"|---|{'---|' * (len(names) + 1)}"
    for arm in [*found.arms.values()]:
        cells = [share(arm.part(part).mean()) for part in PARTS]
        yield f"| `{_label(arm)}` | {' | '.join(cells)} | {share(arm.part('ramdocs').mean('trapped'))} |"


def _label(arm: Arm) -> str:
    return "vote@16" if arm.name == VOTE else arm.name


def share(found: Estimate | None) -> str:
    """A share in percent with its interval."""
    if found is None:
        return "-"
    return f"{100 * found.value:.1f} [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def points(found: Estimate, *, unit: bool = True) -> str:
    """A difference in points with its interval."""
    word = " points" if unit else ""
    return f"{100 * found.value:+.1f}{word} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def shown_p(value: float) -> str:
    """A p value for a table."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.995 else "1"
