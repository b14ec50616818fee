"""Calibrate on one half of the sample questions, and leave doubtful answers of the other half to a person.

    python examples/deferring.py

The sample has few questions, so the level is loose. See docs/report.md.
"""

import tempfile
from pathlib import Path

import madke
from madke.core.errors import UserError
from madke.engine.deferral import SIGNALS, signals
from madke.scoring.arms import open_results
from madke.scoring.gates import calibrate
from madke.tasks import get_task

QUESTIONS = Path(__file__).parents[1] / "eval" / "samples" / "questions.jsonl"


def main() -> None:
    """Debate, calibrate, debate again."""
    with tempfile.TemporaryDirectory() as folder:
        run = madke.run(QUESTIONS, limit=60, out=Path(folder) / "dev")
        made = calibrate(open_results([run.path]), "agreement_last")
        print(f"{len(made.points)} answers, {sum(wrong for _, wrong in made.points)} wrong")
        calibration = Path(folder) / "calibration.json"
        print("signals:", ", ".join(f"{name} ({meaning})" for name, meaning in SIGNALS.items()))
        calibration.write_text(made.model_dump_json(), encoding="utf-8")
        try:
            debate = madke.ask("Which lake is the deepest?", error_at_most="40%", calibration=calibration)
        except UserError as error:  # too many of the dev answers are wrong for any threshold
            print(f"cannot act: {error}")
            return
        found = debate.transcript
        print("signals of this debate:", signals(found, get_task(found.task)))
        print(f"answer: {debate.answer}" if found.deferral is None else f"deferred: {found.deferral.reason}")


if __name__ == "__main__":
    main()
