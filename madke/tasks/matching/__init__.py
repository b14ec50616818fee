"""The matcher of short answers: whether two name the same thing, and whether an answer states a gold.

From text to words and dates (``words``, ``dates``), from those to what an answer names (``names``, ``phrases``), and to
the two questions (``same``, ``stated``). ``eval/matcher.md`` measures both against EVOUNA's human judgements.
"""

from madke.tasks.matching.same import same
from madke.tasks.matching.stated import accepts

__all__ = ["accepts", "same"]
