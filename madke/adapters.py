"""The completion functions of :mod:`madke.lemmas.adapters`, at the path that they have in the package lemmas."""

from madke.lemmas.adapters import AsyncCompleteFn, ChatMessages, CompleteFn, Reply, anthropic_complete, openai_complete

__all__ = ["AsyncCompleteFn", "ChatMessages", "CompleteFn", "Reply", "anthropic_complete", "openai_complete"]
