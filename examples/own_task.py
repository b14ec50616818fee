"""An answer format of your own, with a metric of its own."""

import re

import madke


@madke.metric("within_ten_years")
def within_ten_years(answer: str, question: madke.Question) -> float:
    """1 for the year itself, less the farther off, 0 from ten years on."""
    return max(0.0, 1 - abs(int(answer) - int(question.answers[0])) / 10)


class Year(madke.BaseTask):
    """A year. What is left out here has defaults."""

    name = "year"
    instructions = "Answer with a year in digits, such as 1912."
    metrics = ("match", within_ten_years)
    examples = (
        {"question": "When did the Titanic sink?", "reasoning": "It sank in April 1912.", "answer": "1912"},
        {"question": "When did Apollo 11 land?", "reasoning": "It landed in July 1969.", "answer": "1969"},
    )

    def read(self, text: str, question: madke.Question) -> str | None:
        """The year in the text inside a marker; None if there is none."""
        found = re.search(r"\b\d{4}\b", text)
        return found[0] if found else None


def historian(messages: list[dict[str, str]]) -> str:
    """A model that is a little off."""
    return "It fell late in the year. The answer is 1991."


if __name__ == "__main__":
    run = madke.run(
        [{"question": "When did the Berlin Wall fall?", "answers": ["1989"]}],
        protocol="cot",
        model=historian,
        task=Year(),
    )
    for name, score in run.scores.items():
        print(f"{name}: {score.value:.2f}")
