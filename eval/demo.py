"""The main job, offline, on what ships with the project: one question, and a study of the 120 sample questions.

Usage: python eval/demo.py FOLDER

The commands are printed, so each can be repeated by hand. The model is ``offline``, an extractive reader: its scores
say that the machinery works, not how well language models debate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from madke._util.assets import asset

QUESTION = "In which city was Verdi's opera Aida first performed?"
NEXT = """\
Next, after `. {activate}`:
  your questions and documents    madke study questions.csv ./documents
  with a language model           madke study questions.csv ./documents --model openai/NAME --plan
  debates for any chat client     madke serve --out served
"""


def main() -> None:
    """Run the demo."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    # The demo shows the sample's snippets even to a user who has a key for a real search.
    os.environ.pop("SERPER_API_KEY", None)
    started = time.monotonic()
    folder = Path(sys.argv[1])
    madke("ask", QUESTION)
    madke("study", asset("eval", "samples", "questions.jsonl"), "--yes", "--out", folder)
    print(f"\nFinished in {time.monotonic() - started:.0f} s. The report: {os.path.relpath(folder / 'report.html')}")
    print(NEXT.format(activate=os.path.relpath(Path(sys.prefix) / "bin" / "activate")), end="")


def madke(*arguments: object) -> None:
    """Print a ``madke`` command and run it. If it fails, say so below its error, and end with its status."""
    shown = [os.path.relpath(argument) if isinstance(argument, Path) else str(argument) for argument in arguments]
    line = " ".join(f'"{each}"' if " " in each else each for each in shown)
    print(f"\n$ madke {line}", flush=True)
    try:
        status = subprocess.run([sys.executable, "-m", "madke", *shown]).returncode
    except KeyboardInterrupt:
        status = 130
    if status:
        print(f"\ndemo: this step ended with status {status}, see above: madke {line}", file=sys.stderr)
        sys.exit(status if status > 0 else 128 - status)


if __name__ == "__main__":
    main()
