"""The task ``text`` on the server: marks that its text has are told, and none are added. By ``run``: examples/."""

from pathlib import Path
from typing import Any

from madke.core.knowledge import Hits, Passage
from tests.serve.serving import Upstream, serving
from tests.support.openai_server import Reply, chat, openai_server

BAIKAL, TANGANYIKA = "Lake Baikal is 1,642 metres deep.", "Lake Tanganyika is 1,470 metres deep."
CITED = f"{BAIKAL[:-1]} [0]. {TANGANYIKA[:-1]} [1]."


class Lakes:
    name = "lakes"
    description = "two passages"

    def search(self, queries: list[str], k: int) -> list[Hits]:
        found = [
            Passage(source="lakes", key=text[:9], title="", text=text, score=1, rank=n)
            for n, text in enumerate((BAIKAL, TANGANYIKA), 1)
        ]
        return [Hits(passages=tuple(found))] * len(queries)


class Writers(Upstream):
    """Debaters who write texts and agree. The summarizer cites too much."""

    def __call__(self, body: dict[str, Any], n: int) -> Reply:
        system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "response_format" in body:
            return 400, {}, b'{"error": {"message": "response_format is not supported"}}'
        if "Do not answer yet" in last:
            return chat("Selected: [0] [1]")
        if system.startswith("You are the judge"):
            return chat("Verdict: SAME")
        return chat(f"{CITED} Zebras swim there [1]." if system.startswith("You are the summarizer") else CITED)


def test_a_text_has_its_checked_citations_as_annotations(tmp_path: Path) -> None:
    writers = Writers()
    with (
        openai_server(writers) as writers.server,
        serving(tmp_path, writers, settings={"task": "text"}, sources={"lakes": Lakes()}) as server,
    ):
        messages: list[Any] = [{"role": "user", "content": "How deep are the two deepest lakes?"}]
        body = server.client().chat.completions.create(model="madke", messages=messages).model_dump()
    message = body["choices"][0]["message"]
    assert message["content"] == f"{CITED} Zebras swim there."
    spans = [each["url_citation"] for each in message["annotations"]]
    assert [message["content"][each["start_index"] : each["end_index"]] for each in spans] == ["[0]", "[1]"]
    assert body["madke"]["agreement"]["cited"] == [0, 1]
