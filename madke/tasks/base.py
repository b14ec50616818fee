"""What a task is, and what all tasks know of answer texts."""

import re
import string
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal, NotRequired, TypedDict, get_args

from madke.core.errors import UserError, unknown
from madke.core.question import Question

# Answer texts: removing quotes and emphasis, SQuAD normalisation, and phrases that mean "no answer".

_PAIRS = (
    ("**", "**"), ("*", "*"), ("__", "__"), ("_", "_"), ("`", "`"), ('"', '"'), ("'", "'"),
    ("\u201c", "\u201d"), ("\u201e", "\u201c"), ("\u2018", "\u2019"), ("\u300c", "\u300d"), ("\u00ab", "\u00bb"),
)  # fmt: skip
_OPENINGS = frozenset(opening[0] for opening, _ in _PAIRS)
_MAX_LAYERS = 4
_FULL_STOP = re.compile(r"(?<=[^\s.])\.\Z")
_SHORT_WORD = re.compile(r"\b[A-Za-z]{1,2}\.\Z")


def without_marks(text: str) -> str:
    """The text on one line, without emphasis and quotes around the whole of it: ``Paris`` for ``**"Paris"**``."""
    text = " ".join(text.split())
    for _ in range(_MAX_LAYERS):
        text = _without_pair(text)
    return text


def bare(text: str) -> str:
    """The text without marks and final full stop; that of abbreviations (``U.S.``, ``Jr.``) and of ``...`` stays."""
    text = without_marks(text)
    is_abbreviated = text.endswith(".") and ("." in text.rpartition(" ")[2][:-2] or _SHORT_WORD.search(text))
    return text if is_abbreviated else without_marks(_FULL_STOP.sub("", text))


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
    phrase = squad_normalize(answer)
    return bool(phrase) and f" {phrase} " in f" {squad_normalize(text)} "


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
_MAX_READ = 300


def declines(text: str) -> bool:
    """Whether a text says that there is no answer: "I do not know", "cannot be determined", "N/A"."""
    return len(text) <= _MAX_READ and bool(_DECLINES.fullmatch(text.strip(" .!*_\"'")))


def with_letters(choices: tuple[str, ...]) -> list[tuple[str, str]]:
    """The options with their letters: ``[("A", first), ("B", second), ...]``."""
    return list(zip(string.ascii_uppercase, choices, strict=False))


# Tasks.

Scale = Literal["right", "ambiguity_resolved", "quality"]


class Example(TypedDict):
    """A worked example in prompts."""

    question: str
    reasoning: str
    """The steps to the answer, without the answer itself."""
    answer: str
    choices: NotRequired[Sequence[str]]


class BaseTask:
    """What a task is. An own one sets a name, instructions and examples; the rest has defaults.

    A task need not inherit from it: any object with ``name``, ``instructions``, ``examples``, ``read``, ``same`` and
    ``accepts`` is one.
    """

    name: str
    instructions: str = ""
    """What prompts say about the form of an answer. Built-in tasks use ``prompts/tasks/<name>.yaml`` instead."""
    examples: Sequence[Example] = ()
    """At least two worked examples with different answers; few-shot prompts show the first four."""
    metrics: Sequence[Any] = ("match",)
    """Metrics: names (:data:`madke.scoring.metrics.METRICS`, or ``module:object``), those of :func:`madke.metric`, or
    functions of answer and question. The first is "correct or not"."""
    scales: tuple[Scale, ...] = ("right",)
    """By what people grade an answer, on a sheet of ``madke annotate``: right and ambiguity_resolved are yes or no,
    quality is 1 to 5."""
    choices: Sequence[str] = ()
    """The possible answers, if they are the same for every question."""
    reads_last_number: bool = False
    """Whether answers are numbers or expressions. Then numbers in brackets are not citations, and the last number of a
    reply is its answer if no answer is marked."""
    reads_whole_line: bool = False
    """Whether answers are whole texts, such as translations: after "Answer:" the line is not shortened."""
    is_list: bool = False
    """Whether answers are lists with semicolons: see the task ``answer_list``."""
    is_prose: bool = False
    """Whether answers are texts of several sentences that cite, which no matcher compares: see the task ``text``."""
    cites: bool = False
    """Whether debaters are asked to quote the passage that shows their answer, as with ``cite: true``."""

    is_in_passages: bool = True
    """Whether a passage can show that an answer is right: not the result of a calculation, or a whole text."""

    def read(self, text: str, question: Question) -> str | None:
        """The canonical answer in the text inside a marker; None if the text is not an answer.

        Here: the text without quotes and emphasis, or one of ``choices`` as spelled there.
        """
        answer = bare(text)
        if self.choices:
            return next((choice for choice in self.choices if choice.casefold() == answer.casefold()), None)
        return answer if answer and not declines(answer) else None

    def asks_yes_or_no(self, question: Question) -> bool:
        """Whether a sentence that begins with Yes or No answers the question."""
        return False

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether two answers are the same, for agreement and votes: reflexive and symmetric. Here: ignoring case."""
        return a.casefold() == b.casefold()

    def clearly_differ(self, a: str, b: str, question: Question) -> bool:
        """Whether two answers that are not the same differ so that no judge is needed: here, those of a fixed list."""
        return bool(self.choices or question.choices)

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether an answer is right. Here: whether it is the same as any gold."""
        return any(self.same(answer, gold, question) for gold in question.answers)

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """Whether a passage contains the answer: its words, in order. None: such an answer cannot be looked up."""
        return has_words(text, answer) if self.is_in_passages and not (self.choices or question.choices) else None

    def check(self, question: Question) -> str | None:
        """What is wrong with a question of this task in a dataset; None if nothing is."""
        wrong = [answer for answer in question.answers if self.choices and answer not in self.choices]
        return f"golden answer {wrong[0]!r} of a {self.name} is not one of {', '.join(self.choices)}" if wrong else None

    @cached_property
    def wording(self) -> Mapping[str, Any] | None:
        """The task's prompt texts, with the keys of ``prompts/tasks/<name>.yaml``; None for built-in tasks."""
        if not self.instructions:
            return None
        return {
            "noun": "Question",
            "form": self.instructions,
            "reasoning": "Write a few short sentences. The first ones give your reasons.",
            "answer": "the answer",
            "is_prose": self.is_prose,
            "examples": tuple(self.examples),
        }


class _Completed(BaseTask):
    """A task that does not inherit from :class:`BaseTask`, with its defaults for missing members."""

    def __init__(self, task: Any) -> None:
        vars(self).update({name: getattr(task, name) for name in dir(task) if not name.startswith("_")})


REQUIRED = ("name", "instructions", "examples", "read", "same", "accepts")


def as_task(name: str, value: Any) -> BaseTask:
    """A custom task (or task class) with defaults for missing members; a UserError if it is not a task."""
    task = value() if isinstance(value, type) else value
    if missing := [part for part in REQUIRED if not getattr(task, part, None)]:
        raise UserError(f"task {name!r} lacks {missing[0]!r}; a task needs {', '.join(REQUIRED)}")
    for example in task.examples:
        if lacking := {"question", "reasoning", "answer"}.difference(example):
            raise UserError(f"task {name!r}: an example lacks {min(lacking)!r}; found {example!r}")
    for scale in getattr(task, "scales", ()):
        if scale not in get_args(Scale):
            raise unknown(f"scale of task {name!r}", scale, get_args(Scale))
    if len({example["answer"] for example in task.examples}) < 2:
        raise UserError(f"task {name!r}: expected at least two examples with different answers")
    return task if isinstance(task, BaseTask) else _Completed(task)
