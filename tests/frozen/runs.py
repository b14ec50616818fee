"""The frozen debates of every protocol: which runs are made, of which debates."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.engine.variant import load_variant
from tests.frozen.script import LAKES, Debated

SHIPPED = sorted(file.parent.name for file in (Path(__file__).parents[2] / "prompts").glob("*/protocol.yaml"))
"""The protocols that have a record."""

SCORED = ("maps", "rerank")
"""Protocols that need an answer scorer."""
ONE_ROUND = ("cot", "isolate", "maps", "rag", "rerank", "self-consistency", "standard", "views")


@dataclass(frozen=True, kw_only=True)
class FrozenRun:
    """Some debates with the same settings."""

    debates: Mapping[str, Debated]
    """Question id -> debate."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    takes_schemas: bool = False
    repeats: int = 1
    streamed: bool = False
    pool: bool | None = None
    """Whether it has a pool; None: if the protocol has one."""


def has_pool(name: str) -> bool:
    """Whether a protocol shows passages."""
    return load_variant(name).protocol.knowledge is not None


def moods(*names: str, **how: Any) -> dict[str, Debated]:
    """A debate for each mood."""
    return {name: Debated(mood=name, **how) for name in names}


_ALWAYS = (
    *("agree", "differ", "two-camps", "quiet", "unreadable"),
    *("by-turns", "all-fail", "survivor", "copies", "quotes"),
)
_OF_ROUNDS = ("converge", "round-fails", "alone-at-first", "first-fails-later")
_OF_JUDGES = ("last", "misjudged", "sideless", "judge-fails")
_JUDGED = ("gated", "liang", "madke", "madke-live", "madke-reference", "self-reflect")
_CHOICE = Question(
    id="choice",
    question="Which lake is the deepest?",
    answers=("B",),
    task="choice",
    choices=("Chad", "Lake Baikal"),
)
_TEXT = Question(id="text", question="Which lakes are the deepest, and why?", task="text")


def given(name: str) -> dict[str, Debated]:
    """Debates with a given first round: of the cast, in reversed order, of outsiders, of fewer who said something."""
    names = [debater.name for debater in load_variant(name).protocol.cast]
    cast = [(agent, f"{agent} was told. The answer is {LAKES[n % 4]}.", LAKES[n % 4]) for n, agent in enumerate(names)]
    others = [("Stranger 1", "A stranger said: The answer is Aida.", None), ("Stranger 2", "Hm.", None)]
    return {
        "given": Debated(mood="differ", first_round=tuple(cast)),
        "given-reversed": Debated(mood="by-turns", first_round=tuple(reversed(cast))),
        "given-by-others": Debated(mood="differ", first_round=(*others, *cast[-1:])),
        "given-silence": Debated(
            mood="misjudged", first_round=(*cast[:1], *((each[0], "", None) for each in cast[1:]))
        ),
    }


def runs_of(name: str) -> Iterator[tuple[str, FrozenRun]]:
    """The runs of a protocol by name."""
    if load_variant(name).protocol.first_round_given:
        others = given(name)["given-by-others"].first_round
        mishaps = ("quiet", "unreadable", "by-turns", "all-fail", "copies")
        told = {f"given-{mood}": Debated(mood=mood, first_round=others) for mood in mishaps}
        yield "usual", FrozenRun(debates=given(name) | told)
        return
    usual = moods(*_ALWAYS, "unread", "end-fails") | {"too-long": Debated(mood="differ", limit=900)}
    if name not in ONE_ROUND:
        usual |= moods(*_OF_ROUNDS)
    if name in _JUDGED:
        usual |= moods(*_OF_JUDGES)
    if has_pool(name) or name == "maps":
        usual |= moods("selection-fails")
    if has_pool(name):
        usual |= {
            f"{mood}-{n}": Debated(mood=mood, passages=n) for n in (0, 1) for mood in ("agree", "differ", "quiet")
        }
    yield "usual", FrozenRun(debates=usual)
    bound = moods("differ", "converge", "ignores", "broken", "by-turns", "misjudged", "quotes")
    bound |= {"choice": Debated(mood="differ", question=_CHOICE)}
    yield "schemas", FrozenRun(debates=bound, takes_schemas=True)
    yield "streamed", FrozenRun(debates=moods("converge"), streamed=True)
    yield "prose", FrozenRun(debates={"text": Debated(mood="quotes", question=_TEXT)})
    if name not in ONE_ROUND or has_pool(name):
        short = {f"at-{limit}": Debated(mood="differ", limit=limit) for limit in (500, 800, 1100, 1400)}
        short["quotes"] = Debated(mood="quotes", limit=1000)
        yield "drop", FrozenRun(debates=short, settings={"overflow": "drop"})
    if name not in ONE_ROUND and name not in ("moa", "adaptive-vote"):
        yield "given", FrozenRun(debates=given(name))
    if name not in ONE_ROUND:
        tight = {"early_stop": "budget", "token_budget": 1500}
        yield "budget", FrozenRun(debates=moods("differ", "agree"), settings=tight)
    if has_pool(name) and name not in ("isolate", "per-document"):
        yield "cite", FrozenRun(debates=moods("quotes", "differ"), settings={"cite": True}, takes_schemas=True)
    yield from MORE.get(name, {}).items()


def varied(settings: Mapping[str, Any], *names: str) -> FrozenRun:
    """A debate for each mood, with other settings."""
    return FrozenRun(debates=moods(*names), settings=settings)


def dropping(settings: Mapping[str, Any], mood: str, *limits: int, takes_schemas: bool = False) -> FrozenRun:
    """A debate for each length of prompts that a model takes, in which what does not fit is left out."""
    short = {f"at-{limit}": Debated(mood=mood, limit=limit) for limit in limits}
    return FrozenRun(debates=short, settings={**settings, "overflow": "drop"}, takes_schemas=takes_schemas)


_SUMMARY = {"talk": "simultaneous", "summarized": True, "rounds": 3}
_RANDOM = FrozenRun(debates=moods("differ", "two-camps", "by-turns"), settings={"order": "random"}, repeats=2)
_IN_TURN = {"talk": "sequential_later", "reads.peers": "latest", "order": "random"}

MORE: Mapping[str, Mapping[str, FrozenRun]] = {
    "madke": {
        "in-turn": FrozenRun(debates=moods("differ", "by-turns"), settings=_IN_TURN, repeats=2),
        "in-turn-given": FrozenRun(debates=given("madke"), settings=_IN_TURN),
        "three": varied({"debaters": 3}, "differ", "by-turns", "survivor"),
        "all": varied({"select": "all"}, "differ", "by-turns"),
        "none": FrozenRun(debates=moods("differ", "misjudged"), settings={"sources": []}, pool=False),
        "own-sources": varied(
            {"per_debater_sources": {"Debater 1": ["wiki"], "Debater 2": ["google"]}}, "differ", "quotes"
        ),
        "free-text": FrozenRun(debates=moods("differ"), settings={"structured": "off"}, takes_schemas=True),
        "agreement": varied({"early_stop": "agreement"}, "differ", "converge", "quiet", "first-fails-later"),
    },
    "madke-reference": {"random": _RANDOM},
    "mad": {
        "random": _RANDOM,
        "answers": varied({"reads.peers": "answers", "rounds": 3}, "differ", "by-turns"),
        "ring": varied({"reads.topology": "ring", "debaters": 4}, "differ"),
        "star": varied({"reads.topology": "star"}, "differ", "by-turns"),
        "sparse": varied({"reads.topology": "sparse(1)"}, "differ", "by-turns"),
        "stability": varied({"early_stop": "stability", "rounds": 4}, "differ", "converge", "unreadable", "quiet"),
        "judge": varied({"early_stop": "judge", "rounds": 3}, "differ", "converge"),
    },
    "madc": {
        "random": varied({"order": "random"}, "differ", "by-turns"),
        "decay": varied({"order.decay": 0.5, "rounds": 4, "debaters": 5}, "differ", "two-camps", "by-turns"),
        "per-reader": varied({"order.score": "per_reader", "debaters": 5}, "differ", "two-camps", "by-turns"),
        "truth-last": varied({"order": "truth_last", "debaters": 5}, "differ", "by-turns"),
    },
    "chateval": {
        "random": _RANDOM,
        "summary": varied(_SUMMARY, "differ", "converge", "agree", "by-turns", "end-fails", "first-fails-later"),
    },
    "liang": {
        "random": _RANDOM,
        "always": varied({"extract": "always"}, "agree", "differ", "sideless", "round-fails"),
        "each-round": varied({"extract": "each_round"}, "agree", "differ", "converge", "end-fails", "all-fail"),
        "level": varied({"level": 3}, "differ"),
        "drop-history": dropping({}, "sideless", 900, 1200, 1500, takes_schemas=True),
    },
    "reconcile": {
        "random": _RANDOM,
        "four": varied({"debaters": 4}, "weights", "differ", "two-camps", "unread"),
        "drop-groups": dropping({"debaters": 4}, "by-turns", 700, 900, 1100, 1300),
    },
    "gated": {"three": varied({"debaters": 3}, "differ", "two-camps", "quiet")},
    "moa": {"with-pool": FrozenRun(debates=moods("differ"), settings={"select": "all"}, pool=True)},
    "lemmas": {
        "pick": varied({"end": "pick"}, "differ", "by-turns", "end-fails", "unreadable"),
        "four": varied({"debaters": 4, "reads.own": "last"}, "differ", "two-camps", "quiet"),
    },
    "self-consistency": {"four": varied({"debaters": 4}, "differ", "two-camps")},
    "per-document": {"hidden": varied({"reads.own": "none"}, "differ", "by-turns")},
}
"""Protocol -> runs with other settings, for what no protocol does as it is shipped."""


def question(id_: str, debated: Debated) -> Question:
    """The question of a debate."""
    usual = Question(
        id=id_, question="Which lake is the deepest?", answers=("Lake Baikal", "Baikal"), task="short_answer"
    )
    return debated.question or usual


def passages(count: int) -> list[dict[str, str]]:
    """The passages of a pool: of two sources, of which some name an answer."""
    found = []
    for n in range(count):
        lake, source = LAKES[n % len(LAKES)], "wiki" if n < max(1, count // 2) else "google"
        depth = f"{lake} is {1642 - 100 * n:,} metres deep"
        text = (
            f"{depth}. It was measured again and again, from boats, with ropes and later with sound, for {n + 2} years."
        )
        found.append({"source": source, "key": f"{source}-{n}", "title": f"Lakes {n}", "text": text})
    return found


def write_pools(file: Path, debates: Mapping[str, Debated]) -> None:
    """A pool file for the debates."""
    lines = (
        {"id": id_, "question": question(id_, each).question, "passages": passages(each.passages)}
        for id_, each in debates.items()
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_first_rounds(file: Path, debates: Mapping[str, Debated]) -> None:
    """A file with the given first rounds of the debates."""
    lines = []
    for id_, each in debates.items():
        stances = [
            {"agent": agent, "text": text, **({} if answer is None else {"answer": answer})}
            for agent, text, answer in each.first_round
        ]
        lines.append(json.dumps({"id": id_, "stances": stances}) + "\n")
    file.write_text("".join(lines), encoding="utf-8")


def answer_scorer(folder: Path) -> str:
    """The command of an answer scorer that likes short answers."""
    program = folder / "scorer.py"
    program.write_text("import json, sys\nfor line in sys.stdin:\n    print(-len(json.loads(line)['candidate']))\n")
    return f"{quote(sys.executable)} -S {quote(str(program))}"


@dataclass
class LiveSource:
    """A source that finds a passage for every query, and fails for some of the second debater's."""

    name: str
    searched: list[str]
    """Queries that were asked."""
    description: str = "frozen"

    async def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The hits of each query."""
        self.searched += queries
        return [self._hits(query) for query in queries]

    def _hits(self, query: str) -> Hits:
        if "Debater 2 in round 2" in query:
            return Hits(error="the search is down")
        text = f"{self.name} says of {query}: Lake Baikal."
        found = Passage(source=self.name, key=f"found {query}", title="Found", text=text, score=1.0, rank=0)
        return Hits(passages=(found,))
