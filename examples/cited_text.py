"""A text whose sentences cite: the summarizer's citations are those of the debaters, checked by code."""

import madke

PASSAGES = {
    "Baikal": "Lake Baikal in Siberia is 1,642 metres deep.",
    "Tanganyika": "Lake Tanganyika in Africa is 1,470 metres deep.",
    "Zebra": "Zebras live in herds.",
}


class Lakes:
    """A source of three passages."""

    name = "lakes"
    description = "three passages"

    def search(self, queries: list[str], k: int) -> list[madke.Hits]:
        """The same passages for each query."""
        found = [
            madke.Passage(source=self.name, key=title, title=title, text=text, score=1.0, rank=rank)
            for rank, (title, text) in enumerate(PASSAGES.items(), start=1)
        ]
        return [madke.Hits(passages=tuple(found)) for _ in queries]


def writer(messages: list[dict[str, str]]) -> str:
    """A model that cites too much when it sums up."""
    last = messages[-1]["content"]
    if "Do not answer yet" in last:
        return "Selected: [0] [1]"
    if "Verdict:" in last:
        return "Verdict: SAME"
    if "Merge the texts" in last:
        return "Lake Baikal is 1,642 metres deep. Lake Tanganyika is 1,470 metres deep [1]. Zebras swim there [2]."
    return "Lake Baikal is 1,642 metres deep [0]. Lake Tanganyika is 1,470 metres deep [1]."


if __name__ == "__main__":
    question = madke.Question(question="How deep are the two deepest lakes?", task="text")
    run = madke.run([question], model=writer, sources={"lakes": Lakes()})
    (transcript,) = run.transcripts()
    assert transcript.agreement
    assert transcript.final.citations
    print(transcript.answer)
    print("cited:", transcript.agreement.cited)
    print("removed:", transcript.final.citations.removed, "restored:", transcript.final.citations.restored)
