"""Questions about colours: one of each thing that a plugin can bring."""

import re
from collections.abc import Iterator
from typing import Any

from madke.core.chat import Completion
from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.scoring.metrics import metric
from madke.tasks import BaseTask


class Parrot:
    """A model that says the colour that it reads in the knowledge, or that others say."""

    name = "parrot"

    async def complete(self, request: Any) -> Any:
        text = "\n".join(message.content for message in request.messages)
        if request.purpose.stage == "judge":
            return Completion(text="Verdict: SAME")
        known = re.search(r"The sky is (\w+)|^> .*The answer is (\w+)", text, re.MULTILINE)
        return Completion(text=f"I read it. [0] The answer is {known[1] or known[2] if known else 'blue'}.")


class Almanac:
    """A source of one passage."""

    name = "almanac"
    description = "an almanac of colours"

    def search(self, queries: Any, k: Any) -> Any:
        passage = Passage(
            source=self.name, key="1", title="Sky", text="The sky is RED in the evening.", score=1.0, rank=0
        )
        return [Hits(passages=(passage,)) for _ in queries]


class Colour(BaseTask):
    """One of three colours."""

    name = "colour"
    instructions = "Answer with one of: red, green, blue."
    choices = ("red", "green", "blue")
    metrics = ("match", "plugin-metric")
    examples = (
        {"question": "Which colour has grass?", "reasoning": "Its leaves hold chlorophyll.", "answer": "green"},
        {"question": "Which colour has blood?", "reasoning": "It carries iron.", "answer": "red"},
    )


@metric("plugin-metric", binary=True)
def warm(answer: Any, question: Any) -> Any:
    """Whether the answer is a warm colour."""
    return float(answer == "red")


def read(path: Any) -> Iterator[Any]:
    """Lines of question and colour, with a tab between them."""
    for number, line in enumerate(path.read_text().splitlines()):
        question, answer = line.split("\t")
        yield Question(id=f"c{number}", question=question, answers=(answer,), task="plugin-task")
