"""The embedded reader without its encoder: texts are compared by their words."""

from __future__ import annotations

from pathlib import Path

import pytest

import madke
from madke.models.offline import OfflineChat
from madke.models.offline.reader import WordVectors
from madke.retrieval.documents import DocumentSource


def test_texts_are_close_by_the_words_and_word_parts_that_they_share() -> None:
    vectors = WordVectors().encode_queries(
        ["Where do kestrels nest?", "A kestrel nests on ledges.", "The treaty was signed in 1919.", ""]
    )
    near = (vectors @ vectors.T)[0]
    assert near[0] == pytest.approx(1)
    assert near[1] > 0.3 > near[2]
    assert not vectors[3].any()


def test_the_core_alone_debates_the_sample_and_own_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.models.offline.find_spec", lambda package: None)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "notes.txt").write_text("The kestrel nests on ledges of high cliffs. It hovers over fields.")
    (folder / "more.md").write_text("# Owls\n\nThe barn owl nests in old barns.\n")
    model = OfflineChat()
    assert model.name == "offline/words-2"
    source = DocumentSource(folder, name="docs", encoder="none")
    asked = madke.ask("Where does the kestrel nest?", model=model, sources=source)
    assert asked.transcript.pool[0].title.startswith("notes.txt")
    assert "ledges" in asked.transcript.answer
