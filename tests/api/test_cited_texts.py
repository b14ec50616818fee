"""The task ``text`` through ``ask`` and the server: one text with the same citations, which are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import madke
from madke.core.knowledge import Hits, Passage
from tests.serve.serving import Upstream, serving
from tests.support.openai_server import Reply, chat, openai_server

ASKED = "How deep are the two deepest lakes?"
TEXTS = (
    "Lake Baikal in Siberia is 1,642 metres deep.",
    "Lake Tanganyika is 1,470 metres deep.",
    "Zebras live in herds.",
)
STANCE = "Lake Baikal is 1,642 metres deep [0]. Lake Tanganyika is 1,470 metres deep [1]."
SUMMARY = "Lake Baikal is 1,642 metres deep. Lake Tanganyika is 1,470 metres deep [1]. Zebras swim there [2]."
CHECKED = "Lake Baikal is 1,642 metres deep [0]. Lake Tanganyika is 1,470 metres deep [1]. Zebras swim there."


class Lakes:
    name = "lakes"
    description = "three passages"
    fingerprint = "1"

    def search(self, queries: list[str], k: int) -> list[Hits]:
        found = [
            Passage(source="lakes", key=str(n), title="", text=text, score=1, rank=n) for n, text in enumerate(TEXTS, 1)
        ]
        return [Hits(passages=tuple(found))] * len(queries)


class Writers(Upstream):
    """Debaters who write texts and agree."""

    def __call__(self, body: dict[str, Any], n: int) -> Reply:
        system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "response_format" in body:
            return 400, {}, b'{"error": {"message": "response_format is not supported"}}'
        if "Do not answer yet" in last:
            return chat("Selected: [0] [1]")
        if system.startswith("You are the judge"):
            return chat("Verdict: SAME")
        return chat(SUMMARY if system.startswith("You are the summarizer") else STANCE)


def test_a_text_and_its_citations_are_those_of_the_api_on_the_server_too(tmp_path: Path) -> None:
    writers = Writers()
    with openai_server(writers) as writers.server:
        options = madke.RunOptions(base_url=writers.server.url)
        asked = madke.ask(ASKED, task="text", model="openai/m", sources={"lakes": Lakes()}, options=options)
        with serving(tmp_path, writers, settings={"task": "text"}, sources={"lakes": Lakes()}) as server:
            messages: list[Any] = [{"role": "user", "content": ASKED}]
            body = server.client().chat.completions.create(model="madke", messages=messages).model_dump()
    transcript = asked.transcript
    assert transcript.answer == CHECKED
    assert transcript.agreement is not None
    assert (transcript.agreement.outcome, transcript.agreement.cited) == ("consensus", (0, 1))
    assert transcript.final.citations is not None
    assert (transcript.final.citations.removed, transcript.final.citations.restored) == ((2,), (0,))
    message = body["choices"][0]["message"]
    assert message["content"] == CHECKED, "marks stand in the text; none are added"
    spans = [each["url_citation"] for each in message["annotations"]]
    assert [CHECKED[each["start_index"] : each["end_index"]] for each in spans] == ["[0]", "[1]"]
    assert body["madke"]["agreement"]["cited"] == [0, 1]
