"""How a debate ended, in one line."""

from __future__ import annotations

from madke.core.agreement import Agreement
from madke.report.debate_text import summary


def test_debaters_who_give_no_answer_are_not_called_split() -> None:
    ended = Agreement(outcome="split", by="judge", same=False, positions=(), silent=("Debater 1", "Debater 2"))
    assert summary(ended) == "no debater gave an answer"
