"""Debate between models of your own: an object with a name, and a plain function of messages."""

import madke


class Geographer:
    """A model is a name and one coroutine."""

    name = "geographer"

    async def complete(self, request: madke.ChatRequest) -> madke.Completion:
        """Answer one request. ``request.purpose`` says which stage of the debate it is for."""
        return madke.Completion(text="Canberra was chosen in 1908. The answer is Canberra.")


def tourist(messages: list[dict[str, str]]) -> str:
    """A function of chat messages to a text; here of one who can be convinced."""
    heard = "Canberra" in messages[-1]["content"]
    return "You are right. The answer is Canberra." if heard else "It is the largest city. The answer is Sydney."


if __name__ == "__main__":
    debate = madke.ask(
        "What is the capital of Australia?",
        protocol="mad",
        settings={"debaters": 2},
        model={"Debater 1": Geographer(), "Debater 2": tourist},
    )
    for played in debate.transcript.rounds:
        print(f"round {played.n}:", ", ".join(f"{turn.agent} says {turn.stance.answer}" for turn in played.turns))
    print("answer:", debate.answer)
