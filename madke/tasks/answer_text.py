"""Answer texts: removing quotes and emphasis, SQuAD normalisation, and phrases that mean "no answer"."""

import re
import string
from functools import lru_cache

_PAIRS = (
    ("**", "**"), ("*", "*"), ("__", "__"), ("_", "_"), ("`", "`"), ('"', '"'), ("'", "'"),
    ("\u201c", "\u201d"), ("\u201e", "\u201c"), ("\u2018", "\u2019"), ("\u300c", "\u300d"), ("\u00ab", "\u00bb"),
)  # fmt: skip
_OPENINGS = frozenset(opening[0] for opening, _ in _PAIRS)
_LAYERS = 4
_FULL_STOP = re.compile(r"(?<=[^\s.])\.\Z")
_SHORT_WORD = re.compile(r"\b[A-Za-z]{1,2}\.\Z")


def unmarked(text: str) -> str:
    """The text on one line, without emphasis and quotes around the whole of it: ``Paris`` for ``**"Paris"**``.

    Marks that also occur inside the text stay: ``"Yes" and "no"``.
    """
    text = " ".join(text.split())
    for _ in range(_LAYERS):
        text = _without_pair(text)
    return text


def bare(text: str) -> str:
    """The unmarked text without a final full stop, except after abbreviations such as ``U.S.``, ``Jr.`` and ``...``."""
    text = unmarked(text)
    return text if _ends_in_abbreviation(text) else unmarked(_FULL_STOP.sub("", text))


def _ends_in_abbreviation(text: str) -> bool:
    last = text.rpartition(" ")[2]
    return text.endswith(".") and ("." in last[:-2] or bool(_SHORT_WORD.search(text)))


def _without_pair(text: str) -> str:
    if text[:1] not in _OPENINGS:
        return text
    for opening, closing in _PAIRS:
        inner = text[len(opening) : len(text) - len(closing)]
        marked = text == f"{opening}{inner}{closing}"
        if marked and inner.strip() and opening not in inner and closing not in inner:
            return inner.strip()
    return text


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1024)
def squad_normalize(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces (Rajpurkar et al., 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def has_words(text: str, answer: str) -> bool:
    """Whether a text has the words of an answer in a row, both normalised as in SQuAD."""
    wanted = squad_normalize(answer)
    return bool(wanted) and f" {wanted} " in f" {squad_normalize(text)} "


_NOT = r"(?:(?:do|can|could)\s?n(?:o|['\u2019])?t|can['\u2019]?t|am\s+(?:unable|not\s+able)\s+to)"
_SORRY = r"(?:(?:i['\u2019]?\s?a?m\s+)?(?:sorry|afraid)[,.]?\s+(?:but\s+)?|unfortunately,?\s+)?"
_FIND = r"(?:know|tell|say|answer|determine|decide|find|verify|identify|provide|give)"
_FOUND = (
    r"(?:determined|answered|known|identified|verified|found|established|inferred|given|stated|mentioned|specified"
    r"|provided|available)"
)
_KNOWLEDGE = r"(?:information|knowledge|evidence|context|data|details?)"
_MORE = (
    r"(?:\s+(?:(?:the|an)\s+(?:\w+\s+)?answer|this|that|it)\b)?"
    r"(?:\s*[,.;(].*|\s+(?:for|from|based|with|because|since|given|who|whether|to)\b.*)?"
)
_DECLINES = re.compile(
    rf"{_SORRY}(?:(?:i|we)\s+(?:really\s+)?{_NOT}\s+{_FIND}\b{_MORE}"
    rf"|(?:i|we)\s+(?:do\s+not|don['\u2019]?t)\s+have\s+(?:the|an|any|enough|sufficient)\s+(?:\w+\s+)?"
    rf"(?:answer|{_KNOWLEDGE})\b.*"
    rf"|(?:i\s+am|i['\u2019]m)\s+not\s+(?:sure|certain)\b.*"
    rf"|(?:unable|impossible|not\s+possible)\s+to\s+{_FIND}\b{_MORE}"
    rf"|(?:it\s+|this\s+|(?:the|an)\s+answer\s+)?(?:can\s?not|can['\u2019]?t|could\s+not)\s+be\s+{_FOUND}\b.*"
    rf"|(?:not|none|nothing)\s+(?:is\s+|was\s+)?{_FOUND}\b.*|(?:the\s+answer\s+is\s+)?unknown|(?:i\s+have\s+)?no\s+(?:idea|clue)\b.*|n\s*/\s*a|not\s+applicable"
    rf"|(?:there\s+is\s+)?no\s+(?:answer|(?:relevant\s+|such\s+)?information)\b.*"
    rf"|(?:there\s+is\s+)?(?:not\s+enough|insufficient)\s+{_KNOWLEDGE}\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_READ = 300


def declines(text: str) -> bool:
    """Whether a text says that there is no answer: "I do not know", "cannot be determined", "N/A"."""
    return len(text) <= _READ and bool(_DECLINES.fullmatch(text.strip(" .!*_\"'")))
