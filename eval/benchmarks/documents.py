"""A folder of documents as a source: 1,000 pages of PDF, one changed file of 200, and BM25 without Java."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
from html import escape
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from eval.benchmarks.indexes import built_bm25
from eval.benchmarks.measure import (
    Setting,
    best_of,
    curve,
    disk,
    duration,
    generated_corpus,
    in_own_process,
    queries_for,
    report,
    size,
    text_corpus,
)
from madke.indexing.corpus import read_corpus
from madke.indexing.documents.word_index import WordIndex
from madke.knowledge.index_sources import Bm25Source, DocumentSource

PAGES, QUICK_PAGES = 1_000, 20
FILES, QUICK_FILES = 200, 20
SIZES = (25_000, 50_000, 100_000)
QUICK = (500,)
QUERIES = 200
_WORDS_OF_A_PAGE = 400
_PASSAGES_OF_A_PAGE = _WORDS_OF_A_PAGE // 100


def main(setting: Setting) -> None:
    """Measure reading, refreshing and searching; the encoder has a benchmark of its own."""
    os.environ["MADKE_CACHE"] = str(setting.folder / "cache")
    _first_use(setting)
    _refresh(setting)
    _words(setting)


def _first_use(setting: Setting) -> None:
    count = QUICK_PAGES if setting.quick else PAGES
    folder = _pdf(setting, count)
    bare, _ = in_own_process(_read_bare, folder / "book.pdf")
    first, peak = in_own_process(_open, folder)
    again, _ = in_own_process(_open, folder)
    report(
        f"documents, {count:,} pages of PDF, first use",
        f"{first.cpu:.1f} s of CPU ({first.seconds:.1f} s), {size(peak)} here and {size(first.reader)} (RSS) in the "
        f"reader; {again.cpu:.1f} s ({again.seconds:.1f} s) the next time",
        f"{bare:.1f} s of CPU for the text alone, by pypdfium2 in this process",
        first.cpu / bare,
    )


class _Opened(NamedTuple):
    """What it took until a source could be searched."""

    cpu: float
    """Seconds of this process and the reader."""
    seconds: float
    reader: int
    """The most memory of the reader, in bytes."""


def _open(folder: Path) -> _Opened:
    logging.getLogger("madke").setLevel(logging.ERROR)
    before = _cpu()
    (seconds,) = best_of(1, lambda: DocumentSource(folder, name="docs", encoder="none").search(["lake"], 5))
    return _Opened(_cpu() - before, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _read_bare(path: Path) -> float:
    import pypdfium2

    before = _cpu()
    document = pypdfium2.PdfDocument(path)
    for number in range(len(document)):
        page = document[number]
        page.get_textpage().get_text_range()
        page.close()
    return _cpu() - before


def _pdf(setting: Setting, count: int) -> Path:
    """A folder with one PDF of so many full pages, made by LibreOffice."""
    texts = [passage.text for passage in read_corpus(generated_corpus(setting.folder, count * _PASSAGES_OF_A_PAGE))]
    pages = zip(*(islice(texts, start, None, _PASSAGES_OF_A_PAGE) for start in range(_PASSAGES_OF_A_PAGE)), strict=True)
    body = "".join(f'<p style="page-break-after: always">{escape(" ".join(page))}</p>' for page in pages)
    html = setting.folder / "book.html"
    html.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    folder = setting.folder / "pages"
    profile = f"-env:UserInstallation=file://{setting.folder}/office"
    to = ["--convert-to", "pdf:writer_web_pdf_Export", "--outdir", str(folder), str(html)]
    subprocess.run(["soffice", profile, "--headless", *to], check=True, capture_output=True)
    return folder


def _refresh(setting: Setting) -> None:
    count = QUICK_FILES if setting.quick else FILES
    folder = setting.folder / "files"
    folder.mkdir(exist_ok=True)
    pages = [passage.text for passage in read_corpus(generated_corpus(setting.folder, count))]
    for number, text in enumerate(pages):
        (folder / f"{number}.md").write_text(text, encoding="utf-8")
    first, _ = in_own_process(_open, folder)
    (folder / "0.md").write_text("Changed.", encoding="utf-8")
    changed, _ = in_own_process(_open, folder)
    report(
        f"documents, one changed of {count} files",
        f"{changed.cpu:.2f} s of CPU",
        f"{first.cpu:.2f} s for the first use",
        changed.cpu / first.cpu,
    )


def _words(setting: Setting) -> None:
    """Compare our BM25 with Lucene's: a build from the corpus file, and queries one at a time."""
    sizes = QUICK if setting.quick else SIZES
    builds, peaks, queries, disks = [], [], [], []
    for count in sizes:
        corpus = text_corpus(setting, count)
        (build, query, used), peak = in_own_process(_build_words, corpus)
        builds.append((count, build))
        peaks.append((count, peak))
        queries.append((count, query))
        disks.append((count, used))
    java = built_bm25(corpus)
    source = Bm25Source(java.folder, name="wiki")
    asked = queries_for(corpus, QUERIES)
    (java_query,) = best_of(2, lambda: [source.search([query], 10) for query in asked])
    report(
        f"BM25 without Java, {count:,} passages",
        f"{duration(builds[-1][1])} to build, {size(peaks[-1][1])}, {duration(queries[-1][1])} a query",
        f"{duration(java.seconds)}, {size(java.peak)} and {duration(java_query / len(asked))} with Lucene",
        builds[-1][1] / java.seconds,
    )
    curve(setting, "seconds of a build", builds, duration, extrapolated=False)
    curve(setting, "anonymous memory of a build", peaks, size, extrapolated=False)
    curve(setting, "time of a query, k = 10,", queries, duration, extrapolated=False)
    curve(setting, "disk", disks, size, extrapolated=False)


def _build_words(corpus: Path) -> tuple[float, float, int]:
    """Seconds of a build and of a query, and bytes on disk."""
    folder = corpus.with_name(f"words-{corpus.stem}")
    shutil.rmtree(folder, ignore_errors=True)

    def build() -> None:
        WordIndex.build(f"{passage.title}\n{passage.text}" for passage in read_corpus(corpus)).save(folder)

    (seconds,) = best_of(1, build)
    index = WordIndex.load(folder)
    asked = queries_for(corpus, QUERIES)
    (queries,) = best_of(2, lambda: [index.search(query, 10) for query in asked])
    return seconds, queries / len(asked), disk(folder)
