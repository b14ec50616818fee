"""Two arms over the same questions and calls, compared."""

import tempfile
from pathlib import Path

import madke

RECIPE = """
title: One agent against three
source: an example
arms:
  - {name: alone, protocol: cot}
  - {name: debate, protocol: mad}
"""

QUESTIONS = [
    madke.Question(id="hg", question="Which metal is liquid at room temperature?", answers=("mercury",)),
    madke.Question(id="fe", question="Which metal is the main part of steel?", answers=("iron",)),
]


def chemist(messages: list[dict[str, str]]) -> str:
    """A model that errs alone, and corrects itself when it reads others."""
    if any("steel" in message["content"] for message in messages):
        return "Steel is an alloy. The answer is iron."
    debated = "agent wrote:" in messages[-1]["content"]
    return "The answer is mercury." if debated else "The answer is gallium."


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE)
    done = madke.ablate(recipe, QUESTIONS, out=folder / "experiment", model=chemist)
    for name, scores in done.scores.items():
        if scores.correct is not None:  # None: no question of the arm has an outcome
            print(f"{name}: {scores.correct.value:.2f} correct")
    comparison = madke.compare(*done.arms.values())
    print(f"{len(comparison.questions)} questions in both")
