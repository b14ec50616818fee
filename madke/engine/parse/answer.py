"""Parse the final answer of a reply, in a marker or stated in words: "The answer is B.", "Final answer: Lake Baikal".

Stated free text counts only if it looks like an answer: a name, a number, yes or no, quoted text, or a labelled line.
"""

import re
from collections.abc import Callable, Container, Sequence
from typing import Literal

from madke.core.question import Question
from madke.engine.parse import context
from madke.engine.parse.context import Parsed, Reader, nothing, parsed_at, windowed
from madke.engine.parse.echo import NOTHING_ASKED, Asked, is_example, repeats_another
from madke.engine.parse.forms import Mark, bracketed, stated_forms, without_citations
from madke.engine.parse.quotation import unquoted
from madke.engine.parse.short import before_run_on, short_reply, whole_sentence, yes_or_no
from madke.engine.parse.worded import (
    Form,
    declined,
    last_number,
    lone_label,
    requested_sentence,
    stated_in_words,
    undecided,
)
from madke.tasks.answer_text import declines
from madke.tasks.base import Task

Marker = Literal["plain", "alone", "brackets", "parentheses", "boxed", "text"]
r"""How a protocol asks for answers: "The answer is X.", the answer alone, in ``[X]``, ``(X)``, ``\boxed{X}``, free."""

_DISPLAYED = re.compile(r"\\\[([^\[\]\\=+^_{}\n]{1,100})\\\]")
"""Words or a number in LaTeX's display brackets; they count as a marker."""
_ECHO = re.compile(
    r"\[(?:(?:the|my|your|final)[ _]){0,2}(?:answer|letter|label|number|translation|result|option)\]"
    r"(?=[\s*_:]{0,9}[\w\[(\"“$\\*])",
    re.IGNORECASE,
)
"""The placeholder of the requested form, echoed before an answer: "[answer] Jane Austen"."""
_REMARK = re.compile(r"\s*(?:(?:note|n)\s+\d+|sic|see\s.*|.*\bet al\b.*|'.*',\s*'.*|\".*\",\s*\".*)\s*", re.DOTALL)
_TERSE = re.compile(r"[\s*_]*[A-Z\d$€£-]")
_BEFORE_RESULT = re.compile(r"(?:\b(?:is|are|was|were|equals|be)|[=:])[\s*_]*\Z", re.IGNORECASE)
_AFTER = r"[ \t*_`\"'”’$\\]*"  # noqa: RUF001
_ENDS_SENTENCE = re.compile(rf"{_AFTER}(?:[.!]?{_AFTER}(?:\n|\Z)|[.!][ \t])")
_JOINED = re.compile(r"[\s*_`\"'$]*(?:[,;/&|]|(?:[^.!?\n]{0,60}[\s,])?(?:or|and|and/or))[\s*_`\"'$]*", re.IGNORECASE)


def parse_answer(
    text: str,
    read: Callable[[str], str | None],
    marker: Marker = "brackets",
    *,
    shown: Container[int] = (),
    is_math: bool = False,
    form: Form | None = None,
    cut: bool = False,
    asked: Asked = NOTHING_ASKED,
) -> Parsed[str | None]:
    r"""The final answer of a reply. Every form is read, whatever the requested one is.

    Ignored: what the reply quotes or copies (see :func:`~madke.engine.parse.context.windowed`), an answer that it
    reports from another debater, and several alternatives without a choice.

    Args:
        text: The reply, without reasoning.
        read: The task's reader: a marker's content -> the answer, or None if the content is not an answer.
        marker: The requested form. With free text, ``(X)`` counts only directly after a cue or alone at the end.
        shown: The numbers of the passages shown to this call. In brackets they are citations, unless one ends the
            reply or is stated as the answer ("the answer is [7]").
        is_math: Short for ``form=Form(is_math=True)``.
        form: What task and question say of the answer.
        cut: The reply was stopped at ``max_tokens``: free text at its very end may be incomplete and is not read.
        asked: The request. An answer that is only an example of it is ``echoed``.

    Returns:
        The first of these that the reply has:

        1. The last line, if it is a label with its answer: "Answer: X" (rule ``labelled``).
        2. The last answer in the requested marker after a cue such as "the answer is" (rule ``cue``), or as ``boxed``,
           ``tag`` (``<answer>X</answer>``), ``hashes`` (``#### 42``), ``record`` (``{"answer": "X"}`` at the end).
        3. The later of an answer stated in words (``labelled``: "Answer: X"; ``stated``: "the answer is X") and one in
           a marker without a cue (``last``: if all such markers, or those of the last sentence, agree).
        4. A label on a line of its own (``alone``), the whole reply or its last line if it is short (``short``,
           ``short_line``), the Yes or No before a sentence if the question asks for one (``yes_no``), or the last
           number (``last_number``).

        With ``marker="alone"``, which asks for nothing else, a reply of one sentence without any of these is the answer
        as a whole (``whole``). With ``marker="text"`` the whole reply (``text``). Otherwise the rule is ``declined``
        (the reply says that there is no answer: ``abstained``), ``undecided``, ``unreadable`` (the marked text is not
        an answer of this task) or ``none`` (``unmarked``), or ``placeholder``, ``example``, ``copy`` (``echoed``).
    """
    if marker == "text":
        return _whole(text, read)
    form = form or Form(is_math=is_math)
    text = before_run_on(text, asked.speaker)
    parsed = _said(text, read, marker, shown=shown, form=form, asked=asked)
    if parsed.value is None or parsed.span is None or form.is_math or not Reader(read).is_open:
        return parsed
    if cut and not re.search(r"\W", text[parsed.span[1] - 1 :].rstrip()):
        return nothing(None)
    if form.is_yes_no and parsed.value.lower() in ("yes", "no"):
        return parsed
    if is_example(parsed.value, asked):
        return nothing(None, "example")
    is_own = parsed.value.casefold() in asked.own.casefold()
    return nothing(None, "copy") if not is_own and repeats_another(text, asked) else parsed


@windowed
def _said(
    text: str,
    read: Callable[[str], str | None],
    marker: Marker,
    *,
    shown: Container[int],
    form: Form,
    asked: Asked,
) -> Parsed[str | None]:
    reader = Reader(read)
    # Replacements keep the length, so that spans refer to the reply.
    unquoted_text = unquoted(text)
    cleaned = _DISPLAYED.sub(r" [\1] ", unquoted_text)
    cleaned = _ECHO.sub(lambda echo: "answer:".rjust(len(echo[0])), cleaned)
    cleaned = without_citations(cleaned, () if form.is_math else shown)
    marks = [] if marker == "boxed" else list(bracketed(cleaned, "()" if marker == "parentheses" else "[]"))
    stated = [*stated_forms(cleaned, text)]
    return (
        stated_in_words(cleaned, reader, form, last_line=True)
        or _marked(cleaned, marks, stated, reader, form)
        or _unmarked(cleaned, marks, reader, form)
        or lone_label(cleaned, reader)
        or (requested_sentence(cleaned, reader, form) if marker in ("plain", "alone") and not form.is_math else None)
        or (yes_or_no(cleaned, reader) if form.is_yes_no else None)
        or (None if form.is_math else short_reply(cleaned, reader))
        or (nothing(None, "declined") if declined(cleaned) else None)
        or (last_number(cleaned, reader) if form.is_math else None)
        or (whole_sentence(cleaned, reader) if marker == "alone" else None)
        or nothing(None, "placeholder" if _gives_back_a_placeholder(marks, stated) else "none")
    )


def answer_of(
    text: str,
    task: Task,
    question: Question,
    marker: Marker = "brackets",
    *,
    shown: Container[int] = (),
    cut: bool = False,
    asked: Asked = NOTHING_ASKED,
) -> Parsed[str | None]:
    """:func:`parse_answer` with the task's reader."""
    asks = getattr(task, "asks_yes_or_no", None)
    form = Form(
        is_math=getattr(task, "reads_last_number", False),
        is_yes_no=bool(asks is not None and asks(question)),
        whole_line=getattr(task, "reads_whole_line", False),
        is_list=getattr(task, "is_list", False),
    )
    return parse_answer(
        text, lambda raw: task.read(raw, question), marker, shown=shown, form=form, cut=cut, asked=asked
    )


def _gives_back_a_placeholder(marks: Sequence[Mark], stated: Sequence[Mark]) -> bool:
    contents = [mark.content for mark in (*marks, *stated) if mark.standing in ("stated", "plain")]
    return any(context.is_placeholder(context.unwrap(content)) for content in contents if content.strip())


def _whole(text: str, read: Callable[[str], str | None]) -> Parsed[str | None]:
    reply = text.strip()
    # The bare word "answer" may be a translation; in brackets it is an echoed placeholder.
    is_marked = reply.strip(context.EMPHASIS).startswith(("[", "(", "<", "\\"))
    is_echo = is_marked and context.is_placeholder(context.unwrap(reply))
    value = read(reply) if reply and not is_echo else None
    if value is None:
        return nothing(None, "declined" if declines(reply) else "none")
    return parsed_at(value, "text", (0, len(text)))


def _marked(
    text: str, marks: Sequence[Mark], forms: Sequence[Mark], reader: Reader, form: Form
) -> Parsed[str | None] | None:
    """The last stated answer in a marker; abstains if it cannot be read."""
    stated = [mark for mark in marks if mark.standing == "stated"]
    unsettled = [Mark(content="", span=span, rule="undecided") for span in undecided(text)]
    for mark in sorted([*stated, *forms, *unsettled], key=lambda mark: mark.span[1], reverse=True):
        if mark.rule == "undecided":
            worded = stated_in_words(text, reader, form)
            if worded and worded.span and worded.span > mark.span:
                return worded
            return nothing(None, "declined" if declined(text) else "undecided")
        content = context.unwrap(mark.content)
        if context.is_placeholder(content):
            continue
        value = reader(content)
        if value is None:
            return nothing(None, "declined" if declines(content) else "unreadable")
        rival = next((other for other in marks if other.span[0] >= mark.span[1]), None)
        if rival and _are_joined(text, mark, rival) and reader(rival.content) not in (None, value):
            return nothing(None, "undecided")
        return parsed_at(value, mark.rule, mark.span)
    return None


def _unmarked(text: str, marks: Sequence[Mark], reader: Reader, form: Form) -> Parsed[str | None] | None:
    worded, plain = stated_in_words(text, reader, form), _plain(text, marks, reader)
    if worded and plain:
        return max(worded, plain, key=lambda parsed: parsed.span or (0, 0))
    return worded or plain


def _plain(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    """The answer of markers without a cue, if all of them, or those of the last sentence, agree."""
    closing = context.last_sentence(text)
    offered = [mark for mark in marks if _is_offered(text, mark, closing, reader)]
    read = [(mark, value) for mark in offered if (value := reader(mark.content)) is not None]
    own = [(mark, value) for mark, value in read if mark.standing == "plain"]
    closes = [(mark, value) for mark, value in own if mark.span[0] >= closing]
    if len({value for _, value in read}) != 1 or not (own or len(read) > 1):
        read = closes
    return parsed_at(read[-1][1], "last", read[-1][0].span) if len({value for _, value in read}) == 1 else None


def _is_offered(text: str, mark: Mark, closing: int, reader: Reader) -> bool:
    """Whether a marker without a cue may be an answer and not a remark or a footnote.

    Free text counts if it is alone on its line, ends the last sentence, or is a name or number in that sentence or
    after "is". In parentheses it must be alone on the last line, or a number that ends the reply.
    """
    start, end = mark.span
    if mark.standing != "plain" or _REMARK.fullmatch(mark.content):
        return mark.standing == "quoted"
    if not reader.is_open:
        return True
    has_line = not re.search(r"\w", text[text.rfind("\n", 0, start) + 1 : start] + context.tail(text, end))
    if text[start] == "(":
        return (has_line or context.is_formula(mark.content)) and not re.search(r"\w", text[end:])
    if has_line or (start >= closing and _ENDS_SENTENCE.match(text, end)):
        return True
    return bool(
        _TERSE.match(mark.content) and (start >= closing or _BEFORE_RESULT.search(context.text_before(text, start)))
    )


def _are_joined(text: str, mark: Mark, other: Mark) -> bool:
    """Whether two markers are alternatives or a list: "[A] or [B]", "(A) tin and (B)"."""
    left, right = mark.span[1], other.span[0]
    return right - left < context.NEAR and bool(_JOINED.fullmatch(text, left, right))


def marked(answer: str, marker: Marker) -> str:
    """Put an answer into its marker."""
    left, right = {
        "plain": ("", ""),
        "alone": ("", ""),
        "brackets": "[]",
        "parentheses": "()",
        "boxed": ("\\boxed{", "}"),
        "text": ("", ""),
    }[marker]
    return left + answer + right
