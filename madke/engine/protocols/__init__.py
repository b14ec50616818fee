"""The functions of the protocols. The variants in ``prompts/`` are these, with values for their parameters.

A parameter of a function is a setting: its type, its default and its line in the docstring are all there is to it.
"""

from madke.engine.protocols.baselines import alone, best_of, self_reflect, vote
from madke.engine.protocols.judged import gated, lemmas, liang, madke
from madke.engine.protocols.voted import chateval, mad, moa, per_document, reconcile

__all__ = [
    "alone", "best_of", "chateval", "gated", "lemmas", "liang", "mad", "madke", "moa", "per_document", "reconcile",
    "self_reflect", "vote",
]  # fmt: skip
