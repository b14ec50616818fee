"""Words, sentences and normal forms: the little linguistics that the reader needs."""

from __future__ import annotations

import re
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set: how this package writes its vocabularies."""
    return frozenset(text.split())


STOPWORDS = word_set(
    """
    a an the this that these those it its he his him she her hers they their them theirs we our us you your i my
    me is are was were be been being am do does did done has have had having can could will would shall should may
    might must and or but nor so if then than as at by for from in into of off on onto out over to up with within
    without about after before between during through under until upon against among also not no yes only very
    more most such same both each other another any some all who whom whose which what when where why how there
    here while although though however despite since because s t
    """
)
"""Words that carry no content of their own."""

_TO_TWENTY = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty
"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: value for value, word in enumerate(_TO_TWENTY.split())} | {
    word: 30 + 10 * step for step, word in enumerate(_TENS.split())
}
"""English number words and their values, up to twenty and by tens."""

_BASES = """
write wrote written writing; sing sang sung song; win won; play portrayed portrays portray; bear born birth
die died dead death; begin began begun start; speak spoke spoken; give gave given; take took taken; make made; lead led
hold held; build built; find found; run ran; become became; come came; go went gone; get got gotten; know knew known
draw drew drawn; fight fought; teach taught; leave left; say said; tell told; bring brought; shoot shot; grow grew grown
marry married marriage; man men; woman women; person people; child children; wife wives; live lives life
"""
_IRREGULAR = {
    form: forms[0] for group in re.split(r"[;\n]", _BASES) if (forms := group.split()) for form in forms[1:]
}  # fmt: skip
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_ABBREVIATION = re.compile(
    r"(?:\b(?!I\b)[^\W\d_]|\b(?:Mr|Mrs|Ms|Dr|St|Mt|Jr|Sr|No|vs|Prof|Gen|Col|Lt|Capt|Rev|Inc|Co|approx|ca))\.$"
)
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9À-Þ])|\s+\.\.\.\s+")  # noqa: RUF001
_SUFFIX = re.compile(r"(?:ies|ied|ing|edly|ed|es|s|er|or|ly|ion|ions|al|e)$")
_DROPPED = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def tidy(text: str) -> str:
    """The text without the spaces that a tokenizer left around punctuation."""
    text = re.sub(r"\s+", " ", text.replace("``", '"').replace("''", '"').replace("-LRB-", "(").replace("-RRB-", ")"))
    text = re.sub(r"(\d) ?, ?(?=\d{3}\b)", r"\1,", text)
    text = re.sub(r" (?=[,.;:!?)\]%](?:\s|$))| (?='s\b)|(?<=[(\[$£€]) ", "", text)
    return text.strip()


def sentences(text: str) -> list[str]:
    """The sentences of a text, abbreviations and initials not taken for ends."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        piece = text[start : end.start() + 1].strip()
        if _ABBREVIATION.search(piece):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def words(text: str) -> list[str]:
    """Lower-case words and numbers, in order."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A crude stem: the same for most inflections of one word."""
    if word in NUMBER_WORDS:
        return str(NUMBER_WORDS[word])
    word = _IRREGULAR.get(word, word)
    if word[0].isdigit():
        return word.replace(",", "")
    if len(word) == 4 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    while len(word) > 4:
        shorter = _SUFFIX.sub("", word)
        if shorter == word or len(shorter) < 3:
            break
        word = shorter
    return word


def content(text: str) -> list[str]:
    """Stems of the words that are no stopwords, in order."""
    return [stem(word) for word in words(text) if word not in STOPWORDS]


def normal(text: str) -> str:
    """The form in which two answers are compared: lower case, no punctuation or articles, number words as digits."""
    bare = _DROPPED.sub("", text.lower())
    plain = _ARTICLES.sub(" ", bare)
    if not plain.strip():  # the letter of an option is no article
        plain = bare
    return " ".join(str(NUMBER_WORDS.get(word, word)) for word in plain.split())


def same(left: str, right: str) -> bool:
    """Whether two answers say the same: equal in normal form, or one names the other in whole words."""
    a, b = normal(left).split(), normal(right).split()
    if not a or not b:
        return False
    short, long = sorted((a, b), key=len)
    return a == b or (len(short) * 2 >= len(long) and any(long[i : i + len(short)] == short for i in range(len(long))))
