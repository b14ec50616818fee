"""``python inspect_evals.py FOLDER``: evaluations by Inspect AI whose solver is a debate; logs are in FOLDER/NAME."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ASKED = {"q0": "Which lake is the deepest?", "q1": "Which lake is the largest?"}
GOLD = {"q0": "Baikal", "q1": "Caspian Sea"}

Reply = Callable[[str], str]


def main(folder: Path) -> None:
    """Run all evaluations."""
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import choice

    from madke.inspect import debate_solver

    os.environ["INSPECT_CACHE_DIR"] = str(folder / "replies")
    asked: list[str] = []

    def failing(prompt: str) -> str:
        asked.append(prompt)
        if "largest" in prompt or len([each for each in asked if "deepest" in each]) == 1:
            raise RuntimeError("the provider is gone")
        return baikal(prompt)

    options = [Sample(id="q0", input=ASKED["q0"], choices=["Vostok", "Baikal"], target="B")]
    mad = debate_solver("mad")
    evaluate(folder / "plain", baikal, solver=mad)
    judge = mock("judge", lambda prompt: "Verdict: yes")
    judged = debate_solver("madke", sources="none", settings={"judge_asked": "always"})
    evaluate(folder / "roles", baikal, roles={"judge": judge}, solver=judged)
    evaluate(folder / "choice", lambda prompt: "The answer is B.", dataset=options, scorer=choice(), solver=mad)
    evaluate(folder / "limit", baikal, solver=mad, token_limit=10)
    evaluate(folder / "failing", failing, solver=mad)
    for name in ("cache", "cached"):
        evaluate(folder / name, baikal, solver=debate_solver("mad", cache=True))


def baikal(prompt: str) -> str:
    """The reply to every prompt."""
    return "The answer is Baikal."


def evaluate(folder: Path, reply: Reply, *, roles: dict[str, Any] | None = None, **task: Any) -> None:
    """Ask the two questions, or those of the task."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import exact

    dataset = [Sample(id=id_, input=text, target=GOLD[id_]) for id_, text in ASKED.items()]
    settings = {"dataset": dataset, "scorer": exact(), **task}
    eval(
        Task(**settings),
        model=mock("model", reply),
        model_roles=roles,
        log_dir=str(folder),
        display="none",
        fail_on_error=False,
    )


def mock(name: str, reply: Reply) -> Any:
    """Inspect's mock model; it counts words, of which a prefix cache held two."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def answered(messages: Any, tools: Any, choice: Any, config: Any) -> Any:
        prompt = "\n".join(message.text for message in messages)
        output = ModelOutput.from_content(model=name, content=reply(prompt))
        words, said = len(prompt.split()), len(output.completion.split())
        output.usage = ModelUsage(
            input_tokens=words - 2, input_tokens_cache_read=2, output_tokens=said, total_tokens=words + said
        )
        return output

    return get_model(f"mockllm/{name}", custom_outputs=answered, memoize=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
