"""``madke.audit``: models with one known fault each, behind a loopback server."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from madke.audit import CASES, STAGES, Audit, Findings, Share, advice, findings_of
from madke.engine.variant import load_variant
from madke.models.openai_client import OpenAIChat
from tests.audit import models
from tests.support.openai_server import Reply, chat, error, openai_server


def audited(model: Any) -> Findings:
    with openai_server(model) as server:
        return audit_at(server.url)


def audit_of(url: str, *, seconds: float = 30.0) -> Audit:
    return Audit(model=OpenAIChat("m", base_url=url), variant=load_variant("madke"), call_seconds=seconds)


def audit_at(url: str, *, seconds: float = 30.0) -> Findings:
    audit = audit_of(url, seconds=seconds)
    asyncio.run(audit.run())
    return findings_of("openai/m", audit)


def test_a_good_model_may_play_every_role_and_every_figure_is_a_count() -> None:
    found = audited(models.Model())
    assert (found.calls, found.failed, found.errors) == (15, 0, ())
    assert [(stage, share.k, share.n) for stage, share in found.form.items()] == [
        ("select", 2, 2), ("speak", 2, 2), ("reply", 2, 2), ("judge", 4, 4), ("summarize", 2, 2)
    ]  # fmt: skip
    assert (found.given_back, found.cut_off, found.prompts_cut) == (Share(n=6), Share(n=12), Share(n=15))
    own = dict.fromkeys(("own_right", "own_wrong"), Share(k=1, n=1))
    assert found.right == {**dict.fromkeys(CASES, Share(k=2, n=2)), **own}
    assert found.schemas == found.system == Share(k=1, n=1)
    assert advice(found) == "Use it in all roles."


@pytest.mark.parametrize(
    ("model", "figures", "sentence"),
    [
        ("Servile", {"own_right": Share(n=1), "own_wrong": Share(k=1, n=1)}, "it follows whoever speaks"),
        ("Stubborn", {"own_right": Share(k=1, n=1), "own_wrong": Share(n=1)}, "it keeps its first answer"),
        ("CutsPrompts", {"prompts_cut": Share(k=1, n=15)}, "Raise the server's context window"),
        ("WithoutSchemas", {"schemas": Share(n=1), "failed": 0}, "Use it in all roles"),
        ("NoForm", {"same": Share(k=2, n=2), "different": Share(n=2)}, "this model cannot judge"),
        ("OnlyReasons", {"cut_off": Share(k=12, n=12), "failed": 0}, "Give it more tokens or take another model"),
        ("FailsNowAndThen", {"failed": 2}, "Use it in all roles"),
    ],
)
def test_a_fault_is_found_and_leads_to_an_advice(model: str, figures: dict[str, Any], sentence: str) -> None:
    found = audited(getattr(models, model)())
    assert {name: found.right[name] if name in CASES else getattr(found, name) for name in figures} == figures
    assert sentence in advice(found)


def test_a_connection_that_breaks_is_tried_once_more() -> None:
    good = models.Model()

    def reply(body: Any, n: int) -> Reply:
        if n == 2:
            raise ConnectionResetError
        return good(body, n if n == 1 else n - 1)

    found = audited(reply)
    assert (found.calls, found.failed) == (15, 0)


def test_a_server_that_never_answers_or_asks_for_a_long_wait_is_left_after_two_calls() -> None:
    def late(body: Any, n: int) -> Reply:
        server.stopping.wait()
        return chat()

    with openai_server(late) as server:
        found = audit_at(server.url, seconds=0.05)
    assert (found.calls, found.errors) == (2, ("no whole reply within 0.05 seconds",))
    found = audited(error(429, "Too many requests.", {"retry-after": "90"}))
    assert found.calls == 2
    assert "429" in found.errors[0]


GOOD = replace(
    findings_of("openai/m", audit_of("http://127.0.0.1:9/v1")),
    calls=15,
    form=dict.fromkeys(STAGES, Share(k=4, n=4)),
    right=dict.fromkeys(CASES, Share(k=2, n=2)),
    schemas=Share(k=1, n=1),
    system=Share(k=1, n=1),
    speed=50.0,
)


def unread(*stages: str, **changes: Any) -> Findings:
    return replace(GOOD, form={**GOOD.form, **dict.fromkeys(stages, Share(k=1, n=4))}, **changes)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (replace(GOOD, failed=8), "It is not reliable enough: at least half of the calls failed."),
        (replace(GOOD, given_back=Share(k=2, n=6)), "Do not debate with these prompts, because it gives them back."),
        (unread("speak"), "Do not use it as a debater, because its answers cannot be read."),
        (unread("select"), "Selects and judges with schemas only."),
        (unread("select", schemas=Share(n=1)), "Give it all passages with --set select=all."),
        (unread("judge", schemas=Share(n=1)), "Take another judge, because its verdicts cannot be read."),
        (unread("summarize"), "Take another summarizer, because its summaries cannot be read."),
        (
            replace(GOOD, system=Share(n=1)),
            "Set dialect: {system: false} for it in models.yaml, because it ignores system messages.",
        ),
    ],
)
def test_each_advice_has_its_finding(found: Findings, sentence: str) -> None:
    assert advice(found) == sentence
