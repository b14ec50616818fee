"""A debate as a model of lm-eval, for its tasks whose answers are generated."""

from typing import Any

import lm_eval
from datasets import Dataset
from lm_eval.api.model import LM

import madke


class Debate(LM):  # type: ignore[misc]
    """Answers each prompt of lm-eval by a debate; takes the keywords of ``madke.run``."""

    def __init__(self, **asked: Any) -> None:
        super().__init__()
        self._asked = asked

    def generate_until(self, requests: list[Any]) -> list[str]:
        """The answers, in order; empty where there is none."""
        questions = [{"id": str(n), "question": each.args[0]} for n, each in enumerate(requests)]
        answers = {each.id: each.answer or "" for each in madke.run(questions, **self._asked).transcripts()}
        return [answers[str(n)] for n in range(len(requests))]

    def loglikelihood(self, requests: list[Any]) -> Any:
        """A debate has no probabilities."""
        raise NotImplementedError("choose tasks with generate_until")

    loglikelihood_rolling = loglikelihood


def student(messages: list[dict[str, str]]) -> str:
    """A model for every role."""
    return "The answer is Jupiter."


TASK = {
    "task": "planets",
    "custom_dataset": lambda **_: {
        "test": Dataset.from_list(
            [
                {"question": "Which planet is the largest?", "answer": "Jupiter"},
                {"question": "Which planet is the smallest?", "answer": "Mercury"},
            ]
        )
    },
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": "exact_match"}],
}

if __name__ == "__main__":
    results = lm_eval.simple_evaluate(model=Debate(protocol="mad", model=student), tasks=[TASK], bootstrap_iters=0)
    print(f"exact match: {results['results']['planets']['exact_match,none']:.2f}")
