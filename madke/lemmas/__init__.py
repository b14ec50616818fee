"""The ``debate`` call of the package ``lemmas`` 0.4.0 on madke's engine: another import, the same results."""

from madke.lemmas.drop_in import DebateResult, DebateRound, adebate, debate
from madke.lemmas.functions import Tracer

__all__ = ["DebateResult", "DebateRound", "Tracer", "adebate", "debate"]
