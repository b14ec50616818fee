"""Passages from Wikipedia dumps and from books."""

from madke.indexing.passages.build import build_passages

__all__ = ["build_passages"]
