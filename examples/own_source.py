"""A knowledge source of your own. Debaters choose from what it finds."""

from collections.abc import Sequence

import madke

DEPTHS = {
    "Baikal": "Lake Baikal in Siberia is 1,642 metres deep.",
    "Tanganyika": "Lake Tanganyika in East Africa is 1,470 metres deep.",
    "Geneva": "Lake Geneva is 310 metres deep.",
}


class Lakes:
    """A source has a name, a description that says what serves it, and a search."""

    name = "lakes"
    description = "three lakes in memory"

    def search(self, queries: Sequence[str], k: int) -> list[madke.Hits]:
        """The best ``k`` passages for each query. It may be a coroutine, too."""
        return [madke.Hits(passages=tuple(self.found(query))[:k]) for query in queries]

    def found(self, query: str) -> list[madke.Passage]:
        """Lakes that the query names."""
        named = [lake for lake in DEPTHS if lake.casefold() in query.casefold()]
        return [
            madke.Passage(source=self.name, key=lake, title=f"Lake {lake}", text=DEPTHS[lake], score=1.0, rank=rank)
            for rank, lake in enumerate(named)
        ]


if __name__ == "__main__":
    debate = madke.ask("How deep is Lake Baikal?", sources=[Lakes()], seed=1)
    for entry in debate.transcript.pool:
        print(f"[{entry.n}] {entry.source}: {entry.title}")
    print("answer:", debate.answer)
