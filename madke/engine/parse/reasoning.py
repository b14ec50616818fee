"""What is taken off a completion where it enters: control tokens of its model, and hidden reasoning.

Control tokens are dropped. Reasoning is kept with the completion, counted, never read and never shown to others.
"""

import json
import re
from dataclasses import replace

from madke.core.chat import Completion

TRUNCATED = frozenset({"length", "max_tokens", "model_length"})
"""Finish reasons of a reply that was cut off at ``max_tokens``: OpenAI and most others, Cohere, Mistral."""

_NAMES = (
    r"(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratch_?pad|analysis|inner_?(?:thoughts?|monologue))"
)
_BLOCKS: tuple[tuple[str, str], ...] = (
    (rf"<{_NAMES}>", rf"</{_NAMES}>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|(?:START_THINKING|begin_of_thought|inner_prefix|think|thinking)\|>",
     r"<\|(?:END_THINKING|end_of_thought|inner_suffix|/think|/thinking)\|>"),
    (r"(?:<\|start\|>assistant)?<\|channel\|>\s*(?:analysis|commentary)[^<\n]{0,80}(?:<\|constrain\|>\w*)?(?:<\|message\|>)?",
     r"(?:<\|end\|>\s*)?(?:<\|start\|>assistant)?<\|channel\|>\s*final[^<\n]{0,80}(?:<\|constrain\|>\w*)?<\|message\|>"),
    (r"<\|channel>\s*(?:thought|analysis)", r"<channel\|>"),
    (r"\A\s*(?:analysis|commentary)(?=[A-Z\"'*(])", r"assistant(?:commentary[^\n]{0,80})?final(?=\S)"),
    (r"\AHere is my thought process:", r"^Here is my response:"),
)  # fmt: skip
"""Opening, closing. A closing one alone hides all text before it: the server wrote the opening into the prompt."""
_BLOCK = re.compile(
    r"(?<![`\"'])(?:(?P<close>" + "|".join(close for _, close in _BLOCKS) + r")|"
    r"(?:" + "|".join(start for start, _ in _BLOCKS) + r"))(?!\s{0,3}(?:tags?|blocks?|tokens?)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_NEEDS_OPENING = re.compile(r"assistant(?:commentary|final)|Here is my response", re.IGNORECASE)
"""A closing text that is also made of ordinary words."""
_OPENING_PLACE = re.compile(r"(?:\A|[\n.!?:>…])\s{0,9}\Z")

_ENDS = re.compile(
    r"<[|\uff5c](?!(?:begin_of_|end_of_|/)?(?:box|ref|object|quad|response|solution)|START_RESPONSE|END_RESPONSE)[^|\uff5c<>\n]{1,40}[|\uff5c]>"
    r"|\[\|[^|\[\]\n]{1,40}\|\]|</?s>|</?(?:eos|bos|pad|unk|eo[adhpt]|sep|cls|seed:\w+|end_of_\w+|start_of_turn|endoftext|im_end|im_start)>"
    r"|\[/?(?:INST|SYS|EOS|BOS|EOT|PAD|SEP|CLS|UNK|gMASK)\]|<</?SYS>>|\[end of text\]|<turn\|>|<\|turn>",
)
"""Tokens that begin or end a turn. What follows one is no longer the reply."""
_INSIDE = re.compile(
    r"<[|\uff5c](?:(?:begin_of_|end_of_|/)?(?:box|ref|object|quad|response|solution)\w*|(?:START|END)_RESPONSE)[|\uff5c]>"
)
"""Tokens around a part of a reply, or around the reply."""
_ROLE = re.compile(r"\s*(?:assistant|model|chatbot|final)?\s*")


def without_control_tokens(text: str) -> str:
    """The text up to the first token that ends its turn, without the tokens and the role's name that begin it."""
    if not re.search(r"[<\[]", text):
        return text
    text = _INSIDE.sub("", text)
    start = 0
    while (token := _ENDS.match(text, skipped := _spaces(text, start))) is not None:
        start = token.end()
        following = _ROLE.match(text, start)
        if following and (_ENDS.match(text, following.end()) or "\n" in text[start : following.end()]):
            start = following.end()
        if start == skipped:
            break
    end = _ENDS.search(text, start)
    return text[start : end.start() if end else len(text)].rstrip() if start or end else text


def _spaces(text: str, start: int) -> int:
    return start + len(text[start:]) - len(text[start:].lstrip())


def _is_record(text: str) -> bool:
    if not text.startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def without_reasoning(text: str) -> str:
    """The text without control tokens and hidden reasoning, also that cut off or opened by the server.

    A tag in quotes, a mention such as "the <think> tag", and a tag that opens in the middle of a sentence and is never
    closed are ordinary words. So is all text inside a JSON object that is the whole reply, or follows the reasoning.
    """
    text = text.strip()
    after = _BLOCK.split(text, maxsplit=2)[-1].strip() if _BLOCK.match(text) else ""
    for whole in (text, without_control_tokens(text), after, without_control_tokens(after)):
        if _is_record(whole):
            return whole
    blocks = [
        block
        for block in _BLOCK.finditer(text)
        if not (block["close"] and _NEEDS_OPENING.match(block[0])) or _BLOCK.match(text)
    ]
    last_close = max((block.start() for block in blocks if block["close"]), default=-1)
    visible: list[str] = []
    inside, at = False, 0
    for block in blocks:
        if block["close"]:
            visible, inside, at = visible if inside else [], False, block.end()
        elif not inside and (
            block.start() < last_close or _OPENING_PLACE.search(text, max(0, block.start() - 10), block.start())
        ):
            visible.append(text[at : block.start()])
            inside = True
    return without_control_tokens("".join(visible if inside else [*visible, text[at:]]).strip()).strip()


def checked(completion: Completion, max_tokens: int) -> Completion:
    """The completion; an ``ok`` one without visible text gets the outcome ``empty``.

    A text of only reasoning blocks moves to ``reasoning``. The error of a truncated reply names ``max_tokens``.
    """
    if completion.outcome != "ok" or without_reasoning(completion.text):
        return completion
    reasoning = completion.reasoning + completion.text.strip()
    error = "the reply holds only hidden reasoning" if reasoning else "the reply is empty"
    if completion.finish_reason.casefold() in TRUNCATED:
        error += f"; it was cut off at max_tokens = {max_tokens}; raise it with --set max_tokens=N"
    else:
        error += f" (finish reason {completion.finish_reason!r})"
        error += _ALL_REASONING if reasoning else ""
    return replace(completion, text="", reasoning=reasoning, outcome="empty", error=error)


_ALL_REASONING = (
    ": either the server took the answer for reasoning, or the model ended before its answer; check the server's "
    "reasoning parser (vLLM: --reasoning-parser, llama.cpp: --reasoning-format) and the model's chat template"
)
