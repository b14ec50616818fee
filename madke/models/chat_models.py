"""Open a chat model by its name (command line, variant files), from the user's own object, or for a person."""

import asyncio
import inspect
import shutil
import signal
import time
from textwrap import fill
from typing import Any

from madke._util.concurrency import DaemonThreads, in_thread
from madke._util.terminal import printable, say
from madke.core.chat import ChatModel, ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError, nearest, unknown
from madke.core.registry import Registry, qualified_name
from madke.models.endpoint import ModelEntries, read_models
from madke.models.gguf import GGUFChat
from madke.models.model_names import MODEL_KINDS, forms_with_endpoint, kind_of, names_code, split_address
from madke.models.offline import OfflineChat
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.openai_wire import RETRYABLE
from madke.models.prices import estimated_usage
from madke.models.scripted import ScriptedChat
from madke.models.transformers_chat import HFChat

_OWN: Registry[Any] = Registry("model", {})

_MAX_THREADS = 256


def open_model(
    name: str, *, base_url: str | None = None, replay: bool = False, models: ModelEntries | None = None
) -> ChatModel:
    """Open a model by its name; close it with :func:`close`. Weights of ``hf/`` and ``gguf/`` models are loaded.

    No server of others is called.
    The model raises :class:`madke.core.errors.CallError` for a failed attempt: call it through a ``CallPipeline``.

    Args:
        name: A form of :data:`MODEL_KINDS`, or ``openai/NAME@URL``; else an entry of ``models.yaml``, or
            ``module:object``, see :func:`as_chat_model`.
        base_url: Address for ``openai/`` models (default: ``OPENAI_BASE_URL``, else OpenAI's address) and ``azure/``
            models (default: ``AZURE_OPENAI_ENDPOINT``) whose name has no URL.
        replay: The model will not be called: it needs no key, and no weights are loaded.
        models: The entries of ``models.yaml``. Default: those of :func:`madke.models.endpoint.read_models`.

    Raises:
        UserError: No such model, a missing key or endpoint, a bad script file, or weights that cannot be loaded.
    """
    kind = kind_of(name)
    if kind not in MODEL_KINDS:
        return _open_declared(name, base_url, replay, models or read_models())
    plain, address = split_address(name)
    rest = plain.partition("/")[2]
    form = MODEL_KINDS[kind].form
    if bool(rest) != ("/" in form) or (address is not None and kind != "openai"):
        at = "; AZURE_OPENAI_ENDPOINT or --base-url has the address" if kind == "azure" and address else ""
        raise UserError(f"model {name!r}: expected {form}{at}")
    if base_url is not None and not MODEL_KINDS[kind].has_endpoint:
        raise UserError(f"model {name!r} has no endpoint; only {forms_with_endpoint('and')} take a base URL")
    match kind:
        case "openai":
            return OpenAIChat(rest, base_url=base_url, at=address, needs_key=not replay)
        case "azure":
            return AzureChat(rest, endpoint=base_url, needs_key=not replay)
        case "gguf":
            return GGUFChat(rest, start=not replay)
        case "hf":
            model = HFChat(rest)
            if not replay:
                model.load()
            return model
        case "scripted":
            return ScriptedChat.from_file(rest)
        case "human":
            return HumanChat()
    return OfflineChat()


def _open_declared(name: str, base_url: str | None, replay: bool, models: ModelEntries) -> ChatModel:
    """Open a model of ``models.yaml``, or of the user's own module."""
    entry = models.entry(name)
    if entry is not None and entry.python is None:
        served = entry.model or name
        return OpenAIChat(served, base_url=base_url, name=name, entry=entry, named=models.named, needs_key=not replay)
    code = (entry and entry.python) or name
    if names_code(code):
        return as_chat_model(_OWN[code], name)
    known = [*MODEL_KINDS, *models.entries]
    if "/" not in name and nearest(name, known) is None:
        raise UserError(f"unknown model {name!r}; did you mean openai/{name}? known: {', '.join(sorted(known))}")
    raise unknown("model", kind_of(name), known)


def as_chat_model(model: Any, name: str | None = None) -> ChatModel:
    """Make a ChatModel from your own object. An exception that it raises is a failed call; the batch goes on.

    Args:
        model: A ChatModel; its class; or a function from chat messages (a list of ``{"role", "content"}``) to the text
            of the reply, sync (run in a thread) or async. The text may have a ``usage``
            (:class:`madke.core.chat.Usage`), as those of :mod:`madke.adapters` do. None is an empty reply. A
            call is repeated if it raises an OSError, or an exception with a retryable ``status_code``.
        name: Identifies its calls in the call store. Default: its own ``name``, else ``module:qualified name``.

    Raises:
        UserError: The object is not a model.
    """
    if inspect.isclass(model):
        model = model()
    if hasattr(model, "complete"):
        own = getattr(model, "name", None)
        if not isinstance(own, str) or not own:
            raise UserError(f"the model {qualified_name(model)} has no name; expected a string that identifies it")
        if not inspect.iscoroutinefunction(model.complete):
            raise UserError(f"the model {own}: complete(request) must be asynchronous (async def)")
        return OwnModel(model, name or own)
    if callable(model):
        return OwnModel(model, name or qualified_name(model))
    raise UserError(f"{name or model!r} is not a model; expected name and complete, or a function of messages")


class OwnModel:
    """The user's own object with ``complete``, or function, as a ChatModel; see :func:`as_chat_model`."""

    def __init__(self, own: Any, name: str) -> None:
        self.name = name
        self._own = own
        self.is_function = not hasattr(own, "complete")
        """It gets the messages alone."""
        call = getattr(own, "__call__", None)  # noqa: B004 - an object whose __call__ is asynchronous
        self._is_async = inspect.iscoroutinefunction(own) or inspect.iscoroutinefunction(call)
        # The loop's default pool has a few threads per CPU; these threads mostly wait for the network.
        self._threads = DaemonThreads(_MAX_THREADS)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(self._own, attribute)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnModel) and other._own is self._own and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    async def complete(self, request: ChatRequest) -> Completion:
        """Call the object; CallError if it raises or returns no reply."""
        started = time.monotonic()
        try:
            reply = await self._call(request)
        except (CallError, UserError):
            raise
        except Exception as error:
            status = getattr(error, "status_code", None)
            passing = isinstance(error, OSError) or (isinstance(status, int) and (status in RETRYABLE or status >= 500))
            reason = " ".join(f"{self.name}: {type(error).__name__}: {error}".split())
            raise CallError(reason, retryable=passing) from error
        if isinstance(reply, Completion):
            return reply
        if not self.is_function or not isinstance(reply, str | None):
            expected = "a text" if self.is_function else "a Completion"
            raise CallError(f"{self.name} returned {type(reply).__name__}, expected {expected}", retryable=False)
        text = str(reply or "")
        counted = getattr(reply, "usage", None)
        usage = counted if isinstance(counted, Usage) else estimated_usage(request.messages, text)
        return Completion(text=text, usage=usage, seconds=time.monotonic() - started)

    async def _call(self, request: ChatRequest) -> Any:
        if not self.is_function:
            return await self._own.complete(request)
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        if self._is_async:
            return await self._own(messages)
        reply = await asyncio.get_running_loop().run_in_executor(self._threads, self._in_its_thread, messages)
        return await reply if inspect.isawaitable(reply) else reply

    def _in_its_thread(self, messages: list[dict[str, str]]) -> Any:
        try:
            return self._own(messages)
        except StopIteration as error:  # a future cannot hold one: its caller would wait forever
            raise CallError(f"{self.name}: {type(error).__name__}: {error}".rstrip(": "), retryable=False) from error

    async def aclose(self) -> None:
        """Close the object if it has ``aclose``. No end waits for the threads of calls."""
        if hasattr(self._own, "aclose"):
            await self._own.aclose()


ASK_REPLY = "Your reply (an empty line ends it, Ctrl-D leaves): "

_MIN_WIDTH = 40


class HumanChat:
    """A person who reads each prompt on stderr and types the whole reply, one request at a time.

    Ctrl-D ends the command as Ctrl-C does; the same command goes on.
    """

    name = "human"

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def complete(self, request: ChatRequest) -> Completion:
        """Show the request to the person and wait for the reply."""
        async with self._turn:
            started = time.monotonic()
            try:
                # The loop's own threads are joined at exit, so Ctrl-C would wait for Enter.
                text = await asyncio.wrap_future(in_thread(lambda: _human_reply(request)))
            except EOFError:
                signal.raise_signal(signal.SIGINT)  # without effect in a background job of a script, which ignores it
                raise asyncio.CancelledError from None
        return Completion(text=text, seconds=time.monotonic() - started)


def _human_reply(request: ChatRequest) -> str:
    purpose = request.purpose
    _show(f"\n--- {purpose.agent}, round {purpose.round}: {purpose.stage} ---")
    for message in request.messages:
        _show(f"You said: {message.content}" if message.role == "assistant" else message.content)
    lines: list[str] = []
    while True:
        say("" if lines else ASK_REPLY, err=True, end="")
        try:
            line = input().strip()
        except EOFError:
            say("", err=True)
            raise
        if line:
            lines.append(line)
        elif lines:
            return "\n".join(lines)
        else:
            _show("Type at least one line.")


def _show(text: str) -> None:
    width = max(_MIN_WIDTH, shutil.get_terminal_size().columns - 1)
    say("\n".join(fill(line, width) for line in printable(text).splitlines()), err=True)


async def close(model: ChatModel) -> None:
    """Close a model's connections and threads, in the event loop that used it."""
    if hasattr(model, "aclose"):
        await model.aclose()
