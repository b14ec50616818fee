"""Does the bound of ``madke calibrate`` hold? Recorded answers of several systems, calibrated on half, tested on half.

    python -m eval.calibration --data ../shared/data/recorded/mirage_mmlu_med [--out eval/calibration.md]

The recorded replies of MIRAGE (see ``mirage.py``) become panels: systems that answer the same question once, and a
majority vote. They carry the agreement of independent answers, and no rounds, judge, passages or quotes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from eval.mirage import RUNS, convert
from madke.core.errors import UserError
from madke.core.transcript import Final, Round, Stance, Transcript, Turn
from madke.data import read_dataset
from madke.engine.agreement import answer_groups
from madke.scoring.arms import open_results
from madke.scoring.calibration import Evaluated, JudgedDebate, evaluated, fitted, judged
from madke.scoring.risk import quality

PANELS = {"GPT-3.5 twice": (0, 1), "GPT-4 twice": (2, 3), "all four": (0, 1, 2, 3)}
"""Panel -> its systems in ``mirage.RUNS``; of equal votes the first system decides."""
LEVELS = (0.05, 0.1, 0.15, 0.2)
SPLITS = 100
DELTA = 0.1
SIGNALS = {"agreement": ("agreement_last",), "agreement + margin": ("agreement_last", "margin")}

SPLITS_ABOUT = (
    f"{SPLITS} random splits. Half calibrates (`madke calibrate`, delta {DELTA:g}), half tests. *Splits above the "
    "level*: the error of the answers acted on in the other half is above the level; a true error at the level "
    "would be so in about half of the splits, by chance. *Clearly above*: its 95 % interval is above the level. "
    f"The bound promises that the true error is above the level in at most {100 * DELTA:.0f} % of calibrations. "
    "*Wrong consensus deferred*: of the wrong answers on which all agreed."
)


def panel(answers: Sequence[Transcript], names: Sequence[str]) -> Transcript:
    """One debate of a single round: each system's answer, and the majority."""
    turns = tuple(
        Turn(agent=name, stance=Stance(answer=each.answer, status="ok" if each.answer else "unmarked", text="..."))
        for name, each in zip(names, answers, strict=True)
    )
    groups = answer_groups(turns, lambda a, b: a == b)
    votes = {group[0].stance.answer or "": float(len(group)) for group in groups}
    answer = max(votes, key=votes.__getitem__) if votes else None
    final = Final(by="majority", answer=answer, rule="votes", scores=votes)
    rounds = (Round(n=1, order=tuple(names), turns=turns),)
    return replace(
        answers[0], answer=answer, status="ok" if answer else "abstained", rounds=rounds, final=final, agreement=None
    )


def unanimity_table(panels: Mapping[str, Sequence[JudgedDebate]]) -> Iterator[str]:
    """How often a panel is right, by how many agree."""
    yield "| panel | share for the answer | n | right, % (95 %) |"
    yield "|---|---|---|---|"
    for name, debates in panels.items():
        for one in quality("agreement_last", [(d.found["agreement_last"], d.wrong) for d in debates]).reliability:
            right = f"{100 * one.right.value:.1f} ({100 * one.right.low:.1f} to {100 * one.right.high:.1f})"
            yield f"| {name} | {one.low:.2f} | {one.right.n} | {right} |"


def signal_rows(panels: dict[str, list[JudgedDebate]]) -> Iterator[str]:
    """AURC and accuracy at 80 % coverage."""
    yield "| panel | wrong, % | AURC, % | best possible AURC, % | accuracy at 80 % coverage, % |"
    yield "|---|---|---|---|---|"
    for name, debates in panels.items():
        q = quality("agreement_last", [(d.found["agreement_last"], d.wrong) for d in debates])
        figures = (q.wrong.value, q.aurc, q.best_aurc, q.at_80)
        yield f"| {name} | {' | '.join(f'{100 * each:.1f}' for each in figures)} |"


def split_table(
    panels: Mapping[str, Sequence[JudgedDebate]],
    *,
    signals: Mapping[str, Sequence[str]] = SIGNALS,
    levels: Sequence[float] = LEVELS,
) -> Iterator[str]:
    """The bound on held-out halves, a row for each panel, signals and level."""
    headings = (
        "panel", "signals", "error at most, %", "splits with a threshold", "acted on, % (95 % of splits)",
        "error, % (95 % of splits)", "splits above the level", "clearly above", "wrong consensus deferred, %",
    )  # fmt: skip
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for name, debates in panels.items():
        for described, names in signals.items():
            found = [_split(debates, names, levels, seed) for seed in range(SPLITS)]
            for level, of_level in zip(levels, zip(*found, strict=True), strict=True):
                yield f"| {name} | {described} | {100 * level:.0f} | {' | '.join(_cells(of_level, level))} |"


def _split(
    debates: Sequence[JudgedDebate], names: Sequence[str], levels: Sequence[float], seed: int
) -> list[Evaluated]:
    shuffled = random.Random(seed).sample(debates, len(debates))
    half = len(shuffled) // 2
    described = {"run": "", "variant": "", "tasks": (), "models": ()}
    made = fitted(shuffled[:half], names, described, delta=DELTA)
    return [evaluated(made, shuffled[half:], level) for level in levels]


def _cells(found: Sequence[Evaluated], level: float) -> Iterator[str]:
    acted = [each for each in found if each.error is not None]
    yield str(sum(each.threshold is not None for each in found))
    yield _spread([each.coverage.value for each in found])
    errors = [each.error.value for each in acted if each.error is not None]
    yield _spread(errors) if errors else "-"
    yield str(sum(error > level for error in errors))
    yield str(sum(not each.holds for each in acted))
    caught = [each.caught.value for each in found if each.caught is not None]
    yield f"{100 * fmean(caught):.0f}" if caught else "-"


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    low, high = ordered[int(0.025 * len(ordered))], ordered[min(len(ordered) - 1, int(0.975 * len(ordered)))]
    return f"{100 * fmean(values):.1f} ({100 * low:.1f} to {100 * high:.1f})"


def report(panels: dict[str, list[JudgedDebate]]) -> str:
    """The page."""
    n = {name: len(debates) for name, debates in panels.items()}
    parts = [
        "# Acting or deferring on recorded answers",
        "",
        "Written by `python -m eval.calibration --data ../shared/data/recorded/mirage_mmlu_med --out "
        "eval/calibration.md`: recorded replies of MIRAGE to MMLU-Med as panels of systems that vote once. They carry "
        "agreement, and neither rounds nor judge, passages or quotes. Questions with an answer: "
        f"{', '.join(f'{name} {count}' for name, count in n.items())}.",
        "",
        "## Does unanimity mean right?",
        "",
        *unanimity_table(panels),
        "",
        *signal_rows(panels),
        "",
        "## The bound on held-out halves",
        "",
        SPLITS_ABOUT,
        "",
        *split_table(panels),
        "",
        "A panel that agrees has one value of agreement, so that wrong consensus cannot be told from right consensus: "
        "it is deferred only with all other unanimous answers. More signals need debates that carry them.",
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Read the recordings, print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--out", type=Path, help="write the page here; default: print it")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            convert(arguments.data, folder)
            questions = read_dataset(folder / "questions.jsonl")
            arms = open_results([folder / f"{run.file}.jsonl" for run in RUNS], questions)
            answers = [list(arm.transcripts()) for arm in arms]
            panels = {
                name: judged(
                    panel([answers[place][n] for place in places], [RUNS[place].name for place in places])
                    for n in range(len(questions))
                )
                for name, places in PANELS.items()
            }
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    page = report(panels)
    if arguments.out is None:
        print(page, end="")
    else:
        arguments.out.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
