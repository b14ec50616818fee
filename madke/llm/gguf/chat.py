"""GGUF chat models, as a ChatModel."""

from dataclasses import replace
from typing import Any

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError
from madke.endpoints.endpoint import Endpoint
from madke.endpoints.openai_client import OpenAIChat
from madke.llm.control_tokens import ControlTokens
from madke.llm.gguf.file import find_file, read_header
from madke.llm.gguf.server import CONTEXT, LlamaServer, ServerSettings, shared_server

_NOT_STARTED = "http://127.0.0.1/v1"


class GGUFChat(OpenAIChat):
    """A chat model in a GGUF file, behind llama.cpp's server on this machine; for one event loop.

    All models of a file share one server, which ends with this process. The server applies the file's chat template.

    Args:
        model: The path of a GGUF file, or the name of an installed package that ships one.
        start: Start the server now. False: for a model that will not be called.
        **options: ``timeout`` and ``transport``, as for :class:`OpenAIChat`.

    Raises:
        UserError: There is no such file, it cannot be loaded, it has no chat template, or ``xllamacpp`` is missing.
    """

    def __init__(self, model: str, *, start: bool = True, **options: Any) -> None:
        name = f"gguf/{model}"
        self._server: LlamaServer | None = None
        self._control = ControlTokens(())
        if start:
            file, settings = find_file(model), ServerSettings.from_environment()
            header = read_header(file)
            settings = replace(settings, context=min(settings.context, header.context or CONTEXT))
            self._server = shared_server(file, name, settings)
            self._control = ControlTokens(header.control_tokens)
        address, key = (self._server.address, self._server.key) if self._server else (_NOT_STARTED, None)
        super().__init__(
            model, name=name, endpoint=Endpoint(address=address, limited_as=name, key=key, own=True), **options
        )

    async def complete(self, request: ChatRequest) -> Completion:
        """As :meth:`OpenAIChat.complete`; text in the messages cannot become a control token of the model."""
        messages = (replace(each, content=self._control.escaped(each.content)) for each in request.messages)
        try:
            return await super().complete(replace(request, messages=tuple(messages)))
        except CallError:
            if self._server is not None and (why := self._server.why_ended()):
                raise CallError(f"{self.name}: {why}", retryable=False) from None
            raise
