"""A debate told while it happens."""

import asyncio

import madke
from madke import events


def cook(messages: list[dict[str, str]]) -> str:
    """A model for every role."""
    if "Verdict:" in messages[-1]["content"]:
        return "Both say the same.\nVerdict: SAME"
    return "Yeast makes the gas. The answer is carbon dioxide."


async def main() -> None:
    """Print each turn when it is there."""
    async for event in madke.stream("Which gas makes bread rise?", model=cook, sources="none"):
        match event:
            case events.RoundStarted(n=n):
                print(f"--- round {n}")
            case events.StanceGiven(agent=agent, stance=stance):
                print(f"{agent}: {stance.answer}")
            case events.VerdictGiven(verdict=verdict):
                print("judge:", "they agree" if verdict.consensus else "they differ")
            case events.DebateFinished(transcript=transcript):
                print("answer:", transcript.answer)


if __name__ == "__main__":
    asyncio.run(main())
