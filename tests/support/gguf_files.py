"""Small GGUF files, and a stand-in for the package ``xllamacpp`` that serves them."""

import struct
from pathlib import Path
from typing import Any

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
TOKENS = {"<|im_start|>": 3, "<|im_end|>": 3, "<think>": 4, "  ": 4, "lake": 1}
"""Token -> its type: 3 control, 4 user-defined, 1 normal."""
_SCALARS = {"I": 4, "i": 5, "f": 6, "?": 7}


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(content: Any) -> bytes:
    """A value with its type."""
    if isinstance(content, str):
        return struct.pack("<I", 8) + string(content)
    if isinstance(content, list) and isinstance(content[0], str):
        return struct.pack("<IIQ", 9, 8, len(content)) + b"".join(map(string, content))
    if isinstance(content, list):
        return struct.pack("<IIQ", 9, 5, len(content)) + struct.pack(f"<{len(content)}i", *content)
    form = "?" if isinstance(content, bool) else "f" if isinstance(content, float) else "I"
    return struct.pack(f"<I{form}", _SCALARS[form], content)


def gguf(*, context: int | None = 4_096, template: str | None = TEMPLATE, **more: Any) -> bytes:
    """The header of a file with these values; a value of None is left out."""
    entries = {
        "general.architecture": "llama",
        "general.some": [0, 1, 2],
        "general.flag": True,
        "llama.rope.freq_base": 10_000.0,
        "llama.context_length": context,
        "tokenizer.ggml.tokens": list(TOKENS),
        "tokenizer.ggml.token_type": list(TOKENS.values()),
        "tokenizer.ggml.merges": ["l a", "k e"],
        "tokenizer.chat_template": template,
        **more,
    }
    kept = {key: content for key, content in entries.items() if content is not None}
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(kept))
    return head + b"".join(string(key) + value(content) for key, content in kept.items())


def save_model(path: Path, **header: Any) -> Path:
    """A file that the stand-in serves. Ending with ``refuse`` or ``die``, it is not loaded."""
    path.write_bytes(gguf(**header))
    return path


def save_package(folder: Path, name: str, *files: Path) -> None:
    """An installed package that ships these files, and whose code fails when it is run."""
    package, info = folder / name.replace("-", "_"), folder / f"{name.replace('-', '_')}-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('the package was imported')\n")
    for file in files:
        (package / file.name).write_bytes(file.read_bytes())
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    listed = [f"{package.name}/{file.name},," for file in files]
    (info / "RECORD").write_text("\n".join([f"{package.name}/__init__.py,,", *listed]))


STAND_IN = '''
"""xllamacpp's CommonParams and Server, as far as madke uses them. A reply holds the settings and the request."""

import json, os, pathlib, signal, sys, threading
from http.server import ThreadingHTTPServer
from types import SimpleNamespace

from tests.support.loopback import QuietHandler


class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(model=SimpleNamespace())


class Server:
    def __init__(self, parameters):
        behaviour = pathlib.Path(parameters.model.path).read_bytes()[-6:]
        print("noise on standard output", flush=True)
        if behaviour == b"refuse":
            print("0.1 E llama_model_load: error loading model: tensor 'x' is not within the file", file=sys.stderr)
            raise RuntimeError("Failed to init server, please check the input params.")
        if behaviour.endswith(b"die"):
            os.kill(os.getpid(), signal.SIGABRT)
        settings = {
            "context": parameters.n_ctx, "slots": parameters.n_parallel,
            "hosts": parameters.hostnames,
            "spin": os.environ.get("GOMP_SPINCOUNT"), "pid": os.getpid(),
            "secrets": [name for name in os.environ if "KEY" in name or "TOKEN" in name],
        }

        class Handler(QuietHandler):
            def do_POST(self):
                body = json.loads(self.content())
                allowed = self.headers["Authorization"] in [f"Bearer {key}" for key in parameters.api_keys]
                if body["messages"][-1]["content"] == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                message = {"role": "assistant", "content": json.dumps({**settings, "sent": body})}
                reply = {
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
                }
                data = json.dumps(reply if allowed else {"error": {"message": "Invalid API Key"}}).encode()
                self.answer(200 if allowed else 401, {"Content-Type": "application/json"}, data)

        server = ThreadingHTTPServer((parameters.hostnames[0], parameters.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
'''


def save_stand_in(folder: Path) -> Path:
    """A folder for the path of Python that holds the stand-in."""
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(STAND_IN)
    return folder
