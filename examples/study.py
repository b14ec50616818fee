"""Does a debate pay on your questions and documents? One call, retrieval, a debate, and a vote of its cost."""

from pathlib import Path
from tempfile import TemporaryDirectory

import madke

DEEP = "Lake Baikal is 1,642 metres deep. No lake on Earth is deeper."
QUESTION = madke.Question(id="1", question="Which lake is the deepest?", answers=("Lake Baikal",))


def my_model(messages: list[dict[str, str]]) -> str:
    """Knows only what it reads; as a debater it selects the first passage, as a judge it finds no difference."""
    task = messages[-1]["content"]
    if "Do not answer yet" in task or "Verdict:" in task:
        return "I have looked. Selected: [0]" if "Do not answer yet" in task else "Verdict: SAME"
    read = any("Lake Baikal" in message["content"] for message in messages)
    return f"I have looked. The answer is {'Lake Baikal' if read else 'the Caspian Sea'}."


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        notes = Path(place, "notes")
        notes.mkdir()
        (notes / "lakes.txt").write_text(DEEP, encoding="utf-8")
        # The same call again resumes, and pays for nothing twice.
        study = madke.study([QUESTION], notes, model=my_model, out=Path(place, "study"))
        print(study.verdict.outcome, study.verdict.more)
        print(study)
