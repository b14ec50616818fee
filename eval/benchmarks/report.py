"""The report page over 5,000 debates: its size, writing it, and how fast it is in Chromium, through Playwright."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.benchmarks.debates import write_run
from eval.benchmarks.measure import Setting, anonymous_memory, duration, in_own_process, report, size
from madke.report.html import write_report
from madke.scoring.arms import open_runs
from madke.scoring.scored import scored_arm

DEBATES = 5_000
_ARMS = 4
_TIMES = 3
_BYTES, _READY, _FILTER = 6_000, 3.0, 0.05
_TYPED = ("survey", "1", "49", "no such words", "survey 7", "")
_SEARCHES = ("evidence", "therefore 1642", "nightingale", "no such words")
"""Words of many debates, of some, of few and of none. The first search also unpacks all texts."""


def main(setting: Setting) -> None:
    """One run of 5,000 questions, and four runs of 1,250, as :mod:`eval.benchmarks.debates` writes them."""
    count = 100 if setting.quick else DEBATES
    one, page = setting.folder / "report-run", setting.folder / "report.html"
    write_run(one, count)
    (seconds, scoring, before), peak = in_own_process(_write_page, [one], page)
    each = page.stat().st_size / count
    memory = f"{size(max(peak - before, 0))} of memory beyond that of the scores"
    written = f"{duration(seconds)} for {count:,} debates with {memory}"
    report("report, writing", written, f"{duration(scoring)} to score them", seconds / scoring)
    report("report, page", f"{each:,.0f} bytes a debate", aim=f"at most {_BYTES:,}", met=each <= _BYTES)
    arms = [setting.folder / f"report-arm-{arm}" for arm in range(_ARMS)]
    for arm, folder in enumerate(arms):
        write_run(folder, count // _ARMS, arm=arm)
    matrix = setting.folder / "report-arms.html"
    in_own_process(_write_page, arms, matrix)
    if shutil.which("chromium") is None:
        print("  not opened: there is no chromium on the PATH", flush=True)
        return
    times = 1 if setting.quick else _TIMES
    _show("report", page, times)
    _show(f"report of {_ARMS} runs", matrix, times)


def _write_page(folders: Sequence[Path], page: Path) -> tuple[float, float, int]:
    """Seconds to write the page, and to score the runs, which reads the same; and the anonymous memory before."""
    began = time.perf_counter()
    scores = [scored_arm(arm)[0] for arm in open_runs(folders)]
    before, started = anonymous_memory(), time.perf_counter()
    write_report(folders, page, scores=scores)
    return time.perf_counter() - started, started - began, before


def _show(name: str, page: Path, times: int) -> None:
    """Report the figures of a page in the browser, of each the fastest of so many tabs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
        tabs = [_used(context.new_page(), f"{page.as_uri()}#debates") for _ in range(times)]
        browser.close()
    fastest = {part: [min(each) for each in zip(*(tab[part] for tab in tabs), strict=True)] for part in tabs[0]}
    [ready], filters, searches = fastest["ready"], fastest["filters"], fastest["searches"]
    report(f"{name}, ready", duration(ready), aim=f"below {_READY:.0f} s", met=ready < _READY)
    typical = f"{duration(max(filters))} at most, median {duration(statistics.median(filters))}"
    report(f"{name}, filter", typical, aim=f"below {duration(_FILTER)}", met=max(filters) < _FILTER)
    first, *later = searches
    report(f"{name}, search of texts", f"{duration(first)} the first time, then {duration(max(later))} at most")
    report(f"{name}, scrolling", f"{duration(max(fastest['frames']))} the longest of {len(fastest['frames'])} frames")
    report(f"{name}, opening a debate", duration(fastest["opened"][0]))


def _used(tab: Any, address: str) -> dict[str, list[float]]:
    """Seconds that a fresh tab needs: until it is ready, for each filter, search and frame, and to open a debate."""
    tab.goto(address)
    tab.wait_for_selector("html.ready")
    ready = tab.evaluate("performance.getEntriesByName('madke-ready')[0].startTime") / 1000
    _took(tab, "filter")
    box = tab.get_by_role("searchbox")
    for words in _TYPED:
        box.fill(words)
    choice = tab.locator("#by-outcome:visible, #by-show:visible")
    for value in choice.locator("option").evaluate_all("(options) => options.map((each) => each.value)"):
        choice.select_option(value)
    filters = _took(tab, "filter")
    box.fill("")
    searches = []
    for words in _SEARCHES:
        _took(tab, "search")
        box.fill(words)
        while not (took := _took(tab, "search")):
            tab.wait_for_timeout(20)
        searches += took
    box.fill("")
    frames = [each / 1000 for each in tab.evaluate(_SCROLL)]
    opened = tab.evaluate(_OPEN) / 1000
    tab.close()
    return {"ready": [ready], "filters": filters, "searches": searches, "frames": frames, "opened": [opened]}


def _took(tab: Any, name: str) -> list[float]:
    """Seconds of each measurement of the page since the last call."""
    script = """(name) => {
      const found = performance.getEntriesByName(name, "measure").map((each) => each.duration);
      performance.clearMeasures(name);
      return found;
    }"""
    return [each / 1000 for each in tab.evaluate(script, f"madke-{name}")]


_SCROLL = """async () => {
  const grid = document.getElementById("grid");
  const scrolled = grid.checkVisibility() ? grid : document.documentElement;
  const frame = () => new Promise(requestAnimationFrame);
  const frames = [];
  let before = await frame();
  for (let n = 0; n < 60; n += 1) {
    scrolled.scrollTop += 1000;
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""

_OPEN = """async () => {
  const started = performance.now();
  [...document.querySelectorAll("#rows a, #cells a")].at(-1).click();
  while (!document.querySelector("#debate h2")) await new Promise(requestAnimationFrame);
  return performance.now() - started;
}"""
