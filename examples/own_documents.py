"""Your own documents as a knowledge source: a folder of PDF, Word, HTML, Markdown and text files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import madke

MARKDOWN = """# Lake Baikal
Lake Baikal lies in Siberia. It is 1,642 metres deep. The Angara is the only river that leaves it.

# Lake Geneva
Lake Geneva lies between Switzerland and France. The Rhone flows through it.
"""

if __name__ == "__main__":
    with TemporaryDirectory() as place:
        folder = Path(place, "notes")
        folder.mkdir()
        (folder / "lakes.md").write_text(MARKDOWN, encoding="utf-8")
        (folder / "sea.txt").write_text("Five countries share the shore of the Caspian Sea.", encoding="utf-8")
        # The first use indexes the folder; the next one reads only what has changed.
        debate = madke.ask("How deep is Lake Baikal?", sources=str(folder), seed=1)
    for entry in debate.transcript.pool[:1]:
        print(f"[{entry.n}] {entry.source}: {entry.title}")
    print("answer:", debate.answer)
