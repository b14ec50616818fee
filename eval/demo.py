"""The whole path, offline, on what ships with the project: pools, four runs, scores, one debate, a report, a finding.

Usage: python eval/demo.py FOLDER

Everything is done by the commands that it prints, so each can be repeated by hand. The model is ``offline``, an
extractive reader: its scores say that the machinery works, not how well language models debate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from madke._util.assets import asset
from madke._util.terminal import say_wrapped
from madke.core.transcript import Transcript
from madke.report.comparison import compare_runs
from madke.report.finding import finding
from madke.runs.directory import read_transcripts
from madke.scoring.arms import open_results

ARMS = {"no-knowledge": "none", "wiki": "wiki", "google": "google", "wiki+google": "wiki,google"}


def main() -> None:
    """Run the demo."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    # The demo shows the sample's snippets even to a user who has a key for a real search.
    os.environ.pop("SERPER_API_KEY", None)
    started = time.monotonic()
    folder = Path(sys.argv[1])
    questions, pools = asset("eval", "samples", "questions.jsonl"), folder / "pools.jsonl"
    madke("pool", "build", questions, "--sources", "wiki,google", "--out", pools)
    runs = [folder / arm for arm in ARMS]
    for run in runs:
        # A demo of an earlier version must not be resumed.
        if (run / "run.json").exists():
            shutil.rmtree(run)
    for run, sources in zip(runs, ARMS.values(), strict=True):
        given = () if sources == "none" else ("--pools", pools)
        madke("run", questions, *given, "--sources", sources, "--model", "offline", "--out", run, quiet=True)
    madke("score", *runs)
    madke("report", runs[-1], "--question", telling(runs[-1]))
    madke("report", *runs, "--out", folder / "report.html")
    print(f"\nFinished in {time.monotonic() - started:.0f} s.")
    comparison = compare_runs(open_results(runs))
    say_wrapped(f"Finding: {finding(comparison.arms, comparison.scores, comparison.tests())}")
    print(f"Report: {os.path.relpath(folder / 'report.html')}")
    print(f"Transcripts: {os.path.relpath(folder)}/ARM/transcripts.jsonl")


def madke(*arguments: object, quiet: bool = False) -> None:
    """Print a ``madke`` command and run it. If it fails, say so below its error, and end with its status."""
    shown = [os.path.relpath(argument) if isinstance(argument, Path) else str(argument) for argument in arguments]
    print(f"\n$ madke {' '.join(shown)}", flush=True)
    output = subprocess.DEVNULL if quiet else None
    try:
        status = subprocess.run([sys.executable, "-m", "madke", *shown], stdout=output).returncode
    except KeyboardInterrupt:
        status = 130
    if status:
        print(f"\ndemo: this step ended with status {status}, see above: madke {' '.join(shown)}", file=sys.stderr)
        sys.exit(status if status > 0 else 128 - status)


def telling(run: Path) -> str:
    """The id of a debate worth reading: disagreement at first, agreement on the right answer later."""

    def rank(transcript: Transcript) -> tuple[bool, bool, int]:
        first = {turn.stance.answer for turn in transcript.rounds[0].turns}
        return bool(transcript.consensus), transcript.answer in transcript.answers, len(first)

    return max(read_transcripts(run), key=rank).id


if __name__ == "__main__":
    main()
