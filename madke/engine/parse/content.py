"""The content of a marker: decoration, placeholders, the task's reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from madke.engine.parse.places import pairs

LONGEST = 1000
"""Characters of a final answer. A longer text is no answer."""
EMPHASIS = " \t\n*_`\"'“”‘’"  # noqa: RUF001

_S = r"[\s_]+"
_PLACEHOLDER = re.compile(
    rf"<?(?:(?:the|your|my|an?|final|correct|short|exact|best){_S}){{0,4}}answers?(?:{_S}(?:here|only|goes{_S}here))?:?>?"
    rf"|<?(?:(?:your|insert|chosen|final|correct|the{_S}chosen){_S}){{0,3}}"
    rf"(?:letter|label|option|choice|number|translation|verdict|value|result|response|query)(?:{_S}here)?>?"
    rf"|(?:answer|option){_S}letter|letter{_S}of{_S}(?:the|your){_S}\w+|(?:your{_S})?name|(?-i:\(X\))|\.{{2,}}|…|_+"
    rf"|an?{_S}number{_S}(?:from|between)\b.*|yes\s*(?:or|/|\|)\s*no|true\s*(?:or|/|\|)\s*false"
    r"|no\s+found|citation\s+needed|(?:search|confidence)\s*:.*",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"(?:(?:the|my)\s+)?(?:final\s+|correct\s+)?answer\s*(?:is\b|:|=)[\s:]*(?=\S)", re.IGNORECASE)
_LATEX_WRAP = re.compile(r"\\(?:boxed|fbox|text\w{0,2}|mathrm|mathbf)\s*(?=\{)")
_MATH_WRAPS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_CITED = re.compile(r"\s{1,9}(?:\[\d{1,3}(?:\s?[,-]\s?\d{1,3})*\]\s*)+\Z")
_MATHS = r"(?:[^A-Za-z,\\]|\\(?:[A-Za-z]+|(?![A-Za-z]))|\b(?<!\\)[A-Za-z]\b)*"
_TUPLE = re.compile(rf"{_MATHS}(?:,{_MATHS})+")
_FORMULA = re.compile(rf"(?=[^\d\\=^]{{0,60}}[\d\\=^]){_MATHS}(?:,{_MATHS})*")
_ALTERNATIVES = re.compile(r"\W*[A-Z][.)\]:].*(?:\b(?:or|and)\W+(?:option\W+)?|,\s*\(?|\s\()[A-Z][.)\]:]\s", re.DOTALL)
_ANY_WORDS = "words that stand for no answer"


def unwrap(content: str) -> str:
    """The content without emphasis, a lead-in, or a second marker around it all."""
    for _ in range(4 if len(content) <= LONGEST else 0):
        stripped = _once(content)
        if stripped == content:
            break
        content = stripped
    return content


def _once(content: str) -> str:
    content = _CITED.sub("", content.strip(EMPHASIS))
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
    """Whether a content echoes the form that was asked for, or belongs to another grammar, such as a search."""
    return not content or (len(content) <= LONGEST and bool(_PLACEHOLDER.fullmatch(content.removesuffix("."))))


def is_formula(content: str) -> bool:
    """Whether a content is mathematics and nothing else: ``(x+1)(x-2)``, ``y = 3``."""
    return bool(_FORMULA.fullmatch(content))


def offers_several(content: str) -> bool:
    """Whether a content offers several options: "(C) and (E)", "A. tin or B. mercury"."""
    return bool(_ALTERNATIVES.match(content))


class Reader:
    """A task's reader, for contents as models write them."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read

    @cached_property
    def is_open(self) -> bool:
        """Whether it takes any words, as for a name; a reader of labels or letters takes only those."""
        return self._read(_ANY_WORDS) is not None

    def __call__(self, content: str) -> str | None:
        """The answer that a marker's content is; None if it is none."""
        content = unwrap(content)
        if len(content) > LONGEST or is_placeholder(content) or (offers_several(content) and not self.is_open):
            return None
        return self._read(content)
