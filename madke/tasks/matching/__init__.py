"""The matcher of short answers: whether two name the same thing, and whether an answer states a gold.

From text to words (``words``, ``numbers``, ``dates``), from words to what an answer names (``lists``, ``places``,
``names``, ``reading``), and from there to the two questions asked of it (``reading.same``, ``stated.accepts``). The
rules were made on one half of EVOUNA's human judgements and measured on the other: ``eval/matcher.md``.
"""

from madke.tasks.matching.reading import same
from madke.tasks.matching.stated import accepts

__all__ = ["accepts", "same"]
