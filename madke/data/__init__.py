"""Dataset readers: files in, questions out."""

from madke.data.questions import read_questions

__all__ = ["read_questions"]
