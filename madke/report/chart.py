"""The first chart of the page: accuracy against the calls of a question, or on demand against its tokens or its cost.

It is drawn by the page's own elements, so that text keeps its size on a phone, and needs no library.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from string import ascii_uppercase
from urllib.parse import quote

from madke.report.tables import Cell, percent_cell
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

_LOGARITHMIC = 8
"""The axis of costs is logarithmic if the highest is more than so many times the lowest."""

_SAME_PLACE = 2.5
"""Points that are closer than this, in percent of both axes, share a marker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyEntry:
    """One run in the key of the charts."""

    letter: str
    name: str
    href: str
    """Address of its debates."""
    correct: Estimate
    share: Cell
    note: str
    """What limits the figure: an incomplete run, failed debates."""


@dataclass(kw_only=True, slots=True)
class Marker:
    """One or more runs at a place. Places are in percent of the axes, from the left and from below."""

    letters: str
    names: str
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Accuracy against one kind of cost. Ticks: place in percent of the axis -> text."""

    unit: str
    markers: Sequence[Marker]
    costs: Mapping[str, str]
    """Letter -> cost per question, with its unit."""
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]


def cost_per_question(scores: Scores, unit: str) -> float:
    """Mean calls, tokens or cost of a debate; 0 if unknown, as for predictions from files."""
    totals = {"calls": scores.total.calls, "tokens": scores.total.tokens}
    money = sum(scores.spending.cost.values()) if scores.spending else 0.0
    return totals.get(unit, money) / max(1, scores.transcripts)


def key_of(scores: Mapping[str, Scores]) -> list[KeyEntry]:
    """The runs with a score, in order."""
    entries: list[KeyEntry] = []
    for name, arm_scores in scores.items():
        if arm_scores.correct:
            failed = f"{arm_scores.failed:,} of {arm_scores.transcripts:,} debates failed" if arm_scores.failed else ""
            note = "; ".join(filter(None, ((arm_scores.incomplete or "").partition(" (")[0], failed)))
            letter = ascii_uppercase[len(entries)] if len(entries) < len(ascii_uppercase) else str(len(entries) + 1)
            href, share = f"#debates?run={quote(name, safe='')}", percent_cell(arm_scores.correct)
            entry = KeyEntry(letter=letter, name=name, href=href, correct=arm_scores.correct, share=share, note=note)
            entries.append(entry)
    return entries


def charts(scores: Mapping[str, Scores], key: Sequence[KeyEntry]) -> Iterator[Chart]:
    """A chart for calls, for tokens, and for money where all runs have prices; none for fewer than two runs."""
    for unit in ("calls", "tokens", "cost"):
        known = [(entry, cost) for entry in key if (cost := cost_per_question(scores[entry.name], unit)) > 0]
        if len(known) > 1 and (unit != "cost" or len(known) == len(key)):
            yield _chart(unit, known)


def _chart(unit: str, runs: Sequence[tuple[KeyEntry, float]]) -> Chart:
    low = floor(10 * min(run.correct.low for run, _ in runs) + 1e-9) / 10
    high = ceil(10 * max(run.correct.high for run, _ in runs) - 1e-9) / 10
    low, high = (min(low, 0.8), max(high, low + 0.2)) if high - low < 0.2 else (low, high)
    least, most = min(cost for _, cost in runs), max(cost for _, cost in runs)
    is_log = most > _LOGARITHMIC * least
    start, end = (log10(least / 1.3), log10(most * 1.3)) if is_log else (0.0, 1.08 * most)

    def x(cost: float) -> float:
        return round(100 * ((log10(cost) if is_log else cost) - start) / (end - start), 2)

    def y(share: float) -> float:
        return round(100 * (share - low) / (high - low), 2)

    markers: list[Marker] = []
    for run, cost in runs:
        new = Marker(
            letters=run.letter,
            names=run.name,
            x=x(cost),
            y=y(run.correct.value),
            low=y(run.correct.low),
            high=y(run.correct.high),
        )
        near = [each for each in markers if max(abs(each.x - new.x), abs(each.y - new.y)) < _SAME_PLACE]
        for old in near[:1]:
            old.letters, old.names = f"{old.letters} {new.letters}", f"{old.names}, {new.names}"
            old.low, old.high = min(old.low, new.low), max(old.high, new.high)
        markers += [] if near else [new]
    step = 0.1 if high - low <= 0.6 else 0.2
    shares = [low + n * step for n in range(round((high - low) / step) + 1)]
    return Chart(
        unit=unit,
        markers=markers,
        costs={run.letter: _with_unit(_short(cost), unit) for run, cost in runs},
        x_ticks={x(each): _short(each) for each in _round_numbers(least, most, is_log=is_log) if 0 <= x(each) <= 100},
        y_ticks={y(share): f"{100 * share:.0f}" for share in shares if y(share) <= 100},
    )


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"


def _round_numbers(least: float, most: float, *, is_log: bool) -> Iterator[float]:
    if is_log:
        for power in range(floor(log10(least)), ceil(log10(most)) + 1):
            yield from (digit * 10.0**power for digit in (1, 2, 5))
        return
    step = 10.0 ** floor(log10(most / 2))
    step *= next(factor for factor in (1, 2, 5) if most / (step * factor) <= 6)
    yield from (n * step for n in range(int(1.08 * most / step) + 1))


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
