"""Secrets that must turn up nowhere, whole commands that hold them, and every place where they could."""

import base64
import gzip
import html
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

NAMES = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "SERPER_API_KEY", "HF_TOKEN")

_START = """
import logging, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
for name in ("openai", "httpx2", "httpcore2", "aiohttp", "asyncio", "urllib3", "requests", "madke"):
    logging.getLogger(name).setLevel(logging.DEBUG)
logging.getLogger("matplotlib").setLevel(logging.INFO)  # ten thousand lines about fonts
{prelude}
from madke.cli.app import run_command_line
run_command_line()
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that is over."""

    status: int
    out: str
    err: str
    seen: str
    """What other people of the machine could see of it while it ran: arguments and names of its processes, threads."""


def run(*args: object, folder: Path, keys: Mapping[str, str], prelude: str = "") -> Ended:
    """Run a command with these keys, every logger at DEBUG, and home, cache and temporary folder below ``folder``.

    Args:
        args: Of ``madke``.
        folder: Holds everything the command can write to.
        keys: Environment variables.
        prelude: Python that runs before the command.
    """
    places = {name: folder / name.lower() for name in ("HOME", "TMPDIR", "MADKE_CACHE")}
    for place in places.values():
        place.mkdir(exist_ok=True)
    env = {**os.environ, **{name: str(place) for name, place in places.items()}, **keys}
    program = [sys.executable, "-c", _START.format(prelude=prelude), *map(str, args)]
    with subprocess.Popen(
        program, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        ended = threading.Event()
        titles: set[str] = set()

        def watch() -> None:
            while not ended.wait(0.05):
                titles.update(_titles(process.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
            ended.set()
            watching.join()
    assert titles, "nothing was seen of the process"
    return Ended(status=process.returncode, out=out, err=err, seen="\n".join(titles))


def _titles(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for place in (Path(f"/proc/{pid}"), *Path(f"/proc/{pid}/task").iterdir()):
            yield (place / "comm").read_text(errors="replace")
            yield (place / "cmdline").read_text(errors="replace")
            with suppress(OSError):
                for child in (place / "children").read_text().split():
                    yield from _titles(int(child))


def forms(key: str) -> dict[str, bytes]:
    """What a key may look like where somebody looks for it."""
    key = key.strip()
    found = {
        "plain": key,
        "reversed": key[::-1],
        "in a URL": quote(key, safe=""),
        "in a form": quote_plus(key),
        "in JSON": json.dumps(key)[1:-1],
        "in Python": repr(key)[1:-1],
        "in HTML": html.escape(key),
        "hexadecimal": key.encode().hex(),
        "its first half": key[: len(key) // 2],
        "its second half": key[len(key) // 2 :],
    }
    # Wherever it stands in what is encoded, the middle of it looks like one of three.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + key.encode())
        found[f"base64, {shift}"] = encoded[4 if shift else 0 : len(encoded) // 4 * 4 - 4].decode()
    return {what: form.encode() for what, form in found.items()}


def leaks(folder: Path, ended: Ended, keys: Mapping[str, str]) -> list[str]:
    """Where any key turns up: in what a command said or showed, and in every file below ``folder``."""
    places = [("stdout", ended.out.encode()), ("stderr", ended.err.encode()), ("its title", ended.seen.encode())]
    for path in sorted(folder.rglob("*")):
        places.append((f"the name of {path}", str(path.relative_to(folder)).encode()))
        if path.is_file():
            places += [(str(path.relative_to(folder)), content) for content in _contents(path)]
    wanted = {(name, what): form for name, key in keys.items() for what, form in forms(key).items()}
    return [
        f"{name} ({what}) in {where}"
        for where, content in places
        for (name, what), form in wanted.items()
        if form in content
    ]


def _contents(path: Path) -> Iterator[bytes]:
    """A file's bytes; and unpacked, what is packed in them."""
    content = path.read_bytes()
    yield content
    for block in re.findall(rb'<script type="application/gzip"[^>]*>([^<]*)<', content):
        yield gzip.decompress(base64.b64decode(block))
    if content.startswith(b"SQLite format 3"):
        db = sqlite3.connect(path)
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    yield cell if isinstance(cell, bytes) else str(cell).encode()
                    if isinstance(cell, bytes):
                        yield from _unpacked(cell)
        db.close()


def _unpacked(content: bytes) -> Iterator[bytes]:
    for bits in (zlib.MAX_WBITS, -zlib.MAX_WBITS, zlib.MAX_WBITS | 16):
        with suppress(zlib.error):
            yield zlib.decompress(content, bits)
