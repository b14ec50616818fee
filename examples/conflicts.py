"""Where debaters differ: who held which answer, which passages say so, and what changed minds.

    python examples/conflicts.py

Two debaters read passages that contradict each other; the second one gives in. See docs/report.md.
"""

from collections.abc import Sequence

import madke

DOCUMENTS = {
    "survey": "The survey of 1885 says that the tower is 96 metres high.",
    "guide": "According to the guide, the tower is 120 metres high.",
}


class Archive:
    """A source that finds both documents for every question."""

    name = "archive"
    description = "two documents"
    fingerprint = "1"

    def search(self, queries: Sequence[str], k: int) -> list[madke.Hits]:
        """The documents, whatever is asked."""
        passages = tuple(
            madke.Passage(source=self.name, key=key, title=key, text=text, score=1.0, rank=rank)
            for rank, (key, text) in enumerate(DOCUMENTS.items())
        )
        return [madke.Hits(passages=passages[:k]) for _ in queries]


def first(messages: list[dict[str, str]]) -> str:
    """Always trusts the survey."""
    return 'The survey is older: "the tower is 96 metres high" [0]. The answer is 96 metres.'


def second(messages: list[dict[str, str]]) -> str:
    """Trusts the guide until it reads the first debater."""
    gives_in = any("survey is older" in message["content"] for message in messages)
    return "The answer is 96 metres." if gives_in else "The guide [1] is newer. The answer is 120 metres."


def main() -> None:
    """Debate, and print the map."""
    run = madke.run(
        ["How high is the tower?"],
        protocol="mad",
        settings={"debaters": 2},
        model={"*": first, "Debater 2": second},
        sources={"archive": Archive()},
    )
    for found in run.conflicts():
        print(found.question)
        for position in found.positions:
            held = ", ".join(f"{agent} in rounds {rounds}" for agent, rounds in position.held.items())
            print(f"- {position.answer}: {held}; in passages {position.containing}")
        for one, other in found.contradictions:
            print(f"passages differ: {one.answer} {one.containing}, {other.answer} {other.containing}")
        for turn in found.changes:
            print(f"{turn.change.agent}: {turn.change.before} -> {turn.change.after}, having read {turn.read}")


if __name__ == "__main__":
    main()
