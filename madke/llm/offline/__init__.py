"""The embedded model ``offline``: an extractive reader that behaves like a chat model."""

from madke.llm.offline.chat import OfflineChat

__all__ = ["OfflineChat"]
