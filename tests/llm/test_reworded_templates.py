"""Debates with the shipped templates in other words: a user's own folder in which every fixed word is replaced.

The words in templates, in texts of their expressions, in the shared templates and in the tasks' wording are replaced;
expressions and blocks stay. Offline debates and people then give the same answers, selections, verdicts and calls.
"""

from __future__ import annotations

import asyncio
import codecs
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

from madke._util.assets import asset
from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm.offline import OfflineChat
from madke.tasks import TASKS
from madke.variants import load_variant
from madke.variants.load import variant_folders
from tests.conftest import passage
from tests.llm.test_offline_chat import POOL, WordEncoder
from tests.llm.test_reworded_prompts import QUESTIONS, lengths, nothing
from tests.support.debates import first_round_of, without_usage

_SYNTAX = Environment(keep_trailing_newline=True)
_SENTENCE = re.compile(r"[A-Z]|[a-z],? | [a-z]")
"""Texts in expressions that are words for a reader; the others are names."""


def other(text: str) -> str:
    """The text with another word for each of its words. That a confidence is asked for is checked at loading."""
    return "".join(
        part if part.casefold() == "confidence" else codecs.encode(part, "rot13")
        for part in re.split(r"(confidence)", text, flags=re.IGNORECASE)
    )


def reworded(template: str) -> str:
    parts = []
    for _, kind, text in _SYNTAX.lexer.tokeniter(template, None):
        said = kind == "data" or (kind == "string" and _SENTENCE.search(text) is not None)
        parts.append(other(text) if said else text)
    return "".join(parts)


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user who has reworded everything. Shared templates are overridden by a variant's own."""
    root = tmp_path_factory.mktemp("prompts")
    for name, folder in variant_folders().items():
        own = root / name
        own.mkdir()
        for path in (*asset("prompts", "_shared").glob("*.j2"), *folder.glob("*.j2")):
            (own / path.name).write_text(reworded(path.read_text()))
        (own / "protocol.yaml").write_text((folder / "protocol.yaml").read_text())
    return root


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[OfflineChat]:
    model = OfflineChat(WordEncoder(), cache=tmp_path / "vectors.sqlite")
    yield model
    asyncio.run(model.aclose())


def in_other_words(name: str) -> Any:
    task = copy.copy(TASKS[name])
    wording: dict[str, Any] = yaml.safe_load(asset("prompts", "tasks", f"{name}.yaml").read_text())
    said = {key: other(text) if isinstance(text, str) else text for key, text in wording.items()}
    said["examples"] = [{**each, "reasoning": other(each["reasoning"])} for each in wording["examples"]]
    task.wording = said
    return task


Calls = dict[Purpose, tuple[ChatRequest, str]]
"""Every request and its reply."""

REACHED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("chateval", {"talk.first": "simultaneous", "talk.later": "simultaneous_with_summary"}, "digest"),
    ("liang", {"extract": "always"}, "extract"),
    ("lemmas", {"finish": "judge_pick"}, "pick"),
    ("madke-live", {"rounds": 1}, "select"),
    ("maps", {}, "topics"),
    ("self-reflect", {}, "reflect"),
)
"""A protocol, settings, and the stage that they reach."""


class Recording:
    """Another model, whose requests and replies are kept."""

    def __init__(self, model: Any) -> None:
        self.name = model.name
        self.calls: Calls = {}
        self._model = model

    async def complete(self, request: ChatRequest) -> Completion:
        completion: Completion = await self._model.complete(request)
        assert request.purpose not in self.calls
        self.calls[request.purpose] = request, completion.text
        return completion


def debated(
    name: str, question: Question, prompts: Path | None, model: Any, **settings: Any
) -> tuple[Transcript, Calls]:
    """With the shipped words, or those in ``prompts``."""
    variant = load_variant(name, prompts)
    if variant.protocol.knowledge is None and name != "lemmas":
        variant = variant.with_sources(["wiki"], settings)
    elif settings:
        variant = variant.with_settings(settings)
    recording = Recording(model)
    cast: dict[str, Any] = dict.fromkeys(variant.protocol.roles, recording)
    scene = Scene(
        question,
        variant.protocol,
        cast,
        KnowledgePool(passages=tuple(passage("wiki", f"k{n}", *each) for n, each in enumerate(POOL))),
        task=TASKS[question.task] if prompts is None else in_other_words(question.task),
        prompts=variant,
        seed=1,
        first_round=first_round_of(variant),
        retrieve=nothing,
        score_answers=lengths,
    )
    return asyncio.run(hold_debate(scene)), recording.calls


def check_same(shipped: tuple[Transcript, Calls], own: tuple[Transcript, Calls]) -> None:
    (before, calls), (after, others) = shipped, own
    assert without_usage(before.rounds) == without_usage(after.rounds)
    assert (before.final, before.answer, before.stop_reason) == (after.final, after.answer, after.stop_reason)
    used = [{stage: usage.calls for stage, usage in each.usage.items()} for each in (before, after)]
    assert used[0] == used[1]
    assert calls.keys() == others.keys()
    for purpose, (request, reply) in calls.items():
        other_request, other_reply = others[purpose]
        assert request.messages[-1] != other_request.messages[-1], f"the words of {purpose.stage} were not replaced"
        assert reply == other_reply


# mad-noise needs a first round from outside; its words are those of mad.
@pytest.mark.parametrize("name", sorted({*variant_folders()} - {"mad-noise"}))
def test_offline_debates_are_the_same_in_other_words(name: str, prompts: Path, offline: OfflineChat) -> None:
    answers = []
    for question in QUESTIONS:
        shipped, own = (debated(name, question, folder, offline) for folder in (None, prompts))
        check_same(shipped, own)
        assert shipped[0].status != "failed"
        answers.append(shipped[0].answer)
    assert any(answers)


@pytest.mark.parametrize(("name", "settings", "stage"), REACHED)
def test_stages_that_few_debates_reach_are_the_same_in_other_words(
    name: str, settings: dict[str, Any], stage: str, prompts: Path, offline: OfflineChat
) -> None:
    shipped, own = (debated(name, QUESTIONS[0], folder, offline, **settings) for folder in (None, prompts))
    assert stage in {purpose.stage for purpose in shipped[1]}
    check_same(shipped, own)


def test_words_are_replaced_and_nothing_else() -> None:
    template = '{% if marker == "plain" %}\nEnd with "Verdict: SAME".{{ " Be brief." if own else "You" }}\n{% endif %}'
    expected = '{% if marker == "plain" %}\nRaq jvgu "Ireqvpg: FNZR".{{ " Or oevrs." if own else "Lbh" }}\n{% endif %}'
    assert reworded(template) == expected
