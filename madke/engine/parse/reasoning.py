"""What a reply says, apart from the reasoning in front of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_QUOTES = "`\"'“”‘’"  # noqa: RUF001
_NAMED = re.compile(r"\s{0,3}(?:tags?|blocks?|elements?|sections?|tokens?|markers?)\b", re.IGNORECASE)
_OPENING_PLACE = re.compile(r"(?:\A|[\n.!?:>…])\s{0,9}\Z")


def without_reasoning(text: str) -> str:
    """The text that counts as said: reasoning blocks, closed, cut off or opened by the server, are left out.

    A tag that the text only talks about, in quotes or as "the <think> tag", is an ordinary word, and so is an opening
    tag in the middle of a sentence that is never closed.
    """
    if "<" not in text:
        return text.strip()
    said: list[str] = []
    inside, at = False, 0
    tags = list(_tags(text))
    last_close = max((tag.start() for tag in tags if tag.group(1)), default=-1)
    for tag in tags:
        closes = bool(tag.group(1))
        if not closes and not inside:
            cut_off = tag.start() > last_close
            if cut_off and not _OPENING_PLACE.search(text, max(0, tag.start() - 10), tag.start()):
                continue
            said.append(text[at : tag.start()])
        elif closes and not inside:
            said = []
        inside, at = not closes, tag.end()
    return "".join(said if inside else [*said, text[at:]]).strip()


def _tags(text: str) -> Iterator[re.Match[str]]:
    for tag in _TAG.finditer(text):
        before, after = text[max(0, tag.start() - 1) : tag.start()], text[tag.end() : tag.end() + 1]
        quoted = before and after and before in _QUOTES and after in _QUOTES
        if not (quoted or _NAMED.match(text, tag.end())):
            yield tag
