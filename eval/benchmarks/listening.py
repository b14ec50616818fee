"""What it costs that somebody listens: a listener that counts every event, as a share of the time of debates.

The difference is too small to be seen in debates over a server. So it is measured in debates with a model that answers
at once, and added to what the same debates take over the client and a server without latency. Both are CPU time of
this process, which bounds the speed there and which other processes disturb least.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from eval.benchmarks.generated_run import MODEL, POOL, server
from eval.benchmarks.measure import Setting, duration, report
from madke.core.chat import ChatModel, ChatRequest, Completion
from madke.core.events import Event, Listener
from madke.core.question import Question
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm import close, open_model
from madke.tasks import get_task
from madke.variants import load_variant

QUESTIONS = 100
QUICK = 5
TIMES = 25
"""Times that each is played, in turn; the fastest counts."""
CONCURRENCY = 16
RATIO = 0.98


class _Answering:
    """Says at once what the benchmarks' server says."""

    name = MODEL

    async def complete(self, request: ChatRequest) -> Completion:
        replies = {"select": "The most helpful is [0].", "judge": "Verdict: [SAME]"}
        return Completion(text=replies.get(request.purpose.stage, "The answer is [Lake Baikal]."))


def main(setting: Setting) -> None:
    """Play the debates, and print what listening leaves of their speed."""
    count, times = (QUICK, 1) if setting.quick else (QUESTIONS, TIMES)
    heard: Counter[type[Event]] = Counter()

    def listen(event: Event) -> None:
        heard[type(event)] += 1

    alone, listened = _fewest(times, _debates(_Answering, count), _debates(_Answering, count, listen=listen))
    with server() as url:
        over_server = _debates(lambda: open_model(MODEL, base_url=url), count, at_once=CONCURRENCY)
        (seconds,) = _fewest(1 if setting.quick else 5, over_server)
    each = max(0.0, listened - alone) / count
    events = sum(heard.values()) // (times * count)
    ratio = seconds / (seconds + each * count)
    report(
        "listening",
        f"{duration(each)} a debate for {events} events",
        f"{duration(seconds / count)} a debate over a server without latency; speed that is left",
        ratio,
        f"at least {RATIO}",
        ratio >= RATIO,
    )


def _fewest(times: int, *functions: Callable[[], None]) -> list[float]:
    """The fewest CPU seconds that each function took when they were called in turn."""
    found = [float("inf")] * len(functions)
    for _ in range(times):
        for n, function in enumerate(functions):
            began = time.process_time()
            function()
            found[n] = min(found[n], time.process_time() - began)
    return found


def _debates(
    opened: Callable[[], ChatModel], count: int, *, at_once: int = 1, listen: Listener | None = None
) -> Callable[[], None]:
    variant, task = load_variant("madke"), get_task("short_answer")

    async def play() -> None:
        model = opened()
        cast = dict.fromkeys(variant.protocol.roles, model)
        left = iter([Question(id=str(n), question=f"Which lake is the deepest, in survey {n}?") for n in range(count)])

        async def work() -> None:
            for question in left:
                await hold_debate(
                    Scene(
                        question,
                        variant.protocol,
                        cast,
                        POOL,
                        task=task,
                        prompts=variant,
                        listen=listen,
                        clock=time.monotonic,
                    )
                )

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
        await close(model)

    return lambda: asyncio.run(play())
