"""``madke.audit``: models with one known fault each, behind a loopback server."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from madke.audit import PLANNED, Audit, Findings, Share, findings_of
from madke.audit.advice import advice
from madke.llm import OpenAIChat
from madke.variants import load_variant
from tests.audit import models
from tests.support.openai_server import Reply, chat, openai_server


def audited(model: Any, *, prompts: Path | None = None, seconds: float = 30.0) -> Findings:
    with openai_server(model) as server:
        return audit_at(server.url, prompts=prompts, seconds=seconds)


def audit_at(url: str, *, prompts: Path | None = None, seconds: float = 30.0) -> Findings:
    audit = Audit(model=OpenAIChat("m", base_url=url), variant=load_variant("madke", prompts), call_seconds=seconds)
    asyncio.run(audit.run())
    return findings_of("openai/m", audit.calls, planned=audit.planned)


def test_a_good_model_may_play_every_role_and_every_figure_is_a_count() -> None:
    found = audited(models.Model())

    assert (found.calls, found.failed, found.complete, found.errors) == (PLANNED, 0, True, ())
    assert PLANNED < 30
    assert list(found.form) == ["select", "speak", "reply", "judge", "summarize"]
    assert [(share.k, share.n) for share in found.form.values()] == [(4, 4), (4, 4), (4, 4), (4, 4), (4, 4)]
    assert (found.given_back, found.repeated, found.cut_off) == (Share(n=12), Share(n=20), Share(n=20))
    assert found.gold_first == found.gold_last == Share(k=4, n=4)
    assert found.stayed_right == found.became_right == Share(k=2, n=2)
    assert found.same_found == found.different_found == Share(k=2, n=2)
    assert (found.summary_right, found.reported_first) == (Share(k=4, n=4), Share(k=2, n=4))
    assert found.prompts_cut == Share(n=29)
    assert found.longest_prompt > 2500
    assert (found.schemas, found.system) == (Share(k=1, n=1), Share(k=5, n=5))
    assert (found.same_seed, found.other_seed) == (Share(k=1, n=1), Share(k=2, n=2))
    assert found.prompt_tokens > 5000
    assert found.completion_tokens > 200
    assert advice(found) == "Use it in all roles."


PROTOCOL = """
source: own
debaters: 2
knowledge: {sources: [wiki], select: adaptive}
rounds: 2
stop: judge
finish: summarizer
"""
RULE = "Write a few sentences, and then your last line. For example: The answer is [Danube]."
READ = "{% for each in knowledge %}[{{ each[0] }}] {{ each[1] }}: {{ each[2] }}\n{% endfor %}"
HEARD = "{% for each in STANCES %}{{ each.agent }}: {{ each.text }}\n{% endfor %}"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Own templates of ``madke`` whose closing rule holds an example, as those of 0.3.0 did."""
    folder = tmp_path / "prompts" / "madke"
    folder.mkdir(parents=True)
    (folder / "protocol.yaml").write_text(PROTOCOL)
    heard = HEARD.replace("STANCES", "stances")
    users = {
        "select": READ + "Which of these help? Last line: Selected: [0]",
        "speak": READ + RULE,
        "reply": READ + HEARD.replace("STANCES", "peers") + "You said: {{ own }}\n" + RULE,
        "judge": heard + "Last line: Verdict: [SAME] or Verdict: [DIFFERENT]",
        "summarize": heard + RULE,
    }
    for stage, user in users.items():
        (folder / f"{stage}.j2").write_text(
            f"{{% block system %}}You debate.{{% endblock %}}{{% block user %}}{{{{ question.question }}}}\n{user}"
            "{% endblock %}"
        )
    return tmp_path / "prompts"


def test_an_example_that_is_given_back_is_found(prompts: Path) -> None:
    found = audited(models.GivesBackExamples(), prompts=prompts)

    assert found.given_back == Share(k=12, n=12)
    assert advice(found).startswith("Do not debate with these prompts, because it gives back their examples")


def test_the_same_answer_is_only_wrong_where_the_prompt_does_not_hold_it(prompts: Path) -> None:
    for template in (prompts / "madke").glob("*.j2"):
        template.write_text(template.read_text().replace("Danube", "X"))

    found = audited(models.GivesBackExamples(), prompts=prompts)

    assert found.given_back == Share(n=12)
    assert found.gold_first == Share(k=2, n=4)


def test_a_repeated_prompt_is_found(prompts: Path) -> None:
    found = audited(models.RepeatsPrompts(), prompts=prompts)

    assert found.repeated == Share(k=8, n=20)
    assert "it repeats them" in advice(found)


def test_a_servile_model_takes_what_its_peer_says() -> None:
    found = audited(models.Servile())

    assert (found.stayed_right, found.became_right) == (Share(n=2), Share(k=2, n=2))
    assert "follows whoever speaks" in advice(found)


def test_a_stubborn_model_keeps_what_it_said() -> None:
    found = audited(models.Stubborn())

    assert (found.stayed_right, found.became_right) == (Share(k=2, n=2), Share(n=2))
    assert "keeps its first answer" in advice(found)


@pytest.mark.parametrize(("model", "place"), [("TakesTheFirstPassage", "first"), ("TakesTheLastPassage", "last")])
def test_a_favoured_passage_is_found(model: str, place: str) -> None:
    found = audited(getattr(models, model)())

    right, wrong = (found.gold_first, found.gold_last) if place == "first" else (found.gold_last, found.gold_first)
    assert (right, wrong) == (Share(k=4, n=4), Share(n=4))
    assert f"it favours the {place}" in advice(found)


def test_a_favoured_debater_is_found() -> None:
    found = audited(models.ReportsTheFirst())

    assert (found.reported_first, found.summary_right) == (Share(k=4, n=4), Share(k=2, n=4))
    assert "it favours the first debater" in advice(found)


def test_a_prompt_that_the_server_cuts_is_found() -> None:
    found = audited(models.CutsPrompts())

    assert found.prompts_cut == Share(k=3, n=29)
    assert found.longest_prompt == 1000
    assert advice(found).startswith("Raise the server's context window first")


def test_a_server_without_schemas_has_no_failed_call() -> None:
    found = audited(models.WithoutSchemas())

    assert (found.schemas, found.failed, found.complete) == (Share(n=1), 0, True)


def test_ignored_seeds_are_found() -> None:
    found = audited(models.IgnoresSeeds())

    assert (found.same_seed, found.other_seed) == (Share(n=1), Share(k=2, n=2))
    assert "the server ignores them" in advice(found)


def test_a_model_without_form_that_calls_everything_the_same() -> None:
    found = audited(models.NoForm())

    assert (found.form["select"], found.form["judge"]) == (Share(n=4), Share(k=4, n=4))
    assert (found.same_found, found.different_found) == (Share(k=2, n=2), Share(n=2))
    assert advice(found) == "Selects and judges with schemas only; do not use it as a judge."


def test_replies_of_only_reasoning_are_cut_off_and_not_failed() -> None:
    found = audited(models.OnlyReasons())

    assert (found.cut_off, found.failed) == (Share(k=20, n=20), 0)
    assert found.form["speak"] == Share(n=4)
    assert advice(found).startswith("Give it more tokens or take another model")


def test_errors_of_the_endpoint_are_findings() -> None:
    found = audited(models.FailsNowAndThen())

    assert (found.failed, found.complete) == (2, True)
    assert len(found.errors) == 1
    assert "out of memory" in found.errors[0]
    assert found.form["judge"] == Share(k=2, n=2)


def test_a_connection_that_breaks_is_tried_once_more() -> None:
    found = audited(models.breaks_every_second_connection(models.Model()))

    assert (found.calls, found.failed) == (PLANNED, 0)


def test_a_dead_endpoint_is_left_after_two_calls() -> None:
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        found = audit_at(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")

    assert (found.calls, found.failed, found.complete) == (2, 2, False)
    assert "connection failed" in found.errors[0]
    assert advice(found) == "It cannot be used: every call failed; see the error above."


def test_a_server_that_never_answers_is_left_after_two_calls() -> None:
    def late(body: Any, n: int) -> Reply:
        server.stopping.wait()
        return chat()

    with openai_server(late) as server:
        found = audit_at(server.url, seconds=0.05)

    assert (found.calls, found.failed) == (2, 2)
    assert found.errors == ("no whole reply within 0.05 seconds",)
