"""The frozen debates of every protocol: which runs are made, of which debates."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from tests.frozen.script import LAKES, Debated

CASTS: Mapping[str, tuple[str, ...]] = {
    **{name: ("Answerer",) for name in ("cot", "rag", "self-reflect", "standard")},
    **{name: ("Debater 1", "Debater 2") for name in ("gated", "madke", "madke-live", "madke-reference")},
    **{
        name: ("Debater 1", "Debater 2", "Debater 3")
        for name in ("lemmas", "mad", "mad-brief", "mad-noise", "reconcile", "second-turn")
    },
    **{name: tuple(f"Debater {n}" for n in range(1, 11)) for name in ("isolate", "madc", "per-document")},
    "adaptive-vote": tuple(f"Debater {n}" for n in range(1, 9)),
    "chateval": ("General Public", "Critic", "News Author"),
    "liang": ("Affirmative", "Negative"),
    "maps": ("Plain", "Keywords", "Topics", "Example"),
    "moa": tuple(f"Debater {n}" for n in range(1, 8)),
    "rerank": tuple(f"Debater {n}" for n in range(1, 5)),
    "self-consistency": tuple(f"Debater {n}" for n in range(1, 6)),
    "views": tuple(f"Debater {n}" for n in range(1, 7)),
}
"""Protocol -> its debaters."""

WITH_POOL = (
    "adaptive-vote",
    "gated",
    "isolate",
    "mad-brief",
    "madke",
    "madke-live",
    "madke-reference",
    "per-document",
    "rag",
    "views",
)
GIVEN = ("mad-noise",)
"""Protocols that always need a given first round."""
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


def moods(*names: str, **how: Any) -> dict[str, Debated]:
    """A debate for each mood."""
    return {name: Debated(mood=name, **how) for name in names}


_ALWAYS = (
    "agree",
    "differ",
    "two-camps",
    "quiet",
    "unreadable",
    "by-turns",
    "all-fail",
    "survivor",
    "copies",
    "quotes",
)
_OF_ROUNDS = ("converge", "round-fails", "alone-at-first", "first-fails-later")
_OF_JUDGES = ("last", "misjudged", "sideless", "judge-fails")
_JUDGED = ("gated", "liang", "madke", "madke-live", "madke-reference", "self-reflect")
_CHOICE = Question(id="choice", question="Which lake is the deepest?", task="choice", choices=("Chad", "Lake Baikal"))
_TEXT = Question(id="text", question="Which lakes are the deepest, and why?", task="text")


def given(name: str) -> dict[str, Debated]:
    """Debates with a given first round: of the cast, in reversed order, of outsiders, of fewer who said something."""
    cast = [
        (agent, f"{agent} was told. The answer is {LAKES[n % 4]}.", LAKES[n % 4]) for n, agent in enumerate(CASTS[name])
    ]
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
    if name in GIVEN:
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
    if name in WITH_POOL or name == "maps":
        usual |= moods("selection-fails")
    if name in WITH_POOL:
        usual |= {
            f"{mood}-{n}": Debated(mood=mood, passages=n) for n in (0, 1) for mood in ("agree", "differ", "quiet")
        }
    yield "usual", FrozenRun(debates=usual)
    bound = moods("differ", "converge", "ignores", "broken", "by-turns", "misjudged", "quotes")
    bound |= {"choice": Debated(mood="differ", question=_CHOICE)}
    yield "schemas", FrozenRun(debates=bound, takes_schemas=True)
    yield "streamed", FrozenRun(debates=moods("converge"), streamed=True)
    yield "prose", FrozenRun(debates={"text": Debated(mood="quotes", question=_TEXT)})
    if name not in ONE_ROUND or name in WITH_POOL:
        short = {f"at-{limit}": Debated(mood="differ", limit=limit) for limit in (500, 800, 1100, 1400)}
        short["quotes"] = Debated(mood="quotes", limit=1000)
        yield "drop", FrozenRun(debates=short, settings={"overflow": "drop"})
    if name not in ONE_ROUND and name not in ("moa", "adaptive-vote"):
        yield "given", FrozenRun(debates=given(name))
    if name not in ONE_ROUND:
        tight = {"early_stop": "budget", "token_budget": 1500}
        yield "budget", FrozenRun(debates=moods("differ", "agree"), settings=tight)
    if name in WITH_POOL and name not in ("isolate", "per-document"):
        yield "cite", FrozenRun(debates=moods("quotes", "differ"), settings={"cite": True}, takes_schemas=True)
    yield from ((more, run) for more, run in MORE.get(name, {}).items())


_SUMMARY = {"talk": "simultaneous", "summarized": True, "rounds": 3}
_RANDOM = FrozenRun(debates=moods("differ", "two-camps", "by-turns"), settings={"order": "random"}, repeats=2)
_IN_TURN = {"talk": "sequential_later", "reads.peers": "latest", "order": "random"}

MORE: Mapping[str, Mapping[str, FrozenRun]] = {
    "madke": {
        "in-turn": FrozenRun(debates=moods("differ", "by-turns"), settings=_IN_TURN, repeats=2),
        "in-turn-given": FrozenRun(debates=given("madke"), settings=_IN_TURN),
        "three": FrozenRun(debates=moods("differ", "by-turns", "survivor"), settings={"debaters": 3}),
        "all": FrozenRun(debates=moods("differ", "by-turns"), settings={"select": "all"}),
        "none": FrozenRun(debates=moods("differ", "misjudged"), settings={"sources": []}, pool=False),
        "own-sources": FrozenRun(
            debates=moods("differ", "quotes"),
            settings={"per_debater_sources": {"Debater 1": ["wiki"], "Debater 2": ["google"]}},
        ),
        "free-text": FrozenRun(debates=moods("differ"), settings={"structured": "off"}, takes_schemas=True),
        "agreement": FrozenRun(
            debates=moods("differ", "converge", "quiet", "first-fails-later"), settings={"early_stop": "agreement"}
        ),
    },
    "madke-reference": {"random": _RANDOM},
    "mad": {
        "random": _RANDOM,
        "answers": FrozenRun(debates=moods("differ", "by-turns"), settings={"reads.peers": "answers", "rounds": 3}),
        "ring": FrozenRun(debates=moods("differ"), settings={"reads.topology": "ring", "debaters": 4}),
        "star": FrozenRun(debates=moods("differ", "by-turns"), settings={"reads.topology": "star"}),
        "sparse": FrozenRun(debates=moods("differ", "by-turns"), settings={"reads.topology": "sparse(1)"}),
        "stability": FrozenRun(
            debates=moods("differ", "converge", "unreadable", "quiet"),
            settings={"early_stop": "stability", "rounds": 4},
        ),
        "judge": FrozenRun(debates=moods("differ", "converge"), settings={"early_stop": "judge", "rounds": 3}),
    },
    "madc": {
        "random": FrozenRun(debates=moods("differ", "by-turns"), settings={"order": "random"}),
        "decay": FrozenRun(
            debates=moods("differ", "two-camps", "by-turns"),
            settings={"order.decay": 0.5, "rounds": 4, "debaters": 5},
        ),
        "per-reader": FrozenRun(
            debates=moods("differ", "two-camps", "by-turns"), settings={"order.score": "per_reader", "debaters": 5}
        ),
        "truth-last": FrozenRun(debates=moods("differ", "by-turns"), settings={"order": "truth_last", "debaters": 5}),
    },
    "chateval": {
        "random": _RANDOM,
        "summary": FrozenRun(
            debates=moods("differ", "converge", "agree", "by-turns", "end-fails", "first-fails-later"),
            settings=_SUMMARY,
        ),
    },
    "liang": {
        "random": _RANDOM,
        "always": FrozenRun(
            debates=moods("agree", "differ", "sideless", "round-fails"), settings={"extract": "always"}
        ),
        "each-round": FrozenRun(
            debates=moods("agree", "differ", "converge", "end-fails", "all-fail"), settings={"extract": "each_round"}
        ),
        "level": FrozenRun(debates=moods("differ"), settings={"level": 3}),
        "drop-history": FrozenRun(
            debates={f"at-{n}": Debated(mood="sideless", limit=n) for n in (900, 1200, 1500)},
            settings={"overflow": "drop"},
            takes_schemas=True,
        ),
    },
    "reconcile": {
        "random": _RANDOM,
        "four": FrozenRun(debates=moods("weights", "differ", "two-camps", "unread"), settings={"debaters": 4}),
        "drop-groups": FrozenRun(
            debates={f"at-{n}": Debated(mood="by-turns", limit=n) for n in (700, 900, 1100, 1300)},
            settings={"overflow": "drop", "debaters": 4},
        ),
    },
    "gated": {"three": FrozenRun(debates=moods("differ", "two-camps", "quiet"), settings={"debaters": 3})},
    "moa": {"with-pool": FrozenRun(debates=moods("differ"), settings={"select": "all"}, pool=True)},
    "lemmas": {
        "pick": FrozenRun(debates=moods("differ", "by-turns", "end-fails", "unreadable"), settings={"end": "pick"}),
        "four": FrozenRun(debates=moods("differ", "two-camps", "quiet"), settings={"debaters": 4, "reads.own": "last"}),
    },
    "self-consistency": {"four": FrozenRun(debates=moods("differ", "two-camps"), settings={"debaters": 4})},
    "per-document": {
        "hidden": FrozenRun(debates=moods("differ", "by-turns"), settings={"reads.own": "none"}),
    },
}
"""Protocol -> runs with other settings, for what no protocol does as it is shipped."""


def question(id_: str, debated: Debated) -> Question:
    """The question of a debate."""
    asked = debated.question
    if asked is None:
        return Question(
            id=id_, question="Which lake is the deepest?", answers=("Lake Baikal", "Baikal"), task="short_answer"
        )
    golds = {"choice": ("B",)}.get(asked.task, ())
    return Question(id=id_, question=asked.question, answers=golds, task=asked.task, choices=asked.choices)


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
