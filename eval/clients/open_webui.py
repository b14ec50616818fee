"""Open WebUI in Chromium as a client of ``madke serve``: ``python -m eval.clients.open_webui FOLDER SCREENSHOT``.

Its environment is FOLDER/python-open-webui, about 4 GB, made at the first run with uv (pip takes an hour to choose the
versions). It runs offline: nothing is downloaded by itself. Asks one question in a new chat, checks that the rounds
are shown as reasoning and the passages as sources, and counts the debates: one for the message, none for the title,
the tags and the follow-up questions that Open WebUI asks for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from madke.runs.directory import read_transcripts

PATIENCE = 600
QUESTION = "Who chaired the committee that chose the contents of the Golden Record carried by Voyager 1?"
"""A sample question on which the debaters first disagree."""


def main() -> None:
    """Ask a question at Open WebUI and look at what it shows."""
    parser = argparse.ArgumentParser(prog="python -m eval.clients.open_webui", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder of the clients' environments")
    parser.add_argument("screenshot", type=Path, help="PNG file to write")
    asked = parser.parse_args()
    program = installed(asked.folder.absolute() / "python-open-webui")
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "served"
        # The offline reader cites, which a stand-in with random answers cannot.
        with server(out) as url, open_webui(program, Path(work), url) as page_url:
            reasoning, sources = ask(page_url, asked.screenshot)
        debates = [each for run in out.glob("madke-*") for each in read_transcripts(run)]
    print(f"debates: {len(debates)}, rounds as reasoning: {'Round 1' in reasoning}, sources: {sources}")
    sys.exit(len(debates) != 1 or "Round 1" not in reasoning or not sources)


@contextmanager
def server(out: Path) -> Iterator[str]:
    """The base URL of a server over the shipped sample."""
    command = [sys.executable, "-m", "madke", "serve", "--out", str(out), "--port", "0", "--protocols", "madke"]
    with subprocess.Popen([*command, "--sources", "wiki"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split(" at ")[1].strip()
        finally:
            process.terminate()


def installed(folder: Path) -> Path:
    """The program, after its environment is made."""
    program = folder / "bin" / "open-webui"
    if not program.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m"]
        subprocess.run([*pip, "pip", "install", "--quiet", "uv"], check=True)
        own = {**os.environ, "VIRTUAL_ENV": str(folder)}
        subprocess.run([*pip, "uv", "pip", "install", "open-webui"], check=True, env=own)
    return program


@contextmanager
def open_webui(program: Path, work: Path, url: str) -> Iterator[str]:
    """The address of Open WebUI, whose models are those of the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "DATA_DIR": str(work / "webui"),
        "WEBUI_AUTH": "False",
        "WEBUI_SECRET_KEY": "0" * 32,
        "OPENAI_API_BASE_URL": url,
        "OPENAI_API_KEY": "none",
        "ENABLE_OLLAMA_API": "False",
        "OFFLINE_MODE": "True",
        "HF_HUB_OFFLINE": "1",
        "RAG_EMBEDDING_ENGINE": "openai",  # its own would be downloaded
        "ENABLE_VERSION_UPDATE_CHECK": "False",
        "ANONYMIZED_TELEMETRY": "False",
    }
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(program), "serve", "--host", "127.0.0.1", "--port", str(port)]
    (work / "webui").mkdir()
    with (work / "webui.log").open("w") as log:
        running = subprocess.Popen(command, env={**inherited, **settings}, cwd=work, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/health", running)
            yield address
        except BaseException:
            print((work / "webui.log").read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            running.terminate()
            running.wait()


def wait_for(address: str, running: subprocess.Popen[bytes]) -> None:
    """Wait until the address answers."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and running.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise TimeoutError(address)


def ask(address: str, screenshot: Path) -> tuple[str, int]:
    """Ask in a new chat; returns the reasoning that is shown, and the number of sources."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(f"{address}/?models=madke")
        page.locator("#chat-input").wait_for()
        page.keyboard.press("Escape")  # what is new
        page.locator("#chat-input").click()
        page.keyboard.type(QUESTION)
        page.keyboard.press("Enter")
        thoughts = page.get_by_text("Thought for").first
        thoughts.wait_for()
        thoughts.click()
        page.wait_for_timeout(8000)  # title, tags and follow-up questions
        shown = page.locator("body").inner_text()
        page.set_viewport_size({"width": 1000, "height": 1400})
        page.wait_for_timeout(1000)
        page.screenshot(path=screenshot)
        sources = page.locator("[id^=source], [aria-label*=ource]").count()
        browser.close()
    return shown, sources


if __name__ == "__main__":
    main()
