"""Set up a learned metric in an environment of its own: ``python -m eval.scorers comet FOLDER``, or ``bleurt``.

COMET and BLEURT pin older versions of packages that madke needs. So each gets its own virtual environment in FOLDER,
with a script that reads JSON lines (``source``, ``candidate``, ``references``) and prints one number for each. The last
line printed is the command for ``madke score --scorer`` and ``madke run --answer-scorer``. pip and both packages take
proxies, mirrors and tokens from the environment.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPT = "score.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A learned metric: what pip installs, and the script that computes it."""

    requirement: str
    model: str
    script: str


_READ = """import contextlib, json, sys

items = [json.loads(line) for line in sys.stdin]
with contextlib.redirect_stdout(sys.stderr):  # Standard output has nothing but the numbers.
"""
_PRINT = """print(*(float(score) for score in scores), sep="\\n")
"""

METRICS = {
    "comet": Metric(
        requirement="unbabel-comet",
        model="Unbabel/wmt22-comet-da",
        script=_READ
        + """    from comet import download_model, load_from_checkpoint

    model = load_from_checkpoint(download_model(sys.argv[1]))
    rows = [{"src": each["source"], "mt": each["candidate"], "ref": "".join(each["references"][:1])} for each in items]
    scores = model.predict(rows, gpus=0).scores
"""
        + _PRINT,
    ),
    "bleurt": Metric(
        requirement="bleurt @ https://github.com/google-research/bleurt/archive/refs/heads/master.zip",
        model="https://storage.googleapis.com/bleurt-oss-21/BLEURT-20.zip",
        script=_READ
        + """    import pathlib, shutil, urllib.request

    from bleurt.score import BleurtScorer

    folder, checkpoint = pathlib.Path(__file__).parent, sys.argv[1]
    if "://" in checkpoint:
        name = checkpoint.rpartition("/")[2]
        checkpoint = str(folder / name.removesuffix(".zip"))
        if not pathlib.Path(checkpoint).is_dir():
            urllib.request.urlretrieve(sys.argv[1], folder / name)
            shutil.unpack_archive(folder / name, folder)
            (folder / name).unlink()
    references = ["".join(each["references"][:1]) for each in items]
    scores = BleurtScorer(checkpoint).score(references=references, candidates=[each["candidate"] for each in items])
"""
        + _PRINT,
    ),
}


def set_up(name: str, folder: Path, model: str | None = None) -> str:
    """Create the environment and the script; return the scorer's command.

    Args:
        name: ``comet`` or ``bleurt``.
        folder: For the environment; created. An environment that is there is completed.
        model: The checkpoint; None for the metric's default.

    Raises:
        subprocess.CalledProcessError: pip could not install the package; it said why.
    """
    metric = METRICS[name]
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", metric.requirement], check=True)
    (folder / SCRIPT).write_text(metric.script, encoding="utf-8")
    return shlex.join(map(str, (python, folder / SCRIPT, model or metric.model)))


def main(argv: Sequence[str] | None = None) -> None:
    """Set up one metric and print its command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metric", choices=METRICS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", help="checkpoint; default: the metric's")
    arguments = parser.parse_args(argv)
    try:
        command = set_up(arguments.metric, arguments.folder.absolute(), arguments.model)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{arguments.metric} was not installed: pip ended with {error.returncode}; its message is above")
    print(f"madke score DIR --scorer {arguments.metric}={shlex.quote(command)}")


if __name__ == "__main__":
    main()
