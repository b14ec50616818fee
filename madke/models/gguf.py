"""GGUF chat models: llama.cpp's own server in a process of its own, called through the client of every endpoint.

The server runs in its own process because ``xllamacpp`` blocks all Python threads while it loads a model, and because
a fault in native code would end the run. It gets no key of the environment, and ends with this process.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from madke._util.assets import require
from madke._util.terminal import environment_without_keys
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError, UserError
from madke.models import gguf_process
from madke.models.endpoint import Endpoint
from madke.models.openai_client import OpenAIChat
from madke.models.transformers_chat import ControlTokens, looks_like_markup

CONTEXT, _SMALLEST_CONTEXT = 8_192, 512
"""Tokens of prompt and reply of one call: by default, and at least."""
_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens in ``tokenizer.ggml.token_type``."""


class GGUFChat(OpenAIChat):
    """A chat model in a GGUF file, behind llama.cpp's server on this machine; for one event loop.

    All models of a file share one server. The server applies the file's chat template.

    Args:
        model: The path of a GGUF file, or the name of an installed package that ships one.
        start: Start the server now. False: for a model that will not be called.

    Raises:
        UserError: There is no such file, it cannot be loaded, it has no chat template, or ``xllamacpp`` is missing.
    """

    def __init__(self, model: str, *, start: bool = True) -> None:
        name = f"gguf/{model}"
        self._server: LlamaServer | None = None
        where = Endpoint(address="http://127.0.0.1/v1", limited_as=name, own=True)
        if start:
            require(f"{name} needs", "local", "xllamacpp", "gguf")
            file = find_file(model).resolve()
            trained, self._control = read_header(file)
            chosen = _number("MADKE_GGUF_CONTEXT", CONTEXT, least=_SMALLEST_CONTEXT)
            key = (os.getpid(), file, min(chosen, trained or CONTEXT), _number("MADKE_GGUF_SLOTS", 1, least=1))
            if key in _SERVERS and _SERVERS[key].why_ended():
                _SERVERS.pop(key).stop()
            if key not in _SERVERS:
                _SERVERS[key] = LlamaServer(*key[1:])
            self._server = _SERVERS[key]
            where = replace(where, address=f"{self._server.address}/v1", key=self._server.key)
        super().__init__(model, name=name, endpoint=where)

    async def complete(self, request: ChatRequest) -> Completion:
        """As :meth:`OpenAIChat.complete`; text in the messages cannot become a control token of the model."""
        messages = (replace(each, content=self._control.escape(each.content)) for each in request.messages)
        try:
            return await super().complete(replace(request, messages=tuple(messages)))
        except CallError:
            if self._server is not None and (why := self._server.why_ended()):
                raise CallError(f"{self.name}: {why}", retryable=False) from None
            raise


def _number(variable: str, default: int, *, least: int) -> int:
    """The number in a variable, or the default; UserError if it is set to anything but a number from ``least``."""
    text = os.environ.get(variable, "").strip()
    if text and not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise UserError(f"{variable} is {text!r}; expected a number from {least}")
    return int(text or default)


def find_file(name: str) -> Path:
    """The GGUF file of ``gguf/NAME``: NAME is a path, or an installed package that ships one. Runs no code of it."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    try:
        shipped = [Path(str(each.locate())) for each in distribution(name).files or () if each.suffix == ".gguf"]
    except (PackageNotFoundError, ValueError):
        raise UserError(
            f"gguf/{name}: expected the path of a GGUF file, or an installed package of this name"
        ) from None
    # Of a model in parts, llama.cpp opens the first and finds the others.
    models = sorted(each for each in shipped if "-of-" not in each.stem or "-00001-of-" in each.stem)
    if len(models) != 1:
        raise UserError(f"gguf/{name}: the package ships {len(models)} GGUF files; expected one, or gguf/PATH")
    return models[0]


def read_header(file: Path) -> tuple[int | None, ControlTokens]:
    """Tokens of the window that the model was trained with, if the file says it, and its control tokens.

    UserError if it is no GGUF file, a damaged one, or holds no model that is tuned for chat.
    """
    from gguf import GGUFReader

    try:
        fields = GGUFReader(file).fields
        values = {name: each.contents() for name, each in fields.items() if name.startswith(("general", "tokenizer"))}
        length = fields.get(f"{values.get('general.architecture')}.context_length")
        context = length and length.contents()
        tokens = zip(values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"], strict=True)
        control = [t for t, kind in tokens if kind == _CONTROL or (kind == _USER_DEFINED and looks_like_markup(t))]
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", file=file) from None
    except (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, AttributeError) as error:
        raise UserError(f"is no GGUF file, or damaged: {type(error).__name__}: {error}", file=file) from None
    if not isinstance(values.get("tokenizer.chat_template"), str):
        raise UserError("has no chat template; choose a model that is tuned for chat", file=file)
    return context if isinstance(context, int) and context > 0 else None, ControlTokens(control)


class LlamaServer:
    """A running server. UserError if it cannot load the file; the constructor waits until it has."""

    def __init__(self, file: Path, context: int, slots: int) -> None:
        self.key = secrets.token_urlsafe(32)
        settings = {"file": str(file), "key": self.key, "context": context, "slots": slots}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-P", gguf_process.__file__],
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
            env=environment_without_keys(),
            process_group=0,  # Ctrl-C is for this process: calls in flight are finished first
        )
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(settings).encode() + b"\n")
            self.process.stdin.flush()
            self.address = self.process.stdout.readline().decode(errors="replace").strip()
            if not self.address:
                self.process.wait()
                raise UserError(f"cannot be loaded: {self.why_ended()}", file=file)
        except BaseException:  # Ctrl-C, too
            self.stop()
            raise

    def stop(self) -> None:
        """End the server at once; it has nothing to save."""
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            with suppress(OSError):
                file.close()  # type: ignore[union-attr]

    def why_ended(self) -> str | None:
        """Why the server has ended; None while it runs."""
        if (status := self.process.poll()) is None:
            return None
        printed = ""
        if not self._errors.closed:
            self._errors.seek(0)
            printed = self._errors.read().decode(errors="replace")
        if match := re.search(r"error loading model: ([^\n]+)", printed):
            return match[1].strip()
        return f"its server ended with status {status}" + ("; is there enough memory?" if status == -9 else "")


_SERVERS: dict[tuple[int, Path, int, int], LlamaServer] = {}
"""By the process that started it, its file and its settings."""


@atexit.register
def stop_servers() -> None:
    """End all servers of this process; a forked one leaves those of its parent alone."""
    for key in [key for key in _SERVERS if key[0] == os.getpid()]:
        _SERVERS.pop(key).stop()
