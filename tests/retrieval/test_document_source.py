"""A folder of documents as a source: what it finds and tells, and what is read again."""

import os
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.retrieval.documents import DocumentSource
from madke.retrieval.named import open_source
from tests.support import documents
from tests.support.corpus import WordEncoder


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "birds"
    (folder / "more").mkdir(parents=True)
    pages = ["A cover.", "Kestrels nest on ledges.", "They hover over fields."]
    (folder / "kestrel.pdf").write_bytes(documents.pdf(pages))
    (folder / "more" / "heron.md").write_text("# Food\nHerons eat fish.\n\n# Nests\nHerons nest in trees.\n")
    (folder / "sparrow.docx").write_bytes(documents.docx(["# Dust", "Sparrows bathe in dust."]))
    return folder


def titles(source: Any, query: str, k: int = 1) -> list[str]:
    (hits,) = source.search([query], k)
    assert hits.error is None
    return [passage.title for passage in hits.passages]


def opened(folder: Path, encoder: Any = "none") -> DocumentSource:
    return DocumentSource(folder, name="birds", encoder=encoder)


def test_passages_say_where_they_are_from(folder: Path) -> None:
    source = opened(folder)
    assert titles(source, "Where do kestrels nest?") == ["kestrel.pdf, p. 2"]
    assert titles(source, "What do herons eat?") == ["more/heron.md: Food"]
    assert titles(source, "Who bathes in dust?") == ["sparrow.docx: Dust"]
    (hits,) = source.search(["nest"], 5)
    assert [(p.source, p.key, p.rank, p.url) for p in hits.passages] == [
        ("birds", "more/heron.md#2", 0, None),
        ("birds", "kestrel.pdf#2", 1, None),
    ]
    assert source.description.startswith("BM25 over 6 passages (files: 3, PDF pages: 3; ")


def test_with_an_encoder_the_search_is_hybrid(folder: Path) -> None:
    source = opened(folder, WordEncoder())
    assert source.description.startswith("weighted sum of BM25 and words vectors over 6 passages (files: 3, PDF pages")
    assert titles(source, "Herons nest in trees.") == ["more/heron.md: Nests"]
    (hits,) = source.search(["nest"], 6)
    assert len(hits.passages) == 6  # vectors rank also the passages without the word


def test_every_file_that_is_left_out_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "locked.pdf").write_bytes(documents.locked_pdf())
    (folder / "photo.jpeg").write_bytes(b"\xff\xd8")
    (folder / "half.pdf").write_bytes(documents.pdf(["Text.", None]))
    (folder / "passwords.txt").symlink_to("/etc/passwd")
    (folder / "elsewhere").symlink_to("/etc")
    os.mkfifo(folder / "pipe.txt")
    (folder / ".git").mkdir()
    (folder / ".git" / "notes.txt").write_text("Hidden.")
    (folder / "~$sparrow.docx").write_bytes(b"\x08owner")
    source = opened(folder)
    assert [record.getMessage() for record in caplog.records if "left out" in record.getMessage()] == [
        "birds: left out elsewhere: a symbolic link",
        "birds: left out half.pdf: 1 of 2 pages are images without text (scans need text recognition, OCR)",
        "birds: left out locked.pdf: encrypted: it opens only with a password",
        "birds: left out passwords.txt: a symbolic link",
        "birds: left out photo.jpeg: unknown type .jpeg",
        "birds: left out pipe.txt: not a regular file",
    ]
    assert "over 7 passages (files: 4, PDF pages: 5; " in source.description
    caplog.clear()
    opened(folder)
    assert len(caplog.records) == 6  # again, and nothing else: no document was read


def test_a_changed_file_is_read_again_alone(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = WordEncoder()
    first = opened(folder, encoder)
    assert sum(map(len, encoder.passage_calls)) == 6
    encoder.passage_calls.clear()
    os.utime(folder / "kestrel.pdf", ns=(1, 1))
    (folder / "more" / "heron.md").write_text("# Food\nHerons eat frogs.\n")
    second = opened(folder, encoder)
    assert encoder.passage_calls == [["Herons eat frogs."]]
    assert "reading 2 new or changed of 3 documents" in caplog.text
    assert first.fingerprint != second.fingerprint
    # The source that was open before has its own snapshot.
    for source, text in ((first, "Herons eat fish."), (second, "Herons eat frogs.")):
        assert source.search(["What do herons eat?"], 1)[0].passages[0].text == text


def test_a_deleted_file_is_forgotten_until_it_is_back(folder: Path) -> None:
    before = opened(folder).fingerprint
    content = (folder / "sparrow.docx").read_bytes()
    (folder / "sparrow.docx").unlink()
    gone = opened(folder)
    assert "Dust" not in " ".join(titles(gone, "dust", 9))
    assert gone.fingerprint != before
    (folder / "sparrow.docx").write_bytes(content)
    assert opened(folder).fingerprint == before


def test_the_vectors_of_an_interrupted_refresh_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.retrieval.documents._BATCH_PASSAGES", 2)
    with pytest.raises(RuntimeError, match="power cut"):
        opened(folder, WordEncoder(raise_at=2))
    rest = WordEncoder()
    source = opened(folder, rest)
    assert list(map(len, rest.passage_calls)) == [1]
    assert titles(source, "Sparrows bathe in dust.") == ["sparrow.docx: Dust"]


def test_a_folder_without_documents_is_refused(tmp_path: Path) -> None:
    expected = "expected PDF, DOCX, XLSX, PPTX, HTML, Markdown or text files with text"
    with pytest.raises(UserError, match=f"this folder holds no readable document; {expected}"):
        opened(tmp_path)
    (tmp_path / "passages.json").write_text("{}")
    with pytest.raises(UserError, match="this folder holds passages; first run `madke index build`"):
        opened(tmp_path)


def test_a_sources_file_not_named_reads_no_documents_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = folder.parent / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "link").symlink_to(folder)
    for place in (folder, "../birds", "link"):
        for entry in (f"{{hybrid: [google, {place}]}}", f"{{documents: {place}}}"):
            (work / "sources.yaml").write_text(f"wiki: {entry}\n")
            with pytest.raises(UserError, match=r"reads documents outside of this folder .* only in a file that"):
                open_source("wiki")
    (work / "sources.yaml").write_text("wiki: {documents: link, encoder: none}\n")
    monkeypatch.setenv("MADKE_SOURCES", str(work / "sources.yaml"))
    assert "files: 3, " in open_source("wiki").description
