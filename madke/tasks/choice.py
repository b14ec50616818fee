"""Answers from a closed set: the letter of an option, or one of FEVER's three labels."""

import re
from string import ascii_uppercase

from madke.core.question import Question
from madke.tasks.base import BaseTask, bare, has_words, squad_normalize, with_letters

_LEAD_IN = r"(?i:(?:(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)(?:\s+is)?\s*:?\s*))?"
_LETTER = re.compile(rf"{_LEAD_IN}[(\[]?(?P<letter>[A-Za-z])[)\]]?[.:,]?")
_LETTER_THEN_TEXT = re.compile(
    rf"{_LEAD_IN}\(?(?P<letter>[A-Za-z])(?P<mark>\)\s*[.:]?|[.:]|,|\s+[-\u2013\u2014]|(?=\s+\())\s*(?P<text>\S.*)",
    re.DOTALL,
)
_TEXT_THEN_LETTER = re.compile(r"(?P<text>.*\S)\s*\((?P<letter>[A-Za-z])\)", re.DOTALL)

_WORD = re.compile(r"[^\W\d_]{3}")
_SIGN = re.compile(r"(?<![\w.])-(?=\.?\d)")
_POINT = re.compile(r"\.(?=\d)")


class Choice(BaseTask):
    """Answers are upper-case letters."""

    name = "choice"
    metrics = ("choice_accuracy",)

    def read(self, text: str, question: Question) -> str | None:
        """The letter of an existing option, from ``B``, ``(B)``, ``Option B``, ``B) its text`` or one option's text."""
        text = bare(text)
        options = dict(with_letters(question.choices))
        if match := _LETTER.fullmatch(text):
            letter = match["letter"].upper()
            return letter if letter in options else None
        if match := _LETTER_THEN_TEXT.fullmatch(text) or _TEXT_THEN_LETTER.fullmatch(text):
            letter = match["letter"].upper()
            # "A, a planet" may begin with an article, so the text must match the option.
            certain = match.groupdict().get("mark", "")[:1] in (")", ".", ":") and match["letter"].isupper()
            if letter in options and (certain or _wording(match["text"]) == _wording(options[letter])):
                return letter
        named = [letter for letter, option in options.items() if _wording(option) == _wording(text)]
        return named[0] if len(named) == 1 else None

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """Whether a passage has the words of the option; None for options without a word of three letters."""
        option = dict(with_letters(question.choices)).get(answer, "")
        return has_words(text, option) if _WORD.search(option) else None

    def check(self, question: Question) -> str | None:
        """There must be 2 to 26 options, and every gold answer must be the letter of one."""
        letters = [letter for letter, _ in with_letters(question.choices)]
        if not 2 <= len(question.choices) <= len(ascii_uppercase):
            return f"a choice needs 2 to 26 choices, found {len(question.choices)}"
        wrong = [answer for answer in question.answers if answer not in letters]
        return f"golden answer {wrong[0]!r} is not a letter of A to {letters[-1]}" if wrong else None


def _wording(text: str) -> str:
    """The normalised words of an option; signs and decimal points of its numbers are kept."""
    return squad_normalize(_POINT.sub("point", _SIGN.sub("minus", text)))


_FORMS = {
    "SUPPORTS": r"support(?:s|ed)?",
    "REFUTES": r"refute[sd]?",
    "NOT ENOUGH INFO": r"not enough info(?:rmation)?|(?:not enough|insufficient) evidence|insufficient information|nei",
}
_CLAIM = re.compile(r"\Athe (?:claim|label) is | the claim\Z")


class Claim(BaseTask):
    """The answer is one of three labels."""

    name = "claim"
    metrics = ("label_accuracy",)
    choices = tuple(_FORMS)

    def read(self, text: str, question: Question) -> str | None:
        """A label in any case and inflection: ``REFUTES``, ``**Refuted.**``, ``The claim is refuted``."""
        words = " ".join(re.sub(r"[^a-z]+", " ", text.lower()).split())
        words = _CLAIM.sub("", words)
        return next((label for label, forms in _FORMS.items() if re.fullmatch(forms, words)), None)
