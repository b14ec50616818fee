"""A run of many debates with the sizes of real ones: ``python -m eval.benchmarks.debates FOLDER [COUNT] [--arm N]``.

Two debaters, one to three rounds, stances of 0.5 to 1.5 kB, and pools of five Wikipedia passages of 100 words and five
web snippets. Sentences are those of the sample corpus with a part of their words replaced, so that gzip packs the text
as it packs real text (blocks of 200, level 6): passages 2.3 times, as Wikipedia's; stances 3.1 times, where replies of
GPT-3.5 and GPT-4 are packed 3.2 to 3.6 times. A sentence returns only far beyond gzip's window of 32 kB.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from madke._util.assets import asset
from madke._util.files import read_jsonl
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
from madke.engine.protocol_parts import Knowledge
from madke.pools.lines import lines_of
from madke.runs.spec import RunSpec

DEBATERS = ("Debater 1", "Debater 2")
_SENTENCES = 40_000
_REPLACED, _INVENTED = 0.3, 0.08
"""Shares of words that are replaced by words of the corpus, and by new names."""
_WIKI_WORDS, _WEB_WORDS = 100, 35
_ROUNDS = (1,) * 11 + (2,) * 5 + (3,) * 4
_SYLLABLES = [consonant + vowel for consonant, vowel in product("bdfgklmnprst", "aeiou")]

_SELECTS = (
    "The question asks for {asked}. Passages {all} mention it, and {first} comes closest.\nSelected: {marks}",
    "I need the passage that names {asked}. {first} does so in its first sentence; {all} give the context.\n"
    "Selected: {marks}",
    "Only {all} are about {asked}; the others describe other places or later years.\nSelected: {marks}",
)
_OPENINGS = (
    "Let us go through what the passages say step by step.",
    "The question can be answered from the knowledge I selected.",
    "First I look at what is asked, then at the evidence.",
    "To answer this question, we need to consider the evidence in the passages.",
)
_REPLIES = (
    "{other} gives [{answer}], and I have read the argument again.",
    "I see that {other} answers [{answer}] because of a different passage.",
    "{other} and I do not rely on the same passage, so I compared both.",
)
_CITES = ("Passage [{n}] states: \u201c{quote}\u201d", "According to [{n}], {quote}", "In [{n}] we read that {quote}")
_LINKS = (
    "This suggests that the answer is connected with {word}.",
    "Therefore {word} can be ruled out.",
    "However, the passage does not say so directly.",
    "Based on this evidence, {word} is the most plausible candidate.",
)
_ENDS = ("Therefore, the answer is [{answer}].", "The answer is [{answer}].", "So the final answer is [{answer}].")


class Passage(NamedTuple):
    """One passage of a generated pool."""

    source: str
    key: str
    title: str
    sentences: tuple[str, ...]
    url: str | None


def write_run(folder: Path, count: int, *, arm: int = 0) -> None:
    """Write a run of ``count`` debates. Other arms have the same questions and pools, and other debates."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "transcripts.jsonl").open("wb") as runs, (folder / "pools.jsonl").open("wb") as pools:
        for number in range(count):
            pool, asked = _pool(number), _question(number)
            runs.write(to_json(_transcript(Random(f"{arm} {number}"), number, pool, asked)) + b"\n")
            pools.write(_pool_line(number, pool, asked))
    write_description(folder, [f"q-{number}" for number in range(count)])


def write_description(folder: Path, ids: Sequence[str]) -> None:
    """Write the ``run.json`` of a run of these questions whose pools are in the folder."""
    config = RunSpec(
        data="generated.jsonl",
        questions=dict.fromkeys(ids, ""),
        variant="madke",
        protocol=Protocol(source="a benchmark", knowledge=Knowledge(sources=("wiki", "google"))),
        prompts_sha256={},
        models={"*": "openai/generated"},
        source_specs={},
        pools={id_: found for id_, (found, _) in lines_of(folder / "pools.jsonl", set(ids)).items()},
        seed=0,
        repeats=1,
    )
    sessions = [{"files": {"calls": "calls.sqlite", "pools": "pools.jsonl"}, "ended": "finished"}]
    record = {"format": 2, "spec": config.model_dump(mode="json"), "endpoints": {}, "sessions": sessions}
    (folder / "run.json").write_text(json.dumps(record))


def _question(number: int) -> str:
    random = Random(f"question {number}")
    words = random.choice(sentences()).rstrip(".").split()[:12]
    return f"In which year, according to survey {number}, {words[0].lower()} {' '.join(words[1:])}?"


def _pool(number: int) -> list[Passage]:
    random = Random(f"pool {number}")
    pool = []
    for n in range(10):
        source, words = ("wiki", _WIKI_WORDS) if n < 5 else ("google", _WEB_WORDS)
        title = f"{_name(random)} {_name(random).lower()}"
        if source == "wiki":
            key, url = str(random.randrange(21_015_324)), None
        else:
            key = url = f"https://www.{_name(random).lower()}.org/{title.lower().replace(' ', '-')}"
        pool.append(Passage(source, key, title, _text(random, words), url))
    return pool


def _pool_line(number: int, pool: Sequence[Passage], question: str) -> bytes:
    passages = []
    for rank, one in enumerate(pool):
        found = {"source": one.source, "key": one.key, "title": one.title, "text": " ".join(one.sentences)}
        passages.append({**found, "score": 1 / (1 + rank), "rank": rank % 5} | ({"url": one.url} if one.url else {}))
    return json.dumps({"id": f"q-{number}", "question": question, "passages": passages, "partial": {}}).encode() + b"\n"


def _text(random: Random, words: int) -> tuple[str, ...]:
    """Sentences with so many words in total, or a few more."""
    chosen: list[str] = []
    while words > 0:
        chosen.append(random.choice(sentences()))
        words -= chosen[-1].count(" ") + 1
    return tuple(chosen)


def _transcript(random: Random, number: int, pool: Sequence[Passage], question: str) -> Transcript:
    gold, wrong = (str(year) for year in random.sample(range(1500, 2025), 2))
    played, held = random.choice(_ROUNDS), [random.choice((gold, gold, wrong)) for _ in DEBATERS]
    rounds: list[Round] = []
    for n in range(1, played + 1):
        last = n == played
        if last and random.random() < 0.9:
            held = [random.choice(held)] * 2
        elif len(set(held)) == 1:
            held[random.randrange(2)] = wrong if held[0] == gold else gold
        turns = tuple(_turn(random, n, place, held, pool, question, rounds) for place in range(2))
        found = [f'{agent} answers "{answer}".' for agent, answer in zip(DEBATERS, held, strict=True)]
        same = len(set(held)) == 1
        said = f"{' '.join(found)} {random.choice(_LINKS).format(word=held[0])}\nVerdict: [{'SAME' if same else 'NO'}]"
        verdict = Verdict(consensus=same, text=said, rule="marker")
        rounds.append(Round(n=n, order=DEBATERS, turns=turns, verdict=verdict))
    answer = None if number % 50 == 49 else held[0]
    said = f"{random.choice(_OPENINGS)} {random.choice(sentences())} {random.choice(_ENDS).format(answer=held[0])}"
    used = StageUsage(calls=played, paid=played, prompt_tokens=1_900 * played, completion_tokens=250 * played)
    return Transcript(
        id=f"q-{number}",
        question=question,
        task="short_answer",
        answers=(gold, f"AD {gold}"),
        status="ok" if answer else "abstained",
        answer=answer,
        stop_reason="consensus" if verdict.consensus else "rounds",
        rounds=tuple(rounds),
        final=Final(by="summarizer", answer=answer, text=said, rule="cue", status="ok" if answer else "abstained"),
        metadata={"dataset": ("nq", "hotpotqa")[number % 2], "gold_passages": [pool[number % 3].key]},
        pool=tuple(PoolEntry(n=n, source=one.source, key=one.key, title=one.title) for n, one in enumerate(pool)),
        usage=dict.fromkeys(("select", "speak", *(["reply"] if played > 1 else []), "judge", "summarize"), used),
    )


def _turn(
    random: Random,
    n: int,
    place: int,
    held: Sequence[str],
    pool: Sequence[Passage],
    question: str,
    before: Sequence[Round],
) -> Turn:
    ids = tuple(random.sample(range(len(pool)), 3))
    marks = " ".join(f"[{each}]" for each in ids)
    asked = " ".join(question.rstrip("?").split()[-4:])
    selects = random.choice(_SELECTS).format(asked=asked, all=marks, first=f"[{ids[0]}]", marks=marks)
    said = [random.choice(_OPENINGS)]
    if before:
        other = DEBATERS[1 - place]
        earlier = before[-1].turns[1 - place].stance.answer
        said = [random.choice(_REPLIES).format(other=other, answer=earlier)]
    length = random.randint(450, 1_150)
    while sum(map(len, said)) < length:
        chosen = random.choice(ids)
        quote = random.choice(pool[chosen].sentences)
        said.append(random.choice(_CITES).format(n=chosen, quote=quote))
        said.append(random.choice(sentences()))
        said.append(random.choice(_LINKS).format(word=random.choice(pool[chosen].title.split())))
    said.append(random.choice(_ENDS).format(answer=held[place]))
    stance = Stance(stage="speak" if n == 1 else "reply", text=" ".join(said), answer=held[place], rule="cue")
    selection = Selection(ids=ids, text=selects, rule="selected")
    reads = () if n == 1 else (DEBATERS[1 - place],)
    return Turn(agent=DEBATERS[place], stance=stance, selection=selection, reads=reads)


@cache
def sentences() -> Sequence[str]:
    """Sentences of the sample corpus with a part of their words replaced."""
    texts = [str(item["text"]) for _, item in read_jsonl(asset("indexes", "sample", "passages.jsonl"))]
    known = [sentence for text in texts for sentence in re.split(r"(?<=[.;]) ", text) if len(sentence) > 40]
    words = [word for text in texts for word in re.findall(r"\b[a-z]{4,}\b", text)]
    random = Random(0)

    def other(found: re.Match[str]) -> str:
        chance = random.random()
        if chance < _INVENTED:
            return _name(random)
        return random.choice(words) if chance < _INVENTED + _REPLACED else found[0]

    drawn = (random.choice(known) for _ in range(_SENTENCES))
    return [re.sub(r"\b[A-Za-z]{4,}\b", other, sentence) for sentence in drawn]


def _name(random: Random) -> str:
    return "".join(random.choices(_SYLLABLES, k=random.choice((2, 3, 3, 4)))).capitalize()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a run of many debates."""
    parser = argparse.ArgumentParser(prog="python -m eval.benchmarks.debates", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int, nargs="?", default=5_000)
    parser.add_argument("--arm", type=int, default=0, help="another number gives other debates on the same questions")
    asked: Any = parser.parse_args(arguments)
    write_run(asked.folder, asked.count, arm=asked.arm)


if __name__ == "__main__":
    main()
