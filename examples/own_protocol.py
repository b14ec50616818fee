"""A protocol of your own: the folder ``protocols/second-thoughts`` beside this file."""

from pathlib import Path

import madke

FOLDER = Path(__file__).parent / "protocols" / "second-thoughts"


def hasty(messages: list[dict[str, str]]) -> str:
    """A model whose second thought is better."""
    if "mistake" in messages[-1]["content"]:
        return "A day on Venus lasts longer. The answer is Venus."
    return "The answer is Jupiter."


if __name__ == "__main__":
    debate = madke.ask("Which planet turns most slowly?", protocol=FOLDER, model=hasty)
    print("first:", debate.transcript.rounds[0].turns[0].stance.answer)
    print("answer:", debate.answer)
