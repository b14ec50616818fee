"""Counts, speeds and advice from records of calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from madke.audit import Findings, Share, findings_of
from madke.audit.advice import ALONE, CLAUSES, advice
from madke.audit.calls import ProbeCall
from madke.audit.findings import gives_back, repeats_prompt
from madke.cli.doctor import audit_lines
from madke.core.chat import ChatRequest, Completion, Message, Purpose, Usage

RULE = "For example: The answer is [Danube].\nYour last line: The answer is [answer]."
PROMPT = f"Answer the question at the end with a name.\n{RULE}\n\nWho designed the lighthouse?"


def call(probe: Any = "speak", reply: str = "", *, seed: int | None = None, **fields: Any) -> ProbeCall:
    usage = fields.pop("usage", Usage(prompt_tokens=40, completion_tokens=10))
    fields = {"began": 0.0, "ended": 1.0, "shown": ("Who designed the lighthouse?",), **fields}
    purpose = Purpose(question="q", stage=probe, agent="a", round=1)
    messages = (Message(role="user", content=fields.pop("prompt", PROMPT)),)
    request = ChatRequest(messages=messages, purpose=purpose, temperature=0.5, max_tokens=9, seed=seed)
    return ProbeCall(probe=probe, request=request, completion=Completion(text=reply, usage=usage), **fields)


@pytest.mark.parametrize("answer", ["Danube", "the answer", "name"])
def test_an_answer_that_only_the_rules_hold_is_given_back(answer: str) -> None:
    # The closing rule of 0.3.0.
    assert gives_back(call(answer=answer))


@pytest.mark.parametrize("answer", ["Orla Venn", "Danube River", "", None, "lighthouse", "Dan"])
def test_other_answers_are_not(answer: str | None) -> None:
    assert not gives_back(call(answer=answer))


def test_an_example_that_a_passage_holds_too_is_an_answer() -> None:
    assert not gives_back(call(answer="Danube", shown=("Who designed the lighthouse?", "The Danube is a river.")))


def test_what_the_parser_calls_an_echo_is_given_back() -> None:
    assert gives_back(call(echoed=True))


def test_a_reply_repeats_the_rules_and_not_what_they_are_about() -> None:
    passage = "The lighthouse on Tessel Head was designed by Orla Venn and first lit in the autumn of 1873."
    prompt = f"{PROMPT}\n[0] {passage}"

    assert repeats_prompt(call(reply=PROMPT, prompt=prompt, shown=(passage,)))
    assert not repeats_prompt(call(reply=f"{passage} The answer is [Orla Venn].", prompt=prompt, shown=(passage,)))
    assert not repeats_prompt(call(reply="The answer is [Orla Venn].", prompt=prompt))
    assert not repeats_prompt(call(reply=""))


def test_speeds_are_those_of_streamed_calls_after_the_first() -> None:
    usage = Usage(prompt_tokens=100, cached_tokens=60, completion_tokens=21)
    slow = call(ended=60.0, first_token=50.0)
    calls = [slow, *(call(usage=usage, began=n, ended=n + 3.0, first_token=1.0) for n in (60, 70))]

    found = findings_of("m", calls, planned=3)

    assert (found.prompt_speed, found.new_speed) == (40.0, 10.0)


def test_without_streams_only_the_whole_speed_is_known() -> None:
    found = findings_of("m", [call(), call(began=1.0, ended=3.0)], planned=2)

    assert (found.prompt_speed, found.new_speed) == (None, 5.0)


def test_four_calls_at_once_gain_what_they_save() -> None:
    alone = call("alone", began=0.0, ended=2.0)
    together = [call("together", began=2.0, ended=end, seed=1) for end in (4.0, 5.0, 6.0, 6.0)]

    assert findings_of("m", [alone, *together], planned=5).gain == 2.0


def kept(probe: Any, cached: int, began: float, *, prompt: int = 1000) -> Any:
    usage = Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=5)
    return call(probe, usage=usage, began=began, ended=began + 1.0, prompt="word " * 800)


@pytest.mark.parametrize(
    ("cached", "share"),
    [((0, 0, 900), False), ((0, 896, 900), True), ((0, 0, 0), None)],
    ids=["miss", "share", "nothing kept"],
)
def test_two_calls_at_once_tell_whether_siblings_share(cached: Any, share: Any) -> None:
    calls = [kept(*each) for each in zip(("siblings", "siblings", "long"), cached, (0.0, 0.0, 7.0), strict=True)]
    found = findings_of("m", calls, planned=3)
    assert found.siblings_share is share
    assert found.least_cached == (min(filter(None, cached)) if any(cached) else None)
    assert found.cached_after == (6.0 if cached[-1] else None)


def test_estimated_counts_say_nothing_of_cut_prompts() -> None:
    found = findings_of("m", [call(usage=Usage(prompt_tokens=1, estimated=True))], planned=1)

    assert found.prompts_cut == Share()


STAGES = ("select", "speak", "reply", "judge", "summarize")
GOOD = replace(
    findings_of("openai/m", [], planned=29),
    calls=29,
    complete=True,
    form=dict.fromkeys(STAGES, Share(k=4, n=4)),
    given_back=Share(n=14),
    repeated=Share(n=22),
    gold_first=Share(k=4, n=4),
    gold_last=Share(k=4, n=4),
    reported_first=Share(k=2, n=4),
    stayed_right=Share(k=3, n=3),
    became_right=Share(k=3, n=3),
    same_found=Share(k=2, n=2),
    different_found=Share(k=2, n=2),
    prompts_cut=Share(n=29),
    schemas=Share(k=1, n=1),
    same_seed=Share(k=1, n=1),
    other_seed=Share(k=2, n=2),
    prompt_tokens=123_456,
    completion_tokens=12_345,
    seconds=1234.0,
    longest_prompt=12_345,
    prompt_speed=12_345.0,
    system=Share(k=5, n=5),
    new_speed=50.0,
    gain=3.0,
)
NONE = Share(n=1)


def unread(*stages: str, **changes: Any) -> Findings:
    return replace(GOOD, form={**GOOD.form, **dict.fromkeys(stages, Share(k=1, n=4))}, **changes)


CASES = [
    (replace(GOOD, calls=0), "Nothing was measured."),
    (replace(GOOD, failed=29), "It cannot be used: every call failed; see the error above."),
    (replace(GOOD, failed=15), "It is not reliable enough: at least half of the calls failed."),
    (
        replace(GOOD, prompts_cut=Share(k=1, n=29)),
        "Raise the server's context window first, because it cuts long prompts without an error.",
    ),
    (
        replace(GOOD, given_back=Share(k=2, n=14)),
        "Do not debate with these prompts, because it gives back their examples.",
    ),
    (replace(GOOD, repeated=Share(k=5, n=22)), "Do not debate with these prompts, because it repeats them."),
    (unread("speak"), "Do not use it as a debater, because its answers cannot be read."),
    (unread("reply"), "Do not use it as a debater, because its answers cannot be read."),
    (unread("select"), "Selects and judges with schemas only."),
    (unread("select", schemas=NONE), "Give it all passages with --set knowledge.select=all."),
    (unread("judge", schemas=NONE), "Take another judge, because its verdicts cannot be read."),
    (replace(GOOD, different_found=Share(n=2)), "Do not use it as a judge."),
    (unread("summarize"), "Take another summarizer, because its summaries cannot be read."),
    (
        replace(GOOD, stayed_right=Share(k=1, n=3)),
        "Do not trust its agreement, because it follows whoever speaks.",
    ),
    (
        replace(GOOD, became_right=Share(k=1, n=3)),
        "Expect nothing from later rounds, because it keeps its first answer.",
    ),
    (replace(GOOD, gold_last=Share(k=1, n=4)), "Show it few passages, because it favours the first."),
    (replace(GOOD, gold_first=Share(k=1, n=4)), "Show it few passages, because it favours the last."),
    (
        replace(GOOD, reported_first=Share(k=3, n=3)),
        "Take another summarizer, because it favours the first debater.",
    ),
    (replace(GOOD, reported_first=Share(n=4)), "Take another summarizer, because it favours the last debater."),
    (
        replace(GOOD, system=Share(k=2, n=5)),
        "Set dialect: {system: false} for it in models.yaml, because it ignores system messages.",
    ),
    (replace(GOOD, same_seed=NONE), "Do not rely on seeds, because the server ignores them."),
    (replace(GOOD, new_speed=4.0), "Ask few questions, because it is slow."),
    (replace(GOOD, gain=1.1), "Use --concurrency 1, because more calls at once gain nothing."),
    (
        replace(GOOD, least_cached=1024, cached_after=100.0, siblings_share=False),
        "Set prefix: on for it in models.yaml, because calls at once miss its cache.",
    ),
    (
        replace(GOOD, cut_off=Share(k=11, n=22)),
        "Give it more tokens or take another model: at least half of its replies were cut off.",
    ),
    (GOOD, "Use it in all roles."),
    (replace(GOOD, complete=False), "Nothing speaks against it so far."),
    (
        unread("select", different_found=Share(n=2), same_seed=NONE),
        "Selects and judges with schemas only; do not use it as a judge.",
    ),
]


@pytest.mark.parametrize(("found", "sentence"), CASES)
def test_each_advice_has_its_finding(found: Findings, sentence: str) -> None:
    assert advice(found) == sentence


def test_every_rule_has_a_case() -> None:
    sentences = [sentence.casefold() for _, sentence in CASES]

    for _, clause in (*ALONE, *CLAUSES):
        assert any(clause.casefold() in sentence for sentence in sentences), clause


@pytest.mark.parametrize("errors", [(), ("HTTP 404: " + "no such model " * 40, "another")])
@pytest.mark.parametrize("found", [found for found, _ in CASES])
def test_the_findings_fit_on_one_screen(found: Findings, errors: tuple[str, ...]) -> None:
    lines = list(audit_lines(replace(found, errors=errors), "http://127.0.0.1:11434/v1"))

    assert len(lines) <= 24
    if found.calls and found.failed < found.calls:
        assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_what_was_not_measured_has_no_figure() -> None:
    lines = list(audit_lines(findings_of("m", [call()], planned=29), ""))

    assert sum("not measured" in line for line in lines) >= 10
    assert not any("0 of 0" in line for line in lines)
    assert lines[1].startswith("1 call, stopped early")
