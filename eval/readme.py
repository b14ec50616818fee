"""Parts of the README and of the first page of docs/ that a command makes: a real model's figures, and a debate.

``python -m eval.readme`` reads the figures from docs/study.md, debates one question of the demo with the offline reader
as ``make demo`` does, and writes both parts and the picture docs/debate.svg. Tests compare them with the study's page
and with the debate of the day.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.sax.saxutils import escape

import madke
from madke._util.assets import asset
from madke.core.transcript import Round, Transcript, Turn
from madke.report.debate_text import debate_text
from madke.scoring.debate_rows import gold_numbers

ROOT = Path(__file__).parent.parent
STUDY, PICTURE = ROOT / "docs" / "study.md", ROOT / "docs" / "debate.svg"
QUESTION = "a-002"
"""A question of the demo whose debaters first disagree, and then agree on the right answer."""


def demo_debate() -> Transcript:
    """The debate of the demo's run ``wiki+google`` on the question; needs the packages of ``make demo``."""
    with TemporaryDirectory(prefix="madke-") as folder:
        ids = Path(folder, "ids.txt")
        ids.write_text(f"{QUESTION}\n", encoding="utf-8")
        questions = asset("eval", "samples", "questions.jsonl")
        run = madke.run(questions, ids=str(ids), sources="wiki,google", model="offline", out=Path(folder, "run"))
        (transcript,) = run.transcripts()
    return transcript


class _Arm(NamedTuple):
    name: str
    match: str
    calls: str


def figures(study: str) -> str:
    """The arms of the study that answer the usual question, on the model with the most questions."""
    sections = re.split(r"^## ", study, flags=re.MULTILINE)[1:]
    counted = [(int(found[1]), section) for section in sections if (found := re.search(r"^n = (\d+)", section, re.M))]
    n, section = max(counted, key=lambda each: each[0])
    model = section.partition("\n")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([\d.]+ \[\d+, \d+\]) \|.*?\| ([\d.,]+) \| [\d,]+ \| [\d,]+ \|", section, re.M)
    arms = {name: _Arm(name, match, calls) for name, match, calls in rows}
    test = re.search(r"^\| `madke` \| `(vote@\d+)` ([\d.]+) % \| (\S+) \[(\S+), (\S+)\] \| ([^|]+) \|", section, re.M)
    assert test is not None, "the study's page has no test of madke against a vote"
    vote, share, difference, low, high, p = test.groups()
    lines = [
        f"| {model}, n = {n} | correct (match), % | calls per question |",
        "|---|---|---|",
        *(f"| {words} | {arms[arm].match} | {arms[arm].calls} |" for arm, words in _SINGLE.items()),
        f"| a vote over the same passages | {share} | {vote.partition('@')[2]} |",
        f"| a debate over the same passages | {arms['madke'].match} | {arms['madke'].calls} |",
    ]
    finding = "No difference was found between a debate and a vote that makes as many calls"
    if float(p.lstrip("< ")) < 0.05:
        finding = f"A debate was {'better' if float(difference) > 0 else 'worse'} than a vote that makes as many calls"
    return (
        f"**{finding}: {difference} points of `match`, 95 % {low} to {high}, p {'<' if p.startswith('<') else '='} "
        f"{p.lstrip('< ')}.**\n\n"
        + "\n".join(lines)
        + f"\n\n{'The study is under way. ' if '**Interim.**' in study else ''}All arms, models and tests: "
        "[Does a debate pay?](STUDY)"
    )


_SINGLE = {"standard": "one call, no passages", "rag": "one call with passages"}
"""Arms of the study of one call each -> what they are."""


def shown(transcript: Transcript) -> str:
    """The debate as ``madke report --question`` prints it, without what repeats."""
    text = debate_text(transcript).partition("\nAgreement:")[0]
    head, _, rounds = text.partition("\n--- round 1 ---\n")
    pool = head.splitlines()
    first, _, later = rounds.partition("\n--- round 2 ---\n")
    return "\n".join([*pool[:4], "  ...", pool[-1 - (not pool[-1])], "", "--- round 1 ---", first.rstrip(), "",
                      "--- round 2 ---", *_briefly(later.splitlines())])  # fmt: skip


def _briefly(lines: list[str]) -> Iterator[str]:
    """Each reply with the beginning of its first line, and its answer."""
    replies: list[str] = []
    for line in [*lines, "end"]:
        if line.startswith("    "):
            replies.append(line)
            continue
        if replies:
            sentence = re.match(r".+?\.(?= |$)", replies[0])
            whole = len(replies) <= 2 and sentence is not None and sentence[0] == replies[0]
            yield replies[0] if whole or len(replies) == 1 else f"{sentence[0] if sentence else replies[0]} ..."
            yield from replies[-1:] if len(replies) > 1 else ()
            replies = []
        if line != "end" and line:
            yield line


# The picture

_WIDTH, _POOL, _GAP, _LINE = 960, 270, 18, 17
_STYLE = """
svg { font: 13px -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.paper { fill: #fcfbf8; } text { fill: #1f1e1b; } .soft { fill: #65625a; } .card { fill: #fff; stroke: #d8d3c7; }
.right { fill: #1b6b47; } .wrong { fill: #a53a26; } .gold { fill: #7d5a08; } .picked { fill: #6443a3; }
.bold { font-weight: 650; } .big { font-size: 16px; font-weight: 650; }
@media (prefers-color-scheme: dark) {
.paper { fill: #17181b; } text { fill: #e7e5df; } .soft { fill: #a29f97; } .card { fill: #1e2024; stroke: #3a3d43; }
.right { fill: #74c79f; } .wrong { fill: #f09a85; } .gold { fill: #dcb862; } .picked { fill: #bba4f0; } }
"""


def picture(transcript: Transcript) -> str:
    """The debate as an SVG picture for light and dark pages."""
    parts: list[str] = []

    def write(x: float, y: float, text: str, kind: str = "") -> None:
        parts.append(f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{text}</text>')

    write(_GAP, 34, escape(transcript.question), "big")
    write(_GAP, 66, f"Retrieved: {', '.join(_ranges(transcript))}", "soft")
    gold, top = gold_numbers(transcript), 90
    for entry in transcript.pool:
        star = '<tspan class="gold"> \N{BLACK STAR}</tspan>' if entry.n in gold else ""
        write(
            _GAP,
            top + 26 * entry.n,
            f'<tspan class="picked">[{entry.n}]</tspan> {escape(_short(entry.title, 30))}{star}',
        )
    y = 58.0
    for played in transcript.rounds:
        y = _round(transcript, played, y, parts, write)
    right = transcript.answer in transcript.answers
    write(_POOL + _GAP, y + 24, f"Final answer: {_marked(transcript.answer, right=right)}", "big")
    if gold:
        write(
            _GAP, top + 26 * len(transcript.pool), '<tspan class="gold">\N{BLACK STAR}</tspan> holds the answer', "soft"
        )
    height = max(y + 46, top + 26 * (len(transcript.pool) + 1))
    spoken = f"{transcript.question} {transcript.answer}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img">',
        f"<title>A debate: {escape(spoken)}</title>", f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height:g}" rx="10"/>', *parts, "</svg>", "",
    ])  # fmt: skip


def _ranges(transcript: Transcript) -> Iterator[str]:
    """Each source with the numbers of its passages."""
    for source in dict.fromkeys(entry.source for entry in transcript.pool):
        numbers = [entry.n for entry in transcript.pool if entry.source == source]
        yield f"{source} {numbers[0]} to {numbers[-1]}"


def _round(transcript: Transcript, played: Round, y: float, parts: list[str], write: Callable[..., None]) -> float:
    """Draw the turns of a round next to each other, and the verdict below. Return where it ends."""
    width = (_WIDTH - _POOL - _GAP * (len(played.turns) + 1)) / len(played.turns)
    said = [textwrap.wrap(_gist(turn, played.n), int(width / 7.6)) for turn in played.turns]
    height = 62 + _LINE * max(map(len, said))
    for place, (turn, lines) in enumerate(zip(played.turns, said, strict=True)):
        x = _POOL + _GAP + place * (width + _GAP)
        parts.append(f'<rect class="card" x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="6"/>')
        picks = " ".join(f"[{n}]" for n in turn.selection.ids) if turn.selection else ""
        write(x + 12, y + 22, f'<tspan class="bold">{escape(turn.agent)}</tspan>, round {played.n}, reads '
                              f'<tspan class="picked">{picks}</tspan>')  # fmt: skip
        for n, line in enumerate(lines):
            write(x + 12, y + 44 + _LINE * n, escape(line), "soft")
        write(
            x + 12, y + height - 12, _marked(turn.stance.answer, right=turn.stance.answer in transcript.answers), "bold"
        )
    y += height
    if played.verdict is None:
        return y + _GAP
    found = {True: "the answers are the same", False: "the answers differ: another round", None: "no verdict"}
    write(_POOL + _GAP, y + 22, f'<tspan class="bold">Judge:</tspan> {found[played.verdict.consensus]}')
    return y + 36


def _gist(turn: Turn, n: int) -> str:
    """What a debater says: the sentence that it quotes in round 1, else its first sentence."""
    text = " ".join(turn.stance.text.split())
    quoted = re.search(r'"[^"]+"', text) if n == 1 else None
    return _short(quoted[0] if quoted else text.partition(". ")[0] + ".", 150)


def _marked(answer: str | None, *, right: bool) -> str:
    kind, sign = ("right", "\N{CHECK MARK}") if right else ("wrong", "\N{BALLOT X}")
    return f'<tspan class="{kind}">{escape(answer or "no answer")} {sign}</tspan>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2].rstrip()} \N{HORIZONTAL ELLIPSIS}"


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text in its part ``name``."""
    part = re.compile(rf"(<!-- {name}: written by python -m eval\.readme -->\n).*?(<!-- end -->)", re.DOTALL)
    assert part.search(page), f"the page has no part {name!r}"
    return part.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


PAGES = {ROOT / "README.md": "docs/study.md", ROOT / "docs" / "index.md": "study.md"}
"""Each page with parts, and the address of the study's page in it."""


def with_figures(page: str, study: str) -> str:
    """The page with the figures of the study's page."""
    return replaced(page, "figures", figures(STUDY.read_text(encoding="utf-8")).replace("STUDY", study))


def with_debate(page: str, transcript: Transcript) -> str:
    """The page with the debate as text, if it has a part for it."""
    command = f"$ madke report runs/demo/wiki+google --question {QUESTION}"
    block = f"```text\n{command}\n{shown(transcript)}\n```"
    return replaced(page, "debate", block) if "<!-- debate:" in page else page


def main() -> None:
    """Write the parts."""
    transcript = demo_debate()
    PICTURE.write_text(picture(transcript), encoding="utf-8")
    for path, study in PAGES.items():
        page = path.read_text(encoding="utf-8")
        path.write_text(with_debate(with_figures(page, study), transcript), encoding="utf-8")


if __name__ == "__main__":
    main()
