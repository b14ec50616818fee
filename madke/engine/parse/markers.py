"""Marks of an answer: what stands around it, the words that introduce or deny it, and citations, which are none."""

import re
from collections.abc import Container
from typing import Literal

from madke.engine.parse.context import MOST, NEAR, OTHER_SPEAKER, last_sentence, lead, pairs, text_before

LONGEST_ANSWER = 1000
"""Characters of the longest final answer that is accepted."""
EMPHASIS = " \t\n*_`\"'“”‘’"  # noqa: RUF001

_PASSAGE = r"(?:(?:knowledge|passage|entry|entrie|item|document|doc|source|snippet|no)s?\.?\s{0,9})"
_JOIN = r"\s*(?:,|;|&|and|-|–|to)\s*(?:and\s+)?"  # noqa: RUF001
IDS = rf"{_PASSAGE}?[#(]?\d{{1,4}}\)?(?:{_JOIN}{_PASSAGE}?[#(]?\d{{1,4}}\)?)*"
ID_LIST = re.compile(rf"\s*{IDS}[\s,;]*", re.IGNORECASE)
NUMBERS = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")  # noqa: RUF001

_S = r"[\s_]+"
_PLACEHOLDER = re.compile(
    rf"<?(?:(?:the|your|my|an?|final|correct|short|exact|best){_S}){{0,4}}answers?"
    rf"(?:{_S}(?:is|here|only|goes{_S}here))?:?>?"
    rf"|<?(?:(?:your|insert|chosen|final|correct|the{_S}chosen){_S}){{0,3}}"
    rf"(?:letter|label|option|choice|number|translation|verdict|value|result|response|query)(?:{_S}here)?>?"
    rf"|(?:answer|option){_S}letter|letter{_S}of{_S}(?:the|your){_S}\w+|(?:your{_S})?name|(?-i:\(X\))|\.{{2,}}|…|_+"
    rf"|an?{_S}number{_S}(?:from|between)\b.*|yes\s*(?:or|/|\|)\s*no|true\s*(?:or|/|\|)\s*false"
    r"|(?:</?[a-z_]{1,20}>\s{0,9})+|no\s+found|citation\s+needed|(?:search|confidence)\s*:.*",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\W*in\s+(?:the\s+|this\s+)?(?:\w+\s+)?(?:passages?|sentences?|documents?|paragraphs?|text)(?:\s\d+)?\W*",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"(?:(?:the|my)\s+)?(?:final\s+|correct\s+)?answer\s*(?:is\b|:|=)[\s:]*(?=\S)", re.IGNORECASE)
_LATEX_WRAP = re.compile(r"\\(?:boxed|fbox|text\w{0,2}|mathrm|mathbf)\s*(?=\{)")
_MATH_WRAPS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_CITED = re.compile(r"\s{1,9}(?:\[\d{1,3}(?:\s?[,-]\s?\d{1,3})*\]\s*)+\Z")
_QUOTES = frozenset("\"'“”‘’")  # noqa: RUF001
_LEFT_RIGHT = re.compile(r"\\left\s*\(\s*([^()]*?)\s*\\right\s*\)")
_HTML = re.compile(r"</?(?:b|i|u|em|strong|p|br|span|div|mark|center)(?:\s[^<>]{0,100})?/?>", re.IGNORECASE)
_MATHS = r"(?:[^A-Za-z,\\]|\\(?:[A-Za-z]+|(?![A-Za-z]))|\b(?<!\\)[A-Za-z]\b)*"
_TUPLE = re.compile(rf"{_MATHS}(?:,{_MATHS})+")
_FORMULA = re.compile(rf"(?=[^\d\\=^]{{0,60}}[\d\\=^]){_MATHS}(?:,{_MATHS})*")
_ALTERNATIVES = re.compile(
    r"\W*[A-Z][.)\]:].*(?:\b(?:or|and)\W+(?:option\W+)?|,\s*\(?|\s\()[A-Z][.)\]:]\s+\S", re.DOTALL
)


def unwrap(content: str) -> str:
    """The content without emphasis, lead-in words ("the answer is"), or a second marker around it."""
    for _ in range(4 if len(content) <= LONGEST_ANSWER else 0):
        wrapped, content = content, _unwrap_once(content)
        if content == wrapped:
            break
    return content


def _unwrap_once(content: str) -> str:
    content = _HTML.sub("", content).strip(" \t\n*_`")
    # A closing quotation mark whose opening one is inside stays.
    quotes = sum(content.count(mark) for mark in _QUOTES)
    if quotes % 2 or (content[:1] in _QUOTES and content[-1:] in _QUOTES):
        content = content.strip(EMPHASIS)
    content = _LEFT_RIGHT.sub(r"(\1)", _CITED.sub("", content))
    for opening, closing in _MATH_WRAPS if content.startswith(("$", "\\")) else ():
        if len(content) > len(opening + closing) and content.startswith(opening) and content.endswith(closing):
            inner = content[len(opening) : -len(closing)]
            return content if opening in inner else inner
    if content.startswith("[") and not _TUPLE.fullmatch(content[1:-1]) and pairs(content, "[]").get(0) == len(content):
        return content[1:-1]
    wrap = _LATEX_WRAP.match(content)
    if wrap and pairs(content, "{}").get(wrap.end()) == len(content):
        return content[wrap.end() + 1 : -1]
    lead_in = _LEAD_IN.match(content)
    return content[lead_in.end() :] if lead_in else content


def is_placeholder(content: str) -> bool:
    """Whether the content is an echoed placeholder, or belongs to another grammar, such as a search."""
    return not content or (len(content) <= LONGEST_ANSWER and bool(_PLACEHOLDER.fullmatch(content.removesuffix("."))))


def says_only_where(content: str) -> bool:
    """Whether the content names the text that holds the answer, but no answer: "in the first sentence"."""
    return bool(_WHERE.fullmatch(content))


def is_formula(content: str) -> bool:
    """Whether the content is only mathematics: ``(x+1)(x-2)``, ``y = 3``."""
    return bool(_FORMULA.fullmatch(content))


def offers_several(content: str) -> bool:
    """Whether the content names several options: "(C) and (E)", "A. tin or B. mercury"."""
    return bool(_ALTERNATIVES.match(content))


Standing = Literal["stated", "plain", "none"]
"""``stated``: the words directly before it say "the answer is" or "it must be". ``plain``: they do not. ``none``: it is
denied, hypothetical, an example, another speaker's, or part of a word, a link or a formula."""

_NOUN = r"\b(?:answer(?!\s+(?:choices|options))|verdict|label|option|choice|letter|result|solution|translation)\b"
_GAP = r"[\s*_`\"'“‘]+"  # noqa: RUF001
_QUIET = r"[^\w.!?]*"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_STATES = _any(
    rf"{_NOUN}(?:[^.!?\n]{{0,80}}\b(?:is|are|was|were|be|equals)|[^.!?\n]{{0,40}}[:=]){_QUIET}\Z",
    rf"^\W{{0,9}}(?:(?:the|my|our|final|correct|best)\s+){{0,3}}{_NOUN}[^\w.!?\n]*\n{_QUIET}\Z",
    rf"\bfinish\Z|\b(?:i|we)\s+(?:\w+\s+){{0,2}}(?:answer|choose|pick|select|say|go\s+with|settle\s+on|conclude){_QUIET}\Z",
    rf"\b(?:must|has\s+to)\s+be{_QUIET}\Z",
)
_DENIED = (
    r"(?:\b(?:not|never|neither|nor|than|instead\s+of|over|cannot|can't|unable\s+to|impossible\s+to|far\s+from)"
    rf"|n't(?:\s+(?:be|think|say))?){_GAP}(?:(?:the|an?|simply|just|say|write|reply|answer|deserve|with|label|option|is){_GAP}){{0,4}}\Z"
)
_ASKED = (
    r"\b(?:for|behind|support\w{0,3}|about|to\s+(?:determine|identify|find|choose|select)|what|where|why|how|whether|if"
    rf"|unless|suppose)\s+(?:(?:the|my|your|an?)\s+)?(?:(?:final|correct|right|best)\s+)?{_NOUN}"
    rf"(?:\s+(?:is|was|would\s+be))?{_QUIET}\Z"
)
_THIS = (
    r"\b(?:this|that|these|those|each|first|second|other|his|her|their|its)\s+(?:(?!the\b|my\b)\w+\s+)?"
    rf"{_NOUN}[^.!?\n]{{0,40}}\Z"
)
_EXAMPLE = (
    r"(?:\bfor\s+(?:instance|example)|\be\.g\.?|\bsuch\s+as|,\s*like|\b(?:form|format|style|placeholder)(?:\s+of)?|\bone\s+of)"
    r"[^\w.!?\n]*\Z"
)
_INSTRUCTED = (
    r"\b(?:if|unless|whether|when|either)\b[^.\n]{0,120}\b(?:reply|answer|respond|say|write|put|it\s+were)\W*\Z"
)
_SAYING = (
    r"(?:sa(?:id|ys?)|answer(?:s|ed)|claim(?:s|ed)|argue[sd]|stat(?:es|ed)|g(?:ave|ives)|th(?:inks|ought)|believe[sd]"
    r"|cho(?:se|oses)|conclude[sd]|propose[sd]|suggest(?:s|ed)|wr(?:ote|ites))"
)
_OTHERS = (
    rf"(?:{OTHER_SPEAKER}[^.\n]{{0,40}}\b{_SAYING}\b|{OTHER_SPEAKER}'s\s+(?:\w+\s+){{0,2}}{_NOUN}"
    rf"|\b(?:it|he|she|they|someone|others?)\s+{_SAYING}\b|{_NOUN}\s+(?:given\s+)?(?:of|from|by)\s+{OTHER_SPEAKER})"
    r"(?:(?!\b(?:but|I|however|differ|so)\b)[^.\n])*\Z"
)
_NOT_COUNTED_BEFORE = _any(_ASKED, _DENIED, _THIS, _EXAMPLE, _INSTRUCTED, _OTHERS)
_NOT_COUNTED_AFTER = _any(
    r"[ \t*_`\"']*(?:(?:is|was|are|were|seems|does|do|did|could|would)\s*(?:n't\b|(?:(?:\w+ly|just|also)\s+)?(?:not"
    r"|wrong|incorrect|false|unlikely|impossible|ruled\s+out)\b)|can(?:not|'t)\b)",
    r"[^.!?\n]{0,120}\?",
)
_CONDITIONAL = _any(r"[^\w\n]{0,9}(?:(?:only\s+)?(?:if|when|unless|provided)|would|might)\b")
_ALONE = _any(
    r"\W*(?:(?:so|thus|therefore|hence|in conclusion)\W+)?(?:(?:my|the|final|overall)\W+)*"
    r"(?:(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion|choice|pick|winner)\W*(?:is\W*)?)?"
)
_GOES_ON = re.compile(r"\w|\((?:http|/|#|www)")
_FORMULA_GOES_ON = _any(r"\w|[(^_]|\s?[-+*/=<>×·÷]\s?(?:[\d(\\]|[a-z]\b)")  # noqa: RUF001
_WORD_END = re.compile(r"[\w)}^#/&]\Z")
_CALL = _any(r"\b(?:finish|answer|is)\Z")


def states(near: str) -> bool:
    """Whether the words before a mark introduce an answer: "the answer, then, is", "Verdict:"."""
    return bool(_STATES.search(near)) and not _NOT_COUNTED_BEFORE.search(near)


def standing(text: str, start: int, end: int) -> Standing:
    """The standing of what is at ``start .. end``, from the words around it."""
    near, after = _plain_quotes(text_before(text, start)), _plain_quotes(text[end : end + NEAR])
    stated = bool(_STATES.search(near))
    is_denied = _NOT_COUNTED_BEFORE.search(near) or _NOT_COUNTED_AFTER.match(after)
    if is_denied or _is_glued(text, start, end) or (not stated and _CONDITIONAL.match(after)):
        return "none"
    return "stated" if stated else "plain"


def _is_glued(text: str, start: int, end: int) -> bool:
    """Whether a bracket is part of a word, a call (``f[0]``, but not ``Finish[Paris]``), a link or a formula."""
    near, after = text[max(0, start - 9) : start].removesuffix("\\left"), text[end : end + 9]
    goes_on = _FORMULA_GOES_ON if text[start] == "(" else _GOES_ON
    return bool(goes_on.match(after) or (_WORD_END.search(near) and not _CALL.search(near)))


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a mark is alone on its line, or is a whole conclusion: "Therefore, my verdict is: [No]"."""
    rest = text[end : end + NEAR].split("\n", 1)[0]
    return bool(_ALONE.fullmatch(lead(text, start))) and not re.search(r"\w", rest)


def _plain_quotes(text: str) -> str:
    return text.replace("’", "'").removesuffix("\\left")  # noqa: RUF001


_FOLLOWS_SENTENCE = re.compile(r"[.!?](?:\s*\[[\d, -]{1,20}\])*\s*\Z")
_SOURCE = re.compile(r"\b(?:knowledge|passages?|documents?|sources?|evidence|relevant|know)\b", re.IGNORECASE)
_RESULT = re.compile(
    r"(?:\b(?:is|are|was|were|equals)|=|\b(?:so|thus|hence|therefore|total|result)\W{0,3}:)[\s*_]*\Z", re.IGNORECASE
)


_INTERVAL = re.compile(r"\d{1,4}(?:\s?,\s?\d{1,4})+")
_MEMBER = re.compile(r"(?:∈|\\in|\b(?:lies?|interval))(?:\s+in)?[\s*_$]*\Z", re.IGNORECASE)


def without_citations(text: str, shown: Container[int], *, intervals: bool = False) -> str:
    """The text with its citations replaced by spaces, so that all positions stay the same.

    A bracket of shown numbers is kept if it ends the reply, is stated as the answer ("the answer is [7]"), or is inside
    another bracket and not after a sentence. With ``intervals``, several numbers may end a reply as one does.
    """
    characters, outer = list(text), 0
    spans = sorted(pairs(text, "[]").items())
    closing = last_sentence(text) if spans else 0
    for n, (start, end) in enumerate(spans):
        near, nested, outer = text_before(text, start), start < outer, max(outer, end)
        if not cites(text[start + 1 : end - 1], shown) or (nested and not _FOLLOWS_SENTENCE.search(near)):
            continue
        if len(spans) - n <= MOST and (states(near) or _closes(text, start, end, closing, intervals=intervals)):
            continue
        characters[start:end] = " " * (end - start)
        if text.startswith((".", "!", "?"), end):  # Move the full stop to the end of its sentence.
            characters[end] = " "
            while start and characters[start - 1] in " \t":
                start -= 1
            characters[start] = " " if _FOLLOWS_SENTENCE.search(near) else text[end]
    return "".join(characters)


def cites(content: str, shown: Container[int]) -> bool:
    """Whether a bracket's content cites passages: only numbers that were shown."""
    if len(content) > NEAR:
        return False
    ids = re.sub(r"[\[\]\"']", "", content)
    return bool(ID_LIST.fullmatch(ids)) and all(int(n) in shown for range_ in NUMBERS.findall(ids) for n in range_ if n)


def _closes(text: str, start: int, end: int, closing: int, *, intervals: bool) -> bool:
    """Whether a number is the result that ends a reply: alone on its last line, or after "is", "=" or "so:"."""
    content = text[start + 1 : end - 1]
    is_interval = intervals and bool(_INTERVAL.fullmatch(content))
    if not (content.isdecimal() or is_interval) or re.search(r"\w", text[end:]):
        return False
    line = text[text.rfind("\n", 0, start) + 1 : start]
    if not re.search(r"\w", line):
        return not text[: start - len(line)].rstrip().endswith(":")
    words = lead(text, start).rpartition(",")[2]
    is_result = _RESULT.search(words) or (is_interval and _MEMBER.search(words))
    return start >= closing and bool(is_result) and not _SOURCE.search(words)
