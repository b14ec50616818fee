"""How much of MADKE's prompts a server's prefix cache answers, against the best order of the same texts.

**What is measured.** Debates that never settle: two debaters, three rounds, ten passages of 100 words, replies of a few
hundred characters and selections that vary, all generated. Assumed is that debaters choose early passages of a source
more often. The prompts are counted as :func:`shared_prefix` does, in characters, 64 a block (16
tokens of four), within a question and across questions, in the order in which the calls were made.

**What it is held against**: more than any order of the calls and of the lines in each prompt can reach, even if each
prompt had another one. Where prompts of a set share a prefix, the prefix consists of lines that all of them have, and
at its end of a line's beginning that all of them have; so lines are cut where they part from other lines, and
``common(S)`` is the length of the pieces that every prompt of ``S`` has, rounded down to blocks.

Within a question, prompts as branches of a tree of prefixes are joined two by two, and a cache saves the shared prefix
of each join, at most ``common`` of all that lies below it. ``best(S) = common(S) + max(best(A) + best(S - A))`` over
all ways to part ``S`` is the most that any tree can save.

Across questions, each prompt's hit is either a prefix of an earlier prompt of its question or of another question's,
and the latter is no longer than the pieces that it has in common with any one of those. Prompts of one question with
hits of the first kind are trees again, each with a root of the second kind: the best way to part the question's prompts
into such trees is the most that it can save. That other questions' prompts would all have to be ordered for each of
these roots is disregarded: what is printed as best may be out of reach, never too low.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os.path import commonprefix
from typing import Any

import numpy as np

from eval.benchmarks.measure import Setting, generated_corpus, report
from eval.benchmarks.shared_prefix import BLOCK, CHARACTERS, shared_prefix
from madke._util.files import read_jsonl
from madke.core.chat import ChatRequest, Completion
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.tasks import get_task
from madke.variants import load_variant

QUESTIONS, QUICK = 100, 3
AIM = 0.85
_PASSAGES, _PER_SOURCE = 10, 5
_BLOCK = BLOCK * CHARACTERS


def main(setting: Setting) -> None:
    """Play the debates, count what their prompts share, and compare it with the most that they could share."""
    prompts = asyncio.run(_recorded(setting, QUICK if setting.quick else QUESTIONS))
    found = shared_prefix(((_Generated.name, question, text) for question, text in prompts), block=_BLOCK)
    by_question: dict[str, list[str]] = {}
    for question, text in prompts:
        by_question.setdefault(question, []).append(text)
    within, across = best_shared(list(by_question.values()))
    print(f"  {found.prompts:,} prompts of about {found.total // CHARACTERS:,} tokens", flush=True)
    for name, ours, best in (("within a question", found.within, within), ("across questions", found.across, across)):
        report(
            f"shared prefix {name}",
            f"{100 * ours / found.total:.1f} % of the tokens",
            f"in the best order at most {100 * best / found.total:.1f} %",
            ours / best,
            f"at least {AIM}",
            ours / best >= AIM,
        )


# The debates


@dataclass(kw_only=True)
class _Generated:
    """A model that writes something, chooses some passages, and never finds agreement; it keeps what it was asked."""

    words: Sequence[str]
    name: str = "generated"
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Completion:
        purpose = request.purpose
        prompt = "".join(f"<|{message.role}|>\n{message.content}\n" for message in request.messages)
        self.asked.append((purpose.question, prompt))
        draw = random.Random(f"{purpose.question} {purpose.stage} {purpose.agent} {purpose.round}")
        text = " ".join(draw.choices(self.words, k=draw.randint(30, 80)))
        if purpose.stage == "select":
            return Completion(text=f"{text} {_choice(draw)}")
        if purpose.stage == "judge":
            return Completion(text=f"{text} [No]")
        return Completion(text=f"{text} [{purpose.agent} {purpose.round}]")


def _choice(draw: random.Random) -> str:
    """One to three passages, where the n-th that a source retrieved is drawn with weight 1 / n: early ones help."""
    weights = [1 / (1 + n % _PER_SOURCE) for n in range(_PASSAGES)]
    return " ".join(f"[{n}]" for n in set(draw.choices(range(_PASSAGES), weights, k=3)))


async def _recorded(setting: Setting, questions: int) -> list[tuple[str, str]]:
    """Question and text of every prompt, one question after the other."""
    corpus = generated_corpus(setting.folder, questions * _PASSAGES)
    passages = [item for _, item in read_jsonl(corpus)]
    variant = load_variant("madke")
    words = str(passages[0]["text"]).split()
    model = _Generated(words=words)
    for n in range(questions):
        question = Question(id=str(n), question=f"What does {' '.join(random.Random(n).choices(words, k=9))} mean?")
        pool = KnowledgePool(
            passages=tuple(
                Passage(source="wiki", key=one["id"], title=one["title"], text=one["text"], score=1.0, rank=rank)
                for rank, one in enumerate(passages[n * _PASSAGES : (n + 1) * _PASSAGES])
            )
        )
        cast = dict.fromkeys(variant.protocol.roles, model)
        await hold_debate(Scene(question, variant.protocol, cast, pool, task=get_task(question.task), prompts=variant))
    return model.asked


# The best order


def best_shared(questions: Sequence[Sequence[str]]) -> tuple[int, int]:
    """More characters than any order of calls and lines makes shared prefixes: within questions, and across them.

    Args:
        questions: The prompts of each, at most 16 or so: the work is 3 to the power of the number of different ones.
    """
    different = [list(dict.fromkeys(prompts)) for prompts in questions]
    # The same prompt again is answered whole, wherever it stands.
    again = sum(
        count * (len(prompt) // _BLOCK * _BLOCK)
        for prompts in questions
        for prompt, count in (Counter(prompts) - Counter(set(prompts))).items()
    )
    lines = [[prompt.splitlines(keepends=True) for prompt in prompts] for prompts in different]
    pieces = _pieces({line for prompts in lines for prompt in prompts for line in prompt})
    held = [[_counted(pieces, prompt) for prompt in prompts] for prompts in lines]
    within = across = again
    for prompts, elsewhere in zip(held, _most_elsewhere(held), strict=True):
        best = _best_trees(_common(prompts))
        within += int(best[-1])
        across += _best_forest(best, elsewhere)
    return within, across


def _pieces(lines: set[str]) -> dict[str, list[str]]:
    """Line -> those of its beginnings where it parts from some other line, and itself, the shortest first."""
    ordered = sorted(lines)
    beginnings = lines | {commonprefix(pair) for pair in pairwise(ordered)}  # noqa: RUF071  these are no paths
    lengths = sorted({len(beginning) for beginning in beginnings} - {0})
    return {line: [line[:n] for n in lengths if n <= len(line) and line[:n] in beginnings] for line in ordered}


def _counted(pieces: Mapping[str, Sequence[str]], prompt: Sequence[str]) -> dict[tuple[str, int], int]:
    """Each piece of a prompt, with the how many-th of its kind it is -> its length."""
    seen: Counter[str] = Counter()
    counted = {}
    for line in prompt:
        for before, piece in pairwise(("", *pieces[line])):
            seen[piece] += 1
            counted[piece, seen[piece]] = len(piece) - len(before)
    return counted


def _common(prompts: Sequence[Mapping[Any, int]]) -> Any:
    """By set of prompts, as bits: the length of what all of them hold, in whole blocks."""
    holders: Counter[Any] = Counter()
    lengths = {}
    for n, prompt in enumerate(prompts):
        for piece, length in prompt.items():
            holders[piece] |= 1 << n
            lengths[piece] = length
    common = np.zeros(1 << len(prompts), dtype=np.int64)
    for piece, held_by in holders.items():
        common[held_by] += lengths[piece]
    for n in range(len(prompts)):
        halves = common.reshape(-1, 2, 1 << n)
        halves[:, 0] += halves[:, 1]
    return common // _BLOCK * _BLOCK


def _most_elsewhere(questions: Sequence[Sequence[Mapping[Any, int]]]) -> list[list[int]]:
    """For each prompt of each question: the most that it has in common with a prompt of another one."""
    from scipy.sparse import csr_array

    asked_in = Counter(piece for prompts in questions for piece in set().union(*prompts))
    columns = {piece: n for n, piece in enumerate(piece for piece, count in asked_in.items() if count > 1)}
    prompts = [prompt for asked in questions for prompt in asked]
    entries = [
        (row, columns[piece], length)
        for row, prompt in enumerate(prompts)
        for piece, length in prompt.items()
        if piece in columns
    ]
    rows, places, lengths = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    shape = (len(prompts), len(columns))
    held = csr_array((np.ones(len(rows), dtype=np.int64), (rows, places)), shape=shape)
    common = (csr_array((lengths, (rows, places)), shape=shape) @ held.T).toarray()
    owner = np.repeat(np.arange(len(questions)), [len(asked) for asked in questions])
    common[owner[:, None] == owner] = 0
    most = iter((common.max(axis=1) // _BLOCK * _BLOCK).tolist())
    return [[next(most) for _ in asked] for asked in questions]


def _best_trees(common: Any) -> Any:
    """By set of prompts: the most that a tree of their prefixes saves."""
    best = np.zeros_like(common)
    for members in range(1, len(common)):
        parts = _parts(members)
        if len(parts):
            best[members] = common[members] + (best[parts] + best[members ^ parts]).max()
    return best


def _best_forest(best: Any, roots: Sequence[int]) -> int:
    """The most that trees of prompts save, where the root of each saves what it has in common with other questions."""
    root = np.zeros_like(best)
    for n, saved in enumerate(roots):
        root[1 << n : 2 << n] = np.maximum(root[: 1 << n], saved)
    forest = best + root
    for members in range(1, len(forest)):
        parts = _parts(members)
        if len(parts):
            forest[members] = max(forest[members], (best[parts] + root[parts] + forest[members ^ parts]).max())
    return int(forest[-1])


def _parts(members: int) -> Any:
    """The ways to part a set in two: the part that holds its first member."""
    first = members & -members
    parts = np.array([first])
    for n in range(members.bit_length()):
        if (members ^ first) >> n & 1:
            parts = np.concatenate((parts, parts | 1 << n))
    return parts[:-1]  # the last is the whole set
