"""Spans of debates: what an OTLP receiver gets, afterwards and live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import madke as library
from madke.core.chat import Completion, Message, Purpose
from madke.core.errors import UserError
from madke.export.otel import Collector, NotSent
from madke.export.spans import SPAN_ATTRIBUTES, TEXT_ATTRIBUTES, TimedCall, debate_spans, laid_out
from madke.pools.pool_file import PoolRecord, write_pools
from tests.export.test_export import PASSAGES, debate
from tests.support.cli import madke, refused
from tests.support.search_server import SearchServer, ok

ASKED = "Which lake is the deepest?"
KEY = "secret-of-the-collector"


@pytest.fixture
def receiver() -> Iterator[SearchServer]:
    """An OTLP receiver on loopback."""
    with SearchServer(lambda seen, before: ok({})).running() as server:
        yield server


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two debates over a pool."""
    folder = tmp_path_factory.mktemp("run")
    asked = {f"q{n}": f"{ASKED} ({n})" for n in range(2)}
    lines = [{"id": id_, "question": text, "golden_answers": ["Baikal"]} for id_, text in asked.items()]
    (folder / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "script.yaml").write_text('- {reply: "The answer is Baikal."}\n', encoding="utf-8")
    pools = [PoolRecord(id=id_, question=text, passages=PASSAGES) for id_, text in asked.items()]
    write_pools(folder / "pools.jsonl", pools)
    known = ("--pools", "pools.jsonl", "--sources", "web,wiki", "--protocol", "madke")
    done = madke(
        *("run", "q.jsonl", "--task", "short_answer", *known, "--model", "scripted/script.yaml", "--out", "run"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder / "run"


def plain(value: dict[str, Any]) -> Any:
    """The Python value of one of OTLP's."""
    ((kind, held),) = value.items()
    if kind == "arrayValue":
        return [plain(each) for each in held["values"]]
    return int(held) if kind == "intValue" else held


def spans_in(*requests: Any) -> list[dict[str, Any]]:
    """All spans of some requests, with ``attributes`` as a dict."""
    return [
        {**span, "attributes": {each["key"]: plain(each["value"]) for each in span["attributes"]}}
        for request in requests
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def received(server: SearchServer) -> list[dict[str, Any]]:
    assert {seen.path for seen in server.requests} == {"/v1/traces"}
    return spans_in(*(seen.body for seen in server.requests))


def check_tree(spans: list[dict[str, Any]]) -> None:
    """Each span has a parent of the right kind in its trace, and lies within it."""
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    above = {"retrieval": ("invoke_workflow", "invoke_agent"), "invoke_agent": ("invoke_workflow",)}
    for span in spans:
        kind = span["attributes"]["gen_ai.operation.name"]
        assert span["name"].startswith(kind)
        assert set(span["attributes"]) <= set(SPAN_ATTRIBUTES[kind])
        if kind == "invoke_workflow":
            assert "parentSpanId" not in span
            continue
        parent = by_id[span["parentSpanId"]]
        assert parent["attributes"]["gen_ai.operation.name"] in above.get(kind, ("invoke_agent",))
        assert parent["traceId"] == span["traceId"]
        begins, ends = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert int(parent["startTimeUnixNano"]) <= begins <= ends <= int(parent["endTimeUnixNano"])


def names_of(spans: list[dict[str, Any]]) -> set[str]:
    return {span["name"] for span in spans}


def test_a_receiver_gets_the_tree_of_a_run(run: Path, receiver: SearchServer) -> None:
    done = madke("export", run, "--otel", receiver.url, OTEL_EXPORTER_OTLP_HEADERS=f"x-api-key={KEY}")
    assert done.returncode == 0, done.stderr
    spans = received(receiver)

    check_tree(spans)
    assert len([span for span in spans if "parentSpanId" not in span]) == 2
    expected = {"invoke_workflow madke", "retrieval web", "retrieval wiki", "invoke_agent judge"}
    assert expected <= names_of(spans)
    # The name of a scripted model ends with a fingerprint of its file.
    assert any(name.startswith("chat script.yaml#") for name in names_of(spans))
    assert f"{len(spans)} spans" in done.stdout
    # The key is where it belongs, and nowhere else.
    assert {seen.headers["x-api-key"] for seen in receiver.requests} == {KEY}
    assert KEY not in done.stdout + done.stderr + json.dumps([seen.body for seen in receiver.requests])


def test_token_sums_are_those_of_score(run: Path, tmp_path: Path) -> None:
    done = madke("export", run, "--otel", tmp_path / "spans.jsonl")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "spans.jsonl").read_text(encoding="utf-8").splitlines()
    chats = [span["attributes"] for span in spans_in(*map(json.loads, lines)) if span["name"].startswith("chat")]
    usage = json.loads(madke("score", run, "--json").stdout)["usage"].values()

    assert len(chats) == sum(each["calls"] for each in usage) > 0
    for name, of_chat in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")):
        summed = sum(each[f"gen_ai.usage.{of_chat}"] for each in chats)
        assert summed == sum(each[name] for each in usage) > 0


def test_text_is_sent_only_on_request(run: Path, tmp_path: Path) -> None:
    held: dict[str, set[str]] = {}
    for name, more in (("bare", ()), ("text", ("--otel-text",))):
        done = madke("export", run, "--otel", tmp_path / name, *more)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        held[name] = {key for span in spans_in(*map(json.loads, lines)) for key in span["attributes"]}
    bare = (tmp_path / "bare").read_text(encoding="utf-8")

    assert "Baikal" not in bare
    assert "deepest" not in bare
    assert held["bare"].isdisjoint(TEXT_ATTRIBUTES)
    # The run has no debater that searches, but its pool was searched with the question.
    assert held["text"] >= set(TEXT_ATTRIBUTES)


def test_a_second_export_has_the_same_ids(run: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        assert madke("export", run, "--otel", tmp_path / name).returncode == 0

    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_live_debates_are_sent_as_they_end(receiver: SearchServer) -> None:
    with library.SpanListener(receiver.url, name="mad") as spans:
        run = library.run([ASKED], protocol="mad", model=lambda messages: "The answer is Baikal.", listen=spans)
    found = received(receiver)

    check_tree(found)
    assert spans.lost == 0
    assert "invoke_workflow mad" in names_of(found)
    chats = [span["attributes"] for span in found if span["name"].startswith("chat")]
    (transcript,) = run.transcripts()
    assert len(chats) == transcript.total.calls > 0
    assert sum(each["gen_ai.usage.input_tokens"] for each in chats) == transcript.total.prompt_tokens
    assert "Baikal" not in json.dumps(found)


def test_a_collector_that_is_gone_stops_no_debate(receiver: SearchServer, caplog: pytest.LogCaptureFixture) -> None:
    receiver.reply = lambda seen, before: (400, {}, b"")
    with library.SpanListener(receiver.url) as spans:
        run = library.run([ASKED], protocol="mad", model=lambda messages: "The answer is Baikal.", listen=spans)

    assert [each.answer for each in run.transcripts()] == ["Baikal"]
    assert spans.lost > 0
    assert [each.getMessage() for each in caplog.records if "collector" in each.getMessage()] == [
        "the collector did not take spans: HTTP 400; the debates go on"
    ]


def test_a_busy_collector_is_asked_again(receiver: SearchServer) -> None:
    receiver.reply = lambda seen, before: (503, {}, b"") if before < 2 else ok({})
    waits: list[float] = []
    with Collector(receiver.url, sleep=waits.append) as collector:
        collector.send([])

    assert waits == [1.0, 2.0]


@pytest.mark.parametrize("status", [302, 401, 503])
def test_a_refusal_is_reported_without_the_reply(receiver: SearchServer, status: int) -> None:
    receiver.reply = lambda seen, before: (status, {"Location": "/elsewhere"}, KEY.encode())
    with Collector(receiver.url, sleep=lambda seconds: None) as collector, pytest.raises(NotSent) as refusal:
        collector.send([])

    assert str(refusal.value) == f"HTTP {status}"
    assert {seen.path for seen in receiver.requests} == {"/v1/traces"}


def test_what_is_refused(run: Path, receiver: SearchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--otel-text says" in refused("export", run, "--otel-text", "--trec", run / "out")
    assert "would overwrite" in refused("export", run, "--otel", run / "transcripts.jsonl")
    receiver.reply = lambda seen, before: (404, {}, b"")
    assert "did not take spans: HTTP 404" in refused("export", run, "--otel", receiver.url)
    with pytest.raises(UserError, match="OTEL_EXPORTER_OTLP_HEADERS"):
        Collector(f"http://user:{KEY}@127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", KEY)
    with pytest.raises(UserError, match="name=value") as bad:
        Collector(receiver.url)
    assert KEY not in str(bad.value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-api-key={KEY}%E2%82%AC")
    with pytest.raises(UserError, match="cannot be sent") as unsent:
        Collector(receiver.url)
    assert KEY not in str(unsent.value)
    assert "is no collector's address" in refused("export", run, "--otel", "http://[abc")


def call(stage: str, agent: str, round_n: int, **reply: Any) -> TimedCall:
    return TimedCall(
        purpose=Purpose(question="q0", stage=stage, agent=agent, round=round_n),
        completion=Completion(**{"text": "It is Baikal.", "seconds": 2.0, **reply}),
        model="openai/gpt-4o@https://gateway.example/v1",
        messages=(Message(role="user", content=ASKED),),
    )


def test_calls_are_laid_out_by_round_and_debater() -> None:
    calls = [
        call("speak", "Debater 1", 2),
        call("select", "Debater 1", 1),
        call("speak", "Debater 2", 1, seconds=5.0),
        call("speak", "Debater 1", 1),
        call("judge", "judge", 1),
        call("rewrite", "retriever", 1, seconds=1.0),
    ]
    times = {
        (each.purpose.stage, each.purpose.agent, each.purpose.round): (each.start, each.end)
        for each in laid_out(calls, ["Debater 1", "Debater 2"])
    }

    assert times == {
        ("rewrite", "retriever", 1): (0.0, 1.0),
        ("select", "Debater 1", 1): (1.0, 3.0),
        ("speak", "Debater 1", 1): (3.0, 5.0),
        ("speak", "Debater 2", 1): (1.0, 6.0),
        ("judge", "judge", 1): (6.0, 8.0),
        ("speak", "Debater 1", 2): (8.0, 10.0),
    }


def test_a_failed_call_and_a_failed_source_are_errors() -> None:
    failed = call("speak", "Debater 1", 1, outcome="failed", text="", error=f"said {ASKED}")
    transcript = debate(pool_partial={"google": "HTTP 500"})

    def errors(*, text: bool) -> dict[str, tuple[Any, Any]]:
        spans = debate_spans(transcript, [failed], run="first", name="madke", began=0, text=text)
        return {span.name: (span.attributes["error.type"], span.error) for span in spans if span.error is not None}

    assert errors(text=False) == {"retrieval google": ("search_failed", ""), "chat gpt-4o": ("failed", "")}
    assert errors(text=True) == {
        "retrieval google": ("search_failed", "HTTP 500"),
        "chat gpt-4o": ("failed", f"said {ASKED}"),
    }


def test_every_attribute_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "interop.md").read_text(encoding="utf-8")

    assert {name for names in SPAN_ATTRIBUTES.values() for name in names if f"`{name}`" not in page} == set()
