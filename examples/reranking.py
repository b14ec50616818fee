"""A reranked pool file: the passages of a question before and after, and a debate over the best one."""

from pathlib import Path
from tempfile import mkdtemp

import madke

QUESTION = madke.Question(id="baikal", question="How deep is Lake Baikal?", answers=("1,642 metres",))

# A search that finds the right page but the wrong passage first.
RESULTS = """\
{"query": "How deep is Lake Baikal?", "results": [
{"title": "Trains", "snippet": "A railway runs along the south shore of the lake.", "link": "https://lakes.example/train"},
{"title": "Lake Geneva", "snippet": "Lake Geneva is 310 metres deep.", "link": "https://lakes.example/geneva"},
{"title": "Lake Baikal", "snippet": "Lake Baikal is 1,642 metres deep.", "link": "https://lakes.example/baikal"}]}
"""

if __name__ == "__main__":
    folder = Path(mkdtemp())
    (folder / "web.jsonl").write_text(RESULTS.replace("\n", "") + "\n")
    pools, rerank = folder / "pools.jsonl", {"model": "llm", "from": 3, "keep": 1}
    # "llm" is one call of the model, which orders all passages. The file keeps the order, so runs make no such call.
    madke.build_pools([QUESTION], pools, sources=f"web={folder / 'web.jsonl'}", rerank=rerank, model="offline")
    run = madke.run([QUESTION], sources="web", pools=pools, settings={"rerank": rerank}, seed=1)
    (transcript,) = run.transcripts()
    for entry in transcript.pool:
        print(f"[{entry.n}] {entry.title}, number {entry.before} before reranking")
    print("calls:", {stage: used.calls for stage, used in transcript.usage.items() if stage == "rerank"})
    print("answer:", transcript.answer)
