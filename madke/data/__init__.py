"""Read datasets as questions, and first-round stances for debates."""

from madke.data.dataset import read_dataset
from madke.data.first_round import FirstRounds, first_rounds, read_first_rounds

__all__ = ["FirstRounds", "first_rounds", "read_dataset", "read_first_rounds"]
