"""The page of all published figures, and of every item of the papers, from the recipes and ``eval/reproduction``."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, RootModel

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.experiments.recipe import Recipe, read_claims, read_recipe, recipe_files
from madke.report.reproduction import Figure, claims_table, figures, figures_in_units
from madke.scoring.metrics import heading_of
from madke.scoring.value_units import HUMAN

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

What the papers publish, and what it takes to measure it again. `python -m docs.generate` writes this page from the
recipes and `eval/reproduction`.

One command runs a table for all of its backbones. It shows backbones as rows, datasets as columns, their average, the
published value, ours with its 95 % interval, and a verdict for each cell:

<!-- needs a dataset: published files, models and indexes -->
```bash
madke ablate madke-table-2 --models openai/gpt-3.5-turbo,openai/Qwen1.5-32B-Chat@http://HOST:8000/v1 \\
  --data triviaqa=triviaqa.json --data nq_open=nq.jsonl --sources wiki=wikipedia-dpr-100w,google --out table-2
madke score table-2 --grader openai/gpt-4
madke report table-2 --tables csv --backbone qwen
```

| verdict | mark | meaning |
|---|---|---|
| reproduced | `=` | the published figure is inside our 95 % interval |
| higher, lower | `^`, `v` | our whole interval is above or below it |
| not comparable | `?` | another model, number of questions, index or grader, or failed debates; see the last column |
| not run | | |

*Reproduced* is no proof: an interval of 20 questions holds most figures. A model is the same by its name; the date of a
snapshot does not count. A published figure is taken as exact, since the papers state no intervals. The average counts
each dataset the same.
"""


def page() -> str:
    """The text of the page."""
    recipes = {name: recipe for name in recipe_files() if (recipe := read_recipe(name)).published}
    found = {name: figures(recipe) for name, recipe in recipes.items()}
    parts = [_HEAD, *_claims([each for of_recipe in found.values() for each in of_recipe]), *_documents()]
    rows = {name: _merged(of_recipe) for name, of_recipe in found.items()}
    total = sum(map(len, rows.values()))
    parts.append(
        f"## Published figures\n\n{total} figures that the papers state as numbers, by recipe. A figure that two "
        "recipes quote is counted in both. Shares are in percent. Where nothing was measured, the line above the table "
        "says what a run needs."
    )
    for name, recipe in recipes.items():
        parts.append(_section(name, recipe, rows[name]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


ROUNDING = 0.06
"""Points by which a stated difference may miss that of the tables, whose figures are rounded."""


def _claims(found: Sequence[Figure]) -> Iterator[str]:
    claims = read_claims()
    table = claims_table(claims, found)
    computed = {row[0].text: row[2] for row in table.rows} if table else {}
    yield (
        "## Claims\n\nDifferences that the papers state, in points, and the same computed from their own tables. "
        "*differs*: the tables give another number. `madke ablate` computes them from ours where both arms have run."
    )
    lines = ["| claim | source | stated | from their tables | |", "|---|---|---|---|---|"]
    for claim in claims:
        stated = f"{100 * claim.published:+.2f}{' %' if claim.relative else ''}"
        cell = computed.get(claim.says)
        says = "only in a plot"
        if cell is not None and cell.value is not None:
            says = "follows" if abs(cell.value - 100 * claim.published) <= ROUNDING else "differs"
        lines.append(f"| {claim.says} | {claim.source} | {stated} | {cell.text if cell else ''} | {says} |")
    yield "\n".join(lines)


def _documents() -> Iterator[str]:
    yield (
        "## Item by item\n\n*whole*: implemented, and a test holds it to the document. *runs*: a recipe runs it; its "
        "figures need the document's models and data. *own words*: the call is whole, its wording is ours ([Run the "
        "printed prompts](printed_prompts.md)). *read*: background, nothing to run."
    )
    for document in documents().values():
        lines = [f"### {document.title}\n", "| item | what | command | test | verdict |", "|---|---|---|---|---|"]
        for item, (what, command, test, verdict) in document.items.items():
            file = f"`{test.rpartition('/')[2]}`" if test else ""
            lines.append(f"| {item} | {what} | {f'`{command}`' if command else ''} | {file} | {verdict} |")
        yield "\n".join(lines)


def _merged(found: Sequence[Figure]) -> dict[tuple[str, str, str, str], tuple[Figure, list[str]]]:
    """The figures, with all arms that share one (``madke`` and ``madke-reference``)."""
    merged: dict[tuple[str, str, str, str], tuple[Figure, list[str]]] = {}
    for each in found:
        arm = each.arm.replace("madke-reference", "madke")
        merged.setdefault((each.model, arm, each.dataset, each.metric), (each, []))[1].append(each.arm)
    return merged


def _section(name: str, recipe: Recipe, rows: dict[tuple[str, str, str, str], tuple[Figure, list[str]]]) -> str:
    measured = _measured(name)
    lines = [f"### {recipe.title}\n", f"{recipe.source}. `madke ablate {name}`. Needs: {_needs(recipe)}.\n"]
    lines += ["| model | arm | dataset | metric | published | ours | verdict |", "|---|---|---|---|---|---|---|"]
    for (model, _, dataset, metric), (figure, arms) in rows.items():
        ours, verdict = measured.get((model, arms[0], dataset, heading_of(metric)), ("", "not run"))
        shown = figures_in_units(figure)
        lines.append(
            f"| {model} | {', '.join(arms)} | {dataset} | {heading_of(metric)} | {shown} | {ours} | {verdict} |"
        )
    own = {place: told for place, told in measured.items() if place[0] not in recipe.published}
    note = MEASURED / f"{name}.md"
    said = note.read_text(encoding="utf-8").strip() if note.is_file() else ""
    return "\n".join([*lines, *_own(own, said)])


def _own(measured: dict[tuple[str, str, str, str], tuple[str, str]], said: str) -> Iterator[str]:
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
    needs.append(", ".join(f"{count} questions of {name}" if count else name for name, count in counts.items()))
    needs += [f"{source} as {word}" for source, word in recipe.published_with.sources.items()]
    if any("grader" in metric for metric in metrics):
        needs.append(f"a grader ({recipe.published_with.grader})")
    needs += [f"the scorer {name}" for name in ("comet", "bleurt") if name in metrics]
    if any(metric.startswith(HUMAN) for metric in metrics):
        needs.append("people's grades")
    return "; ".join(needs)


def _measured(name: str) -> dict[tuple[str, str, str, str], tuple[str, str]]:
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
