"""The page of the study, from kept results alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from eval.real_models.kept import BASELINES, KINDS, PROTOCOLS, SWAPPED, KeptCell, place, pooled
from eval.real_models.measures import ECHOED, GRAM, QUOTED, SCORED, SHORTEST, by_stage, changes
from eval.real_models.models import MODELS, StudyModel
from madke.scoring.arms import ArmValues, read_arm
from madke.scoring.metrics import heading_of
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scores import Scores, scores_of
from madke.scoring.statistics import Estimate, estimate

_HEAD = f"""# Two real models

Written by `python -m eval.real_models` from the kept results in `eval/real_models/calls/`, without a model. The
questions are from Natural Questions and HotpotQA, half each, and were not used to write the prompts. Each has five BM25
passages. Recall is far easier in this collection of 103,515 passages than in all of Wikipedia: do not put these scores
next to published ones.

- Square brackets: 95 % intervals over questions (Wilson's for rates, bootstrap for others).
- *Readable*: the value that the stage asks for was read, or the reply declines to give one. *Repeats*: more than
  {ECHOED:.0%} of the reply's words repeat its prompt: {GRAM} words in a row, or a whole line of {SHORTEST} words or
  more. Quoted words ({QUOTED} in a row) of question, passages and earlier stances do not count. *Example*: the reply
  names the answer of an example of the prompts that stands in neither question nor passages. *Cut*: the reply ends at
  the token limit. Shares of a stage are means over questions of the share of a question's replies.
- *0.3.0*: prompts, layout and reader of that version. *The paper's wording*: prompts from outside the project. Their
  text is not kept.
"""


_CHANGES = """## Changes

The kept texts are read anew with each version's reader, without a call. Arms whose figures moved since they ran:
"""


def page(kept: Iterable[KeptCell]) -> str:
    """The Markdown page."""
    by_model: dict[str, list[KeptCell]] = {}
    for cell in kept:
        by_model.setdefault(cell.model, []).append(cell)
    parts = [_HEAD]
    for key, model in MODELS.items():
        if held := by_model.get(key):
            parts += [
                f"## {model.name}\n\nSHA-256 of the file: `{model.sha256}`.",
                _state(model, held),
                *_of_model(sorted(held, key=place)),
            ]
    return "\n\n".join(filter(None, map(str.strip, parts))) + "\n"


def read_otherwise(before: Sequence[KeptCell], now: Sequence[KeptCell]) -> str:
    """Old and new figures of the runs whose texts are read in another way today; empty if there are none."""
    rows = []
    for old, new in zip(before, now, strict=True):
        (*_, then, none, _), (*_, today, none_now, _) = (
            _score_row(cell, scores_of(cell.transcripts)) for cell in (old, new)
        )
        if old.arm != SWAPPED and (then, none) != (today, none_now):
            name, kind = MODELS[old.model].name.partition(",")[0], KINDS[old.kind]
            rows.append([name, old.arm, kind, then, today, none, none_now])
    heads = ("model", "arm", "prompts", "match, as read then", "now", "no answer, then", "now")
    return f"\n{_CHANGES}\n{_table(heads, rows)}\n" if rows else ""


def _state(model: StudyModel, cells: Sequence[KeptCell]) -> str:
    """How far the study of a model has come; empty if all listed arms have all questions of the plan."""
    if min(len(cell.transcripts) for cell in cells if cell.arm != SWAPPED) >= model.questions:
        return ""
    asked = f"**Interim.** The plan asks {model.questions} questions; an arm with fewer has the first of them."
    return f"{asked} Arms that are not listed have not run yet."


def _of_model(cells: Sequence[KeptCell]) -> Iterator[str]:
    scored = [(cell, scores_of(cell.transcripts)) for cell in cells if cell.arm != SWAPPED]
    if ceiling := _ceiling(cells):
        yield ceiling
    yield "### Scores\n\n" + _table(
        ("arm", "prompts", "n", *map(heading_of, SCORED), "no answer", "failed"),
        [_score_row(cell, scores) for cell, scores in scored],
    )
    if tests := _comparisons(cells):
        yield "### `rag`, paired\n\n" + _table(
            ("metric", "prompts", "against", "n", "difference", "only left right", "only right right", "p", "Holm"),
            [_test_row(test) for test in tests],
        )
    heads = ("arm", "prompts", "stage", "replies", "readable", "repeats", "example", "cut", "failed calls")
    yield "### Replies by stage, all arms\n\n" + _table(
        heads, [row for cell in _pooled(cells) for row in _stage_rows(cell)]
    )
    yield "### Replies by stage\n\n" + _table(heads, [row for cell in cells for row in _stage_rows(cell)])
    if swapped := [cell for cell in cells if cell.arm == SWAPPED]:
        yield (
            "### Swapped stances\n\n"
            + _SWAPPED
            + "\n\n"
            + _table(
                ("prompts", "debates", "right to wrong", "right to unreadable", "wrong to right"),
                [_swapped_row(cell) for cell in swapped],
            )
        )
    yield "### Cost of a question\n\n" + _table(
        ("arm", "prompts", "calls", "prompt tokens", "new tokens", "seconds", "rounds", "consensus"),
        [_cost_row(cell, scores) for cell, scores in scored],
    )


_SWAPPED = """`madke` from a given first round: one debater is right, the other wrong, and their stances have the same
form. The shares are of their next answers. Each debater is right in half of the debates."""


def _pooled(cells: Sequence[KeptCell]) -> Iterator[KeptCell]:
    """The protocols' own arms of each prompts as one."""
    for kind in KINDS:
        if held := [cell for cell in cells if cell.kind == kind and cell.arm != SWAPPED and kind not in BASELINES]:
            yield pooled(held)


def _ceiling(cells: Sequence[KeptCell]) -> str:
    with_pool = [cell for cell in cells if cell.arm in ("rag", "madke")]
    if not with_pool:
        return ""
    largest = max(with_pool, key=lambda cell: len(cell.transcripts))
    share = estimate([float(each.id in largest.holds_gold) for each in largest.transcripts])
    return f"Pools that hold a gold answer: {_percent(share)} of {len(largest.transcripts)}."


def _score_row(cell: KeptCell, scores: Scores) -> list[str]:
    metrics = [_percent(scores.metrics.get(name)) for name in SCORED]
    unanswered = sum(transcript.status == "abstained" for transcript in cell.transcripts)
    return [cell.arm, KINDS[cell.kind], str(scores.questions), *metrics, str(unanswered), str(scores.failed)]


def _comparisons(cells: Sequence[KeptCell]) -> list[PairedTest]:
    arms = {cell.kind: read_arm(cell.kind, cell.transcripts) for cell in cells if cell.arm == "rag"}
    now: list[ArmValues] = [arms[kind] for kind in ("free", "bound") if kind in arms]
    others = [arms[kind] for kind in ("before", "paper", "few-words", "named-passage") if kind in arms]
    return paired_tests([(other, own) for own in now for other in others], ("em", "match")) if now and others else []


def _test_row(test: PairedTest) -> list[str]:
    found = test.discordant
    counts = [str(found.only_left), str(found.only_right)] if found else ["", ""]
    names = [KINDS[test.right], KINDS[test.left]]
    return [test.metric, *names, str(test.n), _points(test.difference), *counts, f"{test.p:.3f}", f"{test.p_holm:.3f}"]


def _stage_rows(cell: KeptCell) -> Iterator[list[str]]:
    for stage, found in by_stage(cell).items():
        shares = (found.readable, found.echoed, found.example, found.cut)
        yield [cell.arm, KINDS[cell.kind], stage, str(found.replies), *map(_share, shares), str(found.failed)]


def _swapped_row(cell: KeptCell) -> list[str]:
    found = changes(cell.transcripts)
    shares = map(_percent, (found.right_to_wrong, found.right_to_none, found.wrong_to_right))
    return [KINDS[cell.kind], str(len(cell.transcripts)), *shares]


def _cost_row(cell: KeptCell, scores: Scores) -> list[str]:
    totals = [transcript.total for transcript in cell.transcripts]
    means = [fmean(getattr(each, name) for each in totals) for name in ("calls", "prompt_tokens", "completion_tokens")]
    rounds = scores.mean_rounds.value if scores.mean_rounds and cell.arm in PROTOCOLS[3:] else None
    texts = [f"{means[0]:.1f}", f"{means[1]:,.0f}", f"{means[2]:,.0f}", f"{fmean(each.seconds for each in totals):.1f}"]
    consensus = _share(scores.cons_judge)
    return [cell.arm, KINDS[cell.kind], *texts, "" if rounds is None else f"{rounds:.2f}", consensus]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _percent(share: Estimate | None) -> str:
    return "" if share is None else f"{100 * share.value:.1f} [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _share(share: Estimate | None) -> str:
    return "" if share is None else f"{100 * share.value:.1f}"


def _points(difference: Estimate) -> str:
    return f"{100 * difference.value:+.1f} [{100 * difference.low:+.0f}, {100 * difference.high:+.0f}]"
