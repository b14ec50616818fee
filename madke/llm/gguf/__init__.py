"""GGUF models: llama.cpp's own server in a process of its own, asked through the client of every endpoint."""

from madke.llm.gguf.chat import GGUFChat

__all__ = ["GGUFChat"]
