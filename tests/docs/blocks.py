"""The fenced blocks of a page: commands, Python, files and output."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

SHELL = ("bash", "sh")
LANGUAGES = (*SHELL, "python", "text", "yaml", "json", "jsonl", "toml", "jinja", "csv")
"""What a block may be called, so that none escapes the tests by another name."""

NEEDS = ("key", "checkout", "dataset", "download", "cluster", "GPU", "server", "installation")
"""``<!-- needs a key -->`` above a block: it is not run, only checked."""

_FENCE = re.compile(
    r"(?P<marks>(?:^[ \t]*<!--[^\n]*-->[ \t]*\n\s*?)*)^(?P<indent>[ \t]*)(?P<fence>```+)(?P<info>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_NEEDS = re.compile(r"<!-- needs an? (\w+)(?:: [^>]*)? -->")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block."""

    line: int
    """Of its fence, from 1."""
    language: str
    title: str
    """The ``title="..."`` of the fence: the name of the file that the block is, or ``Output``."""
    text: str
    needs: str
    """What a machine may lack, one of NEEDS; empty if the block is run."""

    @property
    def is_file(self) -> bool:
        return bool(self.title) and self.language != "text"

    @property
    def is_output(self) -> bool:
        """Whether it is what the block before it prints."""
        return self.language == "text" and self.title == "Output"


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page of Markdown, in order."""
    return [_block(found, page[: found.start("fence")].count("\n") + 1) for found in _FENCE.finditer(page)]


def _block(found: re.Match[str], line: int) -> Block:
    language, _, rest = found["info"].strip().partition(" ")
    title = re.search(r'title="([^"]*)"', rest)
    needs = _NEEDS.search(found["marks"])
    return Block(
        line=line,
        language=language,
        title=title[1] if title else "",
        text=dedent(found["text"]),
        needs=needs[1] if needs else "",
    )


def madke_calls(block: Block) -> Iterator[list[str]]:
    """The words after ``madke`` of each call of it in a shell block."""
    script = re.sub(r"<<\s*'?(\w+)'?.*?\n\1$", "", block.text, flags=re.DOTALL | re.MULTILINE)
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        words.whitespace_split = True
        words.commenters = "#"
        yield from _after_madke(list(words))


def _after_madke(words: list[str]) -> Iterator[list[str]]:
    call: list[str] | None = None
    for word in [*words, ";"]:
        if set(word) <= set("();<>|&"):
            if call is not None:
                yield call
            call = None
        elif call is not None:
            call.append(word)
        elif word == "madke":
            call = []


def missing(shown: list[str], printed: str) -> str | None:
    """The first shown line that does not come, in this order; None if all do.

    Blanks count as one, and ``...`` for anything. Lines that are blank or only ``...`` say nothing.
    """
    lines = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in shown:
        wanted = " ".join(line.split())
        if wanted.strip(". "):
            pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
            if not any(pattern.fullmatch(found) for found in lines):
                return line
    return None
