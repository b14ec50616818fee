"""Ask the same 20 questions through real clients of ``madke serve``, and through ``madke run``.

``python -m eval.clients FOLDER [NAME ...]``. Each client has an environment of its own below FOLDER, made from the
public registries (Python's venv, npm) at the first run, and a server of its own with an empty ``--out``. All servers
use the same endpoint on loopback; see :mod:`eval.clients.endpoint`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

import madke
from eval.clients.endpoint import Endpoint, endpoint
from madke._util.terminal import console

HERE = Path(__file__).parent
QUESTIONS = [f"Which lake did survey {number} of 2019 call the deepest?" for number in range(1, 21)]
PATIENCE = 600


@dataclass(frozen=True, kw_only=True)
class Client:
    """A program that asks all questions.

    It gets the server's base URL and a JSON file of the questions. Its last line is question -> answer as JSON.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    """The first one names the environment; npm's if the script is for Node."""

    def command(self, folder: Path) -> list[str]:
        """How to run it, after its environment is made."""
        kind = "node" if self.script.endswith(".mjs") else "python"
        kind = "node" if self.script.endswith(".mjs") else "python"
        own = folder / f"{kind}-{self.packages[0].partition('[')[0].partition('=')[0].replace('/', '-')}"
        if not (own / "installed").exists():
            if kind == "node":
                own.mkdir(parents=True, exist_ok=True)
                (own / "package.json").write_text('{"type": "module"}')
                subprocess.run(["npm", "install", "--no-audit", "--no-fund", *self.packages], cwd=own, check=True)
            else:
                venv.create(own, with_pip=True)
                subprocess.run([own / "bin" / "pip", "install", "--quiet", *self.packages], check=True)
            (own / "installed").touch()
        if kind == "python":
            return [str(own / "bin" / "python"), str(HERE / self.script)]
        (own / self.script).write_text((HERE / self.script).read_text())  # Node looks for packages next to it
        return ["node", str(own / self.script)]


CLIENTS = (
    Client(name="openai (Python)", script="openai_client.py", packages=("openai",)),
    Client(name="openai (Python), streaming", script="openai_stream.py", packages=("openai",)),
    Client(name="openai (npm)", script="openai_node.mjs", packages=("openai",)),
    Client(name="@ai-sdk/openai-compatible", script="ai_sdk.mjs", packages=("@ai-sdk/openai-compatible", "ai")),
    Client(name="litellm", script="litellm_client.py", packages=("litellm",)),
    Client(name="lm-eval", script="lm_eval_client.py", packages=("lm-eval[api]",)),
    Client(name="Inspect", script="inspect_client.py", packages=("inspect-ai", "openai")),
    Client(name="verifiers", script="verifiers_client.py", packages=("verifiers==0.4.0", "uv")),
)


def main() -> None:
    """Run all clients, or the named ones; exit with 1 if one of them got another answer or made another call."""
    parser = argparse.ArgumentParser(prog="python -m eval.clients", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder of the clients' environments")
    parser.add_argument("names", nargs="*", help=f"{', '.join(client.name for client in CLIENTS)}; all by default")
    asked = parser.parse_args()
    table = Table("client", "same answers", "same calls", "seconds")
    wrong = False
    with endpoint() as upstream, tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        os.environ["OPENAI_API_KEY"] = "none"
        options = madke.RunOptions(base_url=upstream.url)
        run = madke.run(QUESTIONS, model="openai/m", sources="none", out=work / "run", options=options)
        expected = {transcript.question: transcript.answer for transcript in run.transcripts()}
        calls = _calls(upstream)
        (work / "questions.json").write_text(json.dumps(QUESTIONS))
        for client in CLIENTS:
            if asked.names and client.name not in asked.names:
                continue
            command = client.command(asked.folder.absolute())
            with server(work / client.name.replace("/", "-"), upstream) as url:
                began = time.monotonic()
                answers = _answers([*command, url, str(work / "questions.json")])
            same = sum(answers.get(question) == answer for question, answer in expected.items())
            own = _calls(upstream)
            table.add_row(client.name, f"{same} of 20", str(own == calls), f"{time.monotonic() - began:.0f}")
            wrong |= same != len(QUESTIONS) or own != calls
    console().print(table)
    sys.exit(wrong)


def _calls(upstream: Endpoint) -> list[str]:
    """The calls since the last time, without whether they were streamed."""
    made, upstream.calls = upstream.calls, []
    bodies = [json.loads(call) for call in made]
    kept = ("messages", "seed", "temperature", "max_tokens", "model")
    return sorted(json.dumps({name: body.get(name) for name in kept}) for body in bodies)


def _answers(command: list[str]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, env=own)
    answers: dict[str, str] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    return answers


@contextmanager
def server(out: Path, upstream: Endpoint | None, sources: str = "none") -> Iterator[str]:
    """The base URL of a server that runs as long as the block. Without an endpoint, the offline reader answers."""
    command = [sys.executable, "-m", "madke", "serve", "--out", str(out), "--port", "0", "--protocols", "madke"]
    command += ["--sources", sources]
    command += ["-m", "openai/m", "--base-url", upstream.url] if upstream is not None else []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split(" at ")[1].strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
