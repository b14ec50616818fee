"""The report page over many debates: writing it, and how fast it is in a browser (Chromium, through Playwright)."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval.benchmarks.measure import Setting, anonymous_memory, duration, generated_corpus, in_own_process, size
from madke.core.transcript import (
    Final,
    PoolEntry,
    Round,
    Selection,
    StageUsage,
    Stance,
    Transcript,
    Turn,
    Verdict,
    to_json,
)
from madke.engine.protocol import Protocol
from madke.files import read_jsonl
from madke.report.html import write_report
from madke.runs.run_pools import lines_of
from madke.runs.spec import RunSpec
from madke.scoring.scored import scores_of

QUESTIONS = 5_000
_POOL = 10
_DEBATERS = [f"Debater {n}" for n in (1, 2, 3)]
_READY, _FILTER = 3.0, 0.05
_SEARCHES = ("survey", "1", "49", "no such words", "lake survey 7", "")


def main(setting: Setting) -> None:
    """A run of 5,000 questions, three debaters, two rounds, a stance of 100 words, ten passages of 100 words each."""
    count = 100 if setting.quick else QUESTIONS
    folder, page = setting.folder / "report-run", setting.folder / "report.html"
    _write_run(folder, count, generated_corpus(setting.folder, count * _POOL))
    (seconds, scoring, before), peak = in_own_process(_write_page, folder, page)
    print(
        f"report, {count:,} debates: written in {duration(seconds)}, {size(page.stat().st_size)}, with "
        f"{size(max(peak - before, 0))} of memory beyond that of the scores; scoring them takes {duration(scoring)}, "
        f"ratio {seconds / scoring:.2f}",
        flush=True,
    )
    shown = _in_browser(page)
    if shown is None:
        print("  not opened: it needs playwright, and chromium on the PATH", flush=True)
        return
    ready, filters, debate = shown
    slowest = max(filters)
    print(
        f"  ready after {duration(ready)} (aim below {duration(_READY)}: {_met(ready < _READY)}); "
        f"a filter takes {duration(statistics.median(filters))}, at most {duration(slowest)} "
        f"(aim below {duration(_FILTER)}: {_met(slowest < _FILTER)}); a debate opens in {duration(debate)}",
        flush=True,
    )


def _met(met: bool) -> str:
    return "met" if met else "missed"


def _write_page(folder: Path, page: Path) -> tuple[float, float, int]:
    """Seconds to write the page, and to score the run, which reads the same; and the anonymous memory before."""
    began = time.perf_counter()
    scores = scores_of(folder)
    before, started = anonymous_memory(), time.perf_counter()
    write_report([folder], page, scores=[scores])
    return time.perf_counter() - started, started - began, before


def _in_browser(page: Path) -> tuple[float, list[float], float] | None:
    """Seconds until the page is ready, for each filter, and to open a debate of a block that is still packed."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(offline=True).new_page()
        tab.goto(f"{page.as_uri()}#debates")
        tab.wait_for_selector("html.ready")
        ready = tab.evaluate("performance.getEntriesByName('madke-ready')[0].startTime")
        for words in _SEARCHES:
            tab.get_by_role("searchbox").fill(words)
        for outcome in ("right", "wrong", ""):
            tab.get_by_role("combobox", name="Outcome").select_option(outcome)
        filters = tab.evaluate("performance.getEntriesByName('madke-filter', 'measure').map((each) => each.duration)")
        debate = tab.evaluate(_OPEN_LAST)
        browser.close()
    return ready / 1000, [each / 1000 for each in filters], debate / 1000


_OPEN_LAST = """async () => {
  const started = performance.now();
  [...document.querySelectorAll("#rows a")].at(-1).click();
  while (!document.querySelector("#debate h2")) await new Promise(requestAnimationFrame);
  return performance.now() - started;
}"""


def _write_run(folder: Path, count: int, corpus: Path) -> None:
    folder.mkdir(exist_ok=True)
    passages = (item for _, item in read_jsonl(corpus))
    with (folder / "transcripts.jsonl").open("wb") as runs, (folder / "pools.jsonl").open("w") as pools:
        for number in range(count):
            pool = [next(passages) for _ in range(_POOL)]
            transcript = _transcript(number, pool)
            runs.write(to_json(transcript) + b"\n")
            found = [{"source": "wiki", "key": one["id"], "title": one["title"], "text": one["text"]} for one in pool]
            pools.write(json.dumps({"id": transcript.id, "question": transcript.question, "passages": found}) + "\n")
    ids = {f"q{number}": "" for number in range(count)}
    config = RunSpec(
        data="generated",
        questions=ids,
        variant="madke",
        protocol=Protocol(source="a benchmark"),
        prompts_sha256={},
        models={},
        source_specs={},
        pools={id_: found for id_, (found, _) in lines_of(folder / "pools.jsonl", ids).items()},
        seed=0,
        repeats=1,
    )
    sessions = [{"files": {"calls": "calls.sqlite", "pools": "pools.jsonl"}}]
    record = {"format": 2, "spec": config.model_dump(mode="json"), "endpoints": {}, "sessions": sessions}
    (folder / "run.json").write_text(json.dumps(record))


def _transcript(number: int, pool: list[dict[str, Any]]) -> Transcript:
    rounds = tuple(_rounds(number, pool))
    answer = rounds[-1].turns[0].stance.answer
    used = StageUsage(calls=6, paid=6, prompt_tokens=9_000, completion_tokens=900)
    return Transcript(
        id=f"q{number}",
        question=f"Which lake is the deepest of all that survey {number} names, and how deep is it?",
        task="short_answer",
        answers=("Lake Baikal", "Baikal"),
        status="ok",
        answer=answer,
        stop_reason="consensus",
        rounds=rounds,
        final=Final(by="summarizer", answer=answer, text=pool[0]["text"]),
        pool=tuple(PoolEntry(n=n, source="wiki", key=one["id"], title=one["title"]) for n, one in enumerate(pool)),
        usage=dict.fromkeys(("select", "speak", "reply", "judge", "summarize"), used),
    )


def _rounds(number: int, pool: list[dict[str, Any]]) -> Iterator[Round]:
    for n in (1, 2):
        turns = []
        for place, name in enumerate(_DEBATERS):
            answer = "Lake Baikal" if (number + place * (2 - n)) % 3 else "Lake Tanganyika"
            stance = Stance(stage="speak" if n == 1 else "reply", text=pool[place + n]["text"], answer=answer)
            turns.append(Turn(agent=name, stance=stance, selection=Selection(ids=(place, place + 1), text="[0] [1]")))
        yield Round(n=n, order=tuple(_DEBATERS), turns=tuple(turns), verdict=Verdict(consensus=n == 2, text="[Yes]"))
