"""A run in trackio's dashboard. For Weights & Biases, only the import differs: ``import wandb as tracker``."""

import tempfile
from pathlib import Path

import trackio as tracker

import madke
from madke import events


class Tracker:
    """A listener that logs each debate when it ends, and what the run has cost so far."""

    def __init__(self) -> None:
        self._sums = {"debates": 0, "answered": 0, "calls": 0, "tokens": 0}

    def __call__(self, event: events.Event) -> None:
        """Hear an event."""
        match event:
            case events.DebateFinished(transcript=transcript):
                used, answered = transcript.total, transcript.answer is not None
                new = {"debates": 1, "answered": int(answered), "calls": used.calls, "tokens": used.tokens}
                self._sums = {name: count + new[name] for name, count in self._sums.items()}
                tracker.log({**self._sums, "rounds": len(transcript.rounds)})
            case events.RunProgress(cost=float() as cost):
                tracker.log({"cost": cost})


def student(messages: list[dict[str, str]]) -> str:
    """A model for every role."""
    return "The answer is Jupiter."


if __name__ == "__main__":
    asked = [
        {"question": "Which planet is the largest?", "answers": ["Jupiter"]},
        {"question": "Which planet is the smallest?", "answers": ["Mercury"]},
    ]
    tracker.init(project="madke", name="mad", config={"protocol": "mad"})
    out = Path(tempfile.mkdtemp()) / "run"
    run = madke.run(asked, protocol="mad", model=student, out=out, listen=Tracker())
    tracker.log({"correct": run.scores["correct"].value})
    tracker.finish()
    print(f"correct: {run.scores['correct'].value:.2f}")
