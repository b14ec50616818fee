"""The page of all published figures, and of every item of the papers, from the recipes and ``eval/reproduction``."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import BaseModel, Field, RootModel

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.experiments.recipe import Recipe, read_recipe, recipe_files
from madke.report.reproduction import Figure, figure_cell, figures
from madke.scoring.metrics import HUMAN, heading_of

FOLDER = asset("eval", "reproduction")

MEASURED = FOLDER / "measured"
"""Files ``RECIPE.csv``: the table ``published.csv`` of ``madke report EXPERIMENT --tables csv``; ``RECIPE.md``: how it
was measured."""

ItemVerdict = Literal["whole", "runs", "own words", "read", "not here"]


class Document(BaseModel, extra="forbid", frozen=True):
    """A document and what is in it."""

    title: str
    items: dict[str, tuple[str, str, str, ItemVerdict]]
    """Item -> what it is, command, test, verdict."""


class _Documents(RootModel[dict[str, Document]]):
    pass


def documents() -> dict[str, Document]:
    """The five documents, by short name."""
    return read_yaml(FOLDER / "documents.yaml", _Documents).root


_HEAD = """# Reproduction of the papers

Can madke measure what the papers publish? One command runs a table for all of its models, and its report shows the
published value, ours with its 95 % interval, and a verdict for each cell:

<!-- needs a dataset: published files, models and indexes -->
```bash
madke ablate madke-table-2 --models openai/gpt-3.5-turbo,openai/Qwen1.5-32B-Chat@http://HOST:8000/v1 \\
  --data triviaqa=triviaqa.json --data nq_open=nq.jsonl --sources wiki=wikipedia-dpr-100w,google --out table-2
madke score table-2 --grader openai/gpt-4
madke report table-2 --tables csv
```

| verdict | meaning |
|---|---|
| reproduced | the 95 % interval of the difference contains 0; with 20 questions it nearly always does |
| higher, lower | the whole interval is above or below 0 |
| not comparable | other words, model, number of questions, index or grader, or failed debates |

A published share has the interval of its number of questions (Wilson); both count (Newcombe, 1998, method 10). Other
published figures count as exact. A model is the same by its name.

The prompts of madke are its own words, chosen by how well small models follow them, so a figure of a paper and yours can
differ because of the words alone. `--wording paper` asks in the structure of the paper, `--wording FILE` in its printed
words: [printed prompts](printed_prompts.md).

## Does knowledge make debates better?

Wang et al. claim two things at once: that passages help, and that talk over passages helps more. The [study](study.md) takes
them apart on two local models: debate and vote, each with and without the pool (knowledge times debate; the cells `mad`,
`mad-vote`, `mad-no-pool` and `vote-no-pool` of `eval/studies/pays/PLAN.md`). The [source ablation](retrieval.md#pools)
compares no source, each source and all of them, over your questions too.
"""  # noqa: E501


def page() -> str:
    """The text of the page."""
    recipes = {name: recipe for name in recipe_files() if (recipe := read_recipe(name)).published}
    found = {name: figures(recipe) for name, recipe in recipes.items()}
    parts = [_HEAD, *_claims([each for of_recipe in found.values() for each in of_recipe]), *_documents()]
    total = len({(n, e.model, e.arm.removesuffix("-reference"), e.dataset, e.metric) for n in found for e in found[n]})
    parts.append(
        f"## Published figures\n\n{total} figures that the papers state as numbers, by recipe. A figure that two "
        "recipes quote is counted in both. Shares are in percent. A figure stands alone until ours is measured; the "
        "line above a table says what a run needs. No published number is of a model as small as those of the study "
        "(0.5B and 1.5B): the smallest is Qwen2.5-3B-Instruct, and Figure 6 of Wang et al. shows 1.8B in a plot only. "
        "So no cell is reproduced here."
    )
    for name, recipe in recipes.items():
        parts.append(_section(name, recipe, found[name]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


ROUNDING = 0.06
"""Points by which a stated difference may miss that of the tables, whose figures are rounded."""


Place = tuple[str, str, str, str]
"""(model, arm, dataset, metric)."""


class Side(BaseModel, extra="forbid", frozen=True):
    """One of the two arms of a claim."""

    model: str
    arm: str | tuple[str, ...]
    """Several: the best of them in each figure."""


class Claim(BaseModel, extra="forbid", frozen=True):
    """A difference that a paper states."""

    says: str
    """The claim, in our words."""
    source: str
    published: float
    """``of`` minus ``than``, in shares; with ``relative``, as a part of ``than``."""
    relative: bool = False
    of: Side
    than: Side
    figures: Mapping[str, str | tuple[str, ...]] = Field(min_length=1)
    """Dataset -> metric, or several; all figures count the same."""

    def computed(self, values: Mapping[Place, float]) -> float | None:
        """The difference by these figures; None if one is missing."""

        def mean(side: Side) -> float:
            places = [(dataset, metric) for dataset, metrics in self.figures.items() for metric in _all(metrics)]
            return fmean(max(values[side.model, arm, *place] for arm in _all(side.arm)) for place in places)

        try:
            of, than = mean(self.of), mean(self.than)
        except KeyError:
            return None
        return (of - than) / than if self.relative else of - than


def _all(named: str | tuple[str, ...]) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else named


class _Claims(BaseModel, extra="forbid", frozen=True):
    claims: tuple[Claim, ...]


def computed_claims(found: Sequence[Figure]) -> list[tuple[Claim, float | None]]:
    """All claims of the papers, in the order of their file, each with its difference by the published figures."""
    values: dict[Place, float] = {}
    for each in found:
        if each.published is not None:
            values.setdefault((each.model, each.arm, each.dataset, each.metric), each.published)
    return [(claim, claim.computed(values)) for claim in read_yaml(FOLDER / "claims.yaml", _Claims).claims]


def _claims(found: Sequence[Figure]) -> Iterator[str]:
    yield (
        "## Claims\n\nDifferences that the papers state, in points, and the same computed from their own tables "
        "(stated / computed)."
    )
    lines = []
    for claim, computed in computed_claims(found):
        stated = f"{100 * claim.published:+.2f}{' %' if claim.relative else ''}"
        result = f"{stated}, only in a plot"
        if computed is not None:
            follows = 100 * abs(computed - claim.published) <= ROUNDING
            result = f"{stated} / {100 * computed:+z.2f}{'' if follows else ', **differs**'}"
        lines.append(f"- {claim.says} ({claim.source}): {result}")
    yield "\n".join(lines)


def _documents() -> Iterator[str]:
    yield (
        "## Item by item\n\n*whole*: implemented, and a test (named in `eval/reproduction/documents.yaml`) holds it to "
        "the document. *runs*: a recipe runs it, with the document's models and data. *own words*: the call is "
        "whole, its wording is ours. Drawings and background, with nothing to run, are left out."
    )
    for document in documents().values():
        lines = [f"### {document.title}\n"]
        for item, (what, command, _, verdict) in document.items.items():
            if verdict != "read":
                recipe = f"; `{command}`" if command.startswith("madke ablate") else ""
                lines.append(f"- {item} (*{verdict}*): {what}{recipe}")
        yield "\n".join(lines)


def _section(name: str, recipe: Recipe, found: Sequence[Figure]) -> str:
    """The figures of one recipe: a row for each arm, a column for each model, the datasets in a cell."""
    measured = _measured(name)
    lines = [f"### {recipe.title}\n", f"{recipe.source}. `madke ablate {name}`. Needs: {_needs(recipe)}.\n"]
    columns = list(dict.fromkeys((each.dataset, each.metric) for each in found))
    cells = {(each.model, each.arm, each.dataset, each.metric): _cell(each, measured) for each in found}
    models = list(dict.fromkeys(each.model for each in found))
    # Arms with equal figures share a row: `madke` and `madke-reference` stand for one system of the paper.
    rows: dict[tuple[str, ...], list[str]] = {}
    for arm in dict.fromkeys(each.arm for each in found):
        figures_of = [[cells.get((model, arm, *column), "-") for column in columns] for model in models]
        rows.setdefault(tuple("" if set(each) == {"-"} else "/".join(each) for each in figures_of), []).append(arm)
    if len(columns) > 1:
        lines.append(f"A cell has {', '.join(_heading(*column, columns) for column in columns)}.\n")
    names = models if len(columns) > 1 else [f"{model}: {_heading(*columns[0], columns)}" for model in models]
    lines += [f"| arm | {' | '.join(names)} |", "|" + "---|" * (len(models) + 1)]
    lines += [f"| {', '.join(arms)} | {' | '.join(row)} |" for row, arms in rows.items()]
    own = {place: told for place, told in measured.items() if place[0] not in recipe.published}
    note = MEASURED / f"{name}.md"
    said = note.read_text(encoding="utf-8").strip() if note.is_file() else ""
    return "\n".join([*lines, *_own(own, said)])


def _heading(dataset: str, metric: str, columns: Sequence[tuple[str, str]]) -> str:
    one_metric = len({metric for _, metric in columns}) == 1 and len(columns) > 1
    return dataset if one_metric else f"{dataset} {heading_of(metric)}"


def _cell(figure: Figure, measured: Mapping[Place, tuple[str, str]]) -> str:
    ours, verdict = measured.get((figure.model, figure.arm, figure.dataset, heading_of(figure.metric)), ("", ""))
    published = figure_cell(figure.published, figure).text
    return f"{published}; ours {ours}, {verdict}" if ours else published


def _own(measured: Mapping[Place, tuple[str, str]], said: str) -> Iterator[str]:
    """Our figures of models that the paper does not have: an arm is a row. ``said``: how they were measured."""
    if not measured:
        return
    columns = dict.fromkeys((dataset, metric) for _, _, dataset, metric in measured)
    yield f"\nMeasured here, on models that the paper does not have. {said}\n"
    yield f"| model | arm | {' | '.join(map(' '.join, columns))} | |"
    yield "|" + "---|" * (len(columns) + 3)
    for model, arm in dict.fromkeys((model, arm) for model, arm, _, _ in measured):
        cells = [measured.get((model, arm, *column), ("", "")) for column in columns]
        verdicts = "; ".join(dict.fromkeys(verdict for _, verdict in cells if verdict))
        yield f"| {model} | {arm} | {' | '.join(ours for ours, _ in cells)} | {verdicts} |"


def _needs(recipe: Recipe) -> str:
    metrics = {metric for *_, metric, _ in recipe.figures()}
    counts = {name: recipe.published_with.questions.get(name, recipe.limit) for name in recipe.datasets}
    needs = [f"{', '.join(recipe.published)}"]
    by_count: dict[int | None, list[str]] = {}
    for name, count in counts.items():
        by_count.setdefault(count, []).append(name)
    needs += [f"{f'{count} questions of ' if count else ''}{', '.join(names)}" for count, names in by_count.items()]
    needs += [f"{source} as {word}" for source, word in recipe.published_with.sources.items()]
    if any("grader" in metric for metric in metrics):
        needs.append(f"a grader ({recipe.published_with.grader})")
    needs += [f"the scorer {name}" for name in ("comet", "bleurt") if name in metrics]
    if any(metric.startswith(HUMAN) for metric in metrics):
        needs.append("people's grades")
    return "; ".join(needs)


def _measured(name: str) -> dict[Place, tuple[str, str]]:
    """(model, arm, dataset, metric) -> ours with its interval, and the verdict."""
    file = Path(MEASURED / f"{name}.csv")
    if not file.is_file():
        return {}
    found = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row.get("ours"):
                low, high = row.get("ours low") or row["ours"], row.get("ours high") or row["ours"]
                ours = f"{float(row['ours']):.1f} [{float(low):.1f} to {float(high):.1f}]"
                why = f" ({row['why']})" if row.get("why") else ""
                found[row["model"], row["arm"], row["dataset"], row["metric"]] = (ours, f"{row['verdict']}{why}")
    return found
