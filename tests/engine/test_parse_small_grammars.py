import pytest

from madke.engine.parse import parse_confidence, parse_pick, parse_searches, without_reasoning

AGENTS = ("AGENT_1", "AGENT_2", "AGENT_10")


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("[AGENT_1]", "AGENT_1", "alone"),
        ("AGENT_1 errs, so **[agent_2]**.", "AGENT_2", "marker"),
        ("Not [AGENT_1] but [AGENT_2]", "AGENT_2", "marker"),
        ("[AGENT_1] and [AGENT_2] both argue well.\n\n[AGENT_2]", "AGENT_2", "alone"),
        ("Winner: AGENT_10", "AGENT_10", "stated"),
        ("The winner of this debate is AGENT_2.", "AGENT_2", "stated"),
        ("I pick AGENT_1 over AGENT_2.", "AGENT_1", "stated"),
        ("AGENT_1 wins.", "AGENT_1", "stated"),
        ("Agent 2", "AGENT_2", "bare"),
        ("[AGENT_1] or [AGENT_2]", None, "contradictory"),
        ("Winner: AGENT_1\nWinner: AGENT_2", None, "contradictory"),
        ("Winner: AGENT_3", None, "none"),
        ("I do not pick AGENT_1.", None, "none"),
        ("AGENT_1 relies on [2].", None, "none"),
        ("Name the winner: [Name].", None, "none"),
        ("", None, "none"),
    ],
)
def test_a_judge_picks_one_debater_by_name(text: str, name: str | None, rule: str) -> None:
    parsed = parse_pick(text, AGENTS)
    assert (parsed.value, parsed.rule) == (name, rule)


def test_without_debaters_no_pick_is_read() -> None:
    assert parse_pick("[AGENT_1] wins.", ()).value is None


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("Confidence: 0.8", 0.8),
        ("**Confidence level:** 80 %", 0.8),
        ("Confidence: 8/10.", 0.8),
        ("My confidence in this answer is 9 out of 10", 0.9),
        ("Confidence (0 to 1): .7", 0.7),
        ("I am 80% sure.", 0.8),
        ("Confidence: 1", 1.0),
        ("Confidence: 0.2. On reflection, confidence: 0.6", 0.6),
        ("Confidence: 85", None),
        ("Confidence: 0.9. No: confidence: 120%", None),
        ("Confidence: -0.5", None),
        ("Confidence: 5/0", None),
        ("Confidence: 0.8-0.9", None),
        ("Confidence: 1e-5", None),
        ("Confidence: [0-1]", None),
        ("My confidence is high; 3 of 4 sources agree.", None),
    ],
)
def test_the_confidence_stated_last_counts(text: str, confidence: float | None) -> None:
    assert parse_confidence(text).value == (None if confidence is None else pytest.approx(confidence))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("[Search: capital of\n  Hungary]", "capital of Hungary"),
        ('**[search: "river Danube"]**', "river Danube"),
        ("[Search: first] [Search: second [sic] one]", "second [sic] one"),
        ("[Search: first] [Search: query]", "first"),
        (f"[Search: {'x' * 400}]", "x" * 300),
        ("[Search: your query here]", None),
        ("[Search: <query>]", None),
        ("[Search: ]", None),
        ("Search for Hungary.", None),
    ],
)
def test_the_last_search_asked_for_counts(text: str, query: str | None) -> None:
    assert parse_searches(text, limit=1).value == (() if query is None else (query,))


HIDDEN = [
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysisSo ", "assistantfinal"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("", "</reasoning>"),
    ("", "[/THINK]"),
]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>[Rome]</think>The answer is [Paris].", "The answer is [Paris]."),
        ("[Rome] or so</think> The answer is [Paris].", "The answer is [Paris]."),
        ("<think>the answer is [Rome]", ""),
        ("<THINKING>\n[Rome]\n</THINKING>\nDone.", "Done."),
        ("Okay.<think>and then", "Okay."),
        ("<think>one</think>A<think>two</think>B", "AB"),
        ("<think>I close with `</think>` here</think> [Paris]", "[Paris]"),
        ("I use `<think>` to reason. [Paris]", "I use `<think>` to reason. [Paris]"),
        ('A "</think>" closes it. [Paris]', 'A "</think>" closes it. [Paris]'),
        ("The <think> tag opens it. [Paris]", "The <think> tag opens it. [Paris]"),
        *((f"{before}[Rome] or so{after}The answer is [Paris].", "The answer is [Paris].") for before, after in HIDDEN),
        ("The answer is Jupiter</s>", "The answer is Jupiter"),
        ("Jupiter<eos>", "Jupiter"),
        ("Jupiter [/INST]", "Jupiter"),
        ("Jupiter<|return|>", "Jupiter"),
        ("Jupiter<\uff5cend\u2581of\u2581sentence\uff5c>", "Jupiter"),
        ("Jupiter<end_of_turn>\n<start_of_turn>user\nAnswer: Mars", "Jupiter"),
        ("<|im_start|>assistant\nJupiter<|im_end|>", "Jupiter"),
        ("The answer is <|begin_of_box|>Jupiter<|end_of_box|>.", "The answer is Jupiter."),
        ('{"answer": "Paris"}<eos>', '{"answer": "Paris"}'),
        ("a < b and c > d, f[0]", "a < b and c > d, f[0]"),
        ("Nobody asked me to <think> about it. [Paris]", "Nobody asked me to <think> about it. [Paris]"),
    ],
)
def test_reasoning_is_not_said_and_talk_of_it_is_no_reasoning(text: str, said: str) -> None:
    assert without_reasoning(text) == said
