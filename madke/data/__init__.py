"""Dataset readers: files in, questions out; and stances that a debate may begin with."""

from madke.data.dataset import read_dataset
from madke.data.given import Given, first_rounds, read_given
from madke.data.questions import read_questions

__all__ = ["Given", "first_rounds", "read_dataset", "read_given", "read_questions"]
