"""Questions from the rows of files and from Python's own records; the project's own form of a question.

:class:`Columns` tells which columns mean what, and what was understood of a file.
"""

import difflib
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Any

from pydantic import Field

from madke._util.assets import asset
from madke.core.errors import UserError, count_of, short
from madke.core.question import Question
from madke.data.rows import Row, is_ambiguous, naming
from madke.tasks import TASKS, get_task
from madke.tasks.base import with_letters
from madke.tasks.choice import Choice

_GOLDS = (
    "golden_answers", "gold_answers", "golden_answer", "gold_answer", "ground_truth", "ground_truths",
    "ground_truth_answer", "ground_truth_answers", "reference_answer", "reference_answers", "expected_output",
    "expected_outputs", "expected_answer", "expected_answers", "correct_answer", "best_answer",
)  # fmt: skip
"""Names that can only mean golds. Next to one, ``answer`` is what a system said."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "qid", "question_id", "query_id"),
    "question": ("question", "query", "prompt", "user_input", "input"),
    "answers": (
        *_GOLDS, "answers", "answer", "answer_key", "short_answers", "short_answer", "target", "reference", "expected",
        "gold", "golden", "truth", "ideal", "correct_option", "correct_choice", "correct", "answer_index", "answer_idx",
    ),
    "aliases": (
        "aliases", "alias", "answer_aliases", "answer_alias", "possible_answers", "correct_answers", "accepted_answers",
        "acceptable_answers", "alternative_answers", "other_answers", "gold_aliases",
    ),
    "choices": ("choices", "options", "answer_choices", "answer_options"),
    "instructions": ("instructions",),
    "task": ("task",),
    "metadata": ("metadata",),
}  # fmt: skip
"""Field of a question -> the names of its column, the first one preferred. Only letters and digits are compared."""

_CONTEXTS = ("contexts", "retrieved_contexts", "retrieval_context")
_SUGGESTED = {
    "question": ("question", "query", "prompt"),
    "answers": ("golden_answers", "answers", "answer", "ground_truth", "expected_output"),
    "choices": ("choices",),
    "instructions": ("instructions",),
    "metadata": ("metadata",),
}
"""Field -> the names of which a column may be a misspelling."""
_MIN_SIMILARITY = 0.8
_MAX_LISTED = 8

_WRONG = re.compile("(incorrect|wrong|false).*answers?")

_OPTION = re.compile(r"(?:(?P<word>options?|choices?)[\s_/.-]*)?(?P<place>[a-z]|\d{1,2})")
"""The column of one option: ``A``, ``option_a``, ``choices/0``."""


def _plain(name: object) -> str:
    return re.sub(r"[\W_]+", "", str(name)).casefold()


_FIELD_OF = {_plain(name): field_ for field_, names in COLUMNS.items() for name in names}


def columns_from(text: str) -> dict[str, str]:
    """Field -> column, of ``question=Frage,answers=Antwort``; UserError for another form."""
    pairs = [part.partition("=") for part in re.split(r",(?=\s*\w+\s*=)", text)]
    if not all(equals and column.strip() for _, equals, column in pairs):
        raise UserError(f"--columns {text!r}: expected FIELD=COLUMN,..., for example question=Frage,answers=Antwort")
    return {name.strip(): column.strip() for name, _, column in pairs}


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnRoles:
    """What the columns of a row mean."""

    names: Mapping[str, str]
    """Field of a question -> its column; without the golds."""
    golds: tuple[str, ...] = ()
    """The columns of golds: that of the answer, then those of aliases."""
    wrong: tuple[str, ...] = ()
    """Columns of wrong answers."""
    options: tuple[str, ...] = ()
    """Columns with one option each, in order, of a file without a column of ``choices``."""
    reply_columns: tuple[str, ...] = ()
    """Columns that hold what a system said."""
    unused: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Columns:
    """The columns of a file as far as it was read; the keys of JSON objects may differ.

    ``overrides`` (field of a question -> column) is what the user said of them.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    roles: dict[tuple[str, ...], ColumnRoles] = field(default_factory=dict)
    """By the keys of rows."""

    def __post_init__(self) -> None:
        """Take the forms of field names that files have, too; UserError for an unknown field."""
        if wrong := [name for name in self.overrides if _plain(name) not in _FIELD_OF]:
            raise UserError(f"--columns: {wrong[0]!r} is no field of a question; expected {', '.join(COLUMNS)}")
        self.overrides = {_FIELD_OF[_plain(name)]: column for name, column in self.overrides.items()}

    def is_header(self, row: Row) -> bool:
        """Whether the keys of a row are names of columns, perhaps misspelt, and not data; UserError as for `find`."""
        names = {*map(_plain, row.fields)}
        named = {_plain(column) for column in self.overrides.values()}
        if not names & (_FIELD_OF.keys() | named) and not any(_probable_name(name, _SUGGESTED) for name in names):
            return False
        self.find(row)
        return True

    def find(self, row: Row) -> ColumnRoles:
        """The columns of the row; UserError without a question, or with a misspelt name."""
        keys = tuple(row.fields)
        if keys not in self.roles:
            self.roles[keys] = self._find(row, keys)
        return self.roles[keys]

    def _find(self, row: Row, keys: Sequence[str]) -> ColumnRoles:
        by_name = {_plain(name): name for name in reversed(keys)}
        overrides = self.overrides.items()
        columns = {key: column if column in keys else by_name.get(_plain(column)) for key, column in overrides}
        names = {key: name for key, name in columns.items() if name is not None}
        has_reply = not by_name.keys().isdisjoint(map(_plain, (*_GOLDS, *_CONTEXTS)))
        reply_names = {by_name[name] for name in ("answer",) if name in by_name and has_reply} - {*names.values()}
        has_gold = any(_plain(name) in by_name for name in COLUMNS["answers"])
        for key, known in COLUMNS.items():
            if key not in self.overrides and not (key == "aliases" and "answers" in self.overrides):
                usable = [by_name[_plain(n)] for n in known if _plain(n) in by_name and (n != "input" or has_gold)]
                taken = {*reply_names, *names.values()}
                if name := next((name for name in usable if name not in taken), None):
                    names[key] = name
        if "question" not in names:
            raise row.error(self._without_question(keys))
        golds = [names.pop(key) for key in ("answers", "aliases") if key in names]
        if "answers" not in self.overrides:
            golds += [name for name in keys if _FIELD_OF.get(_plain(name)) == "aliases" and name not in golds]
        options = () if "choices" in names else _option_columns(row, keys)
        rest = [name for name in keys if str(name).strip() and name not in (*names.values(), *golds, *options)]
        missing = [key for key in _SUGGESTED if key not in names and not (key == "answers" and golds)]
        for name in rest:
            if _plain(name) not in _FIELD_OF and (meant := _probable_name(name, missing)):
                raise row.error(f"unknown field {short(name)}; did you mean {meant!r}?")
        wrong = tuple(name for name in rest if _WRONG.fullmatch(_plain(name)))
        return ColumnRoles(
            names=names,
            golds=tuple(golds),
            wrong=wrong,
            options=options,
            reply_columns=tuple(name for name in rest if name in reply_names),
            unused=tuple(name for name in rest if name not in reply_names and name not in wrong),
        )

    def _without_question(self, keys: Sequence[str]) -> str:
        if "question" in self.overrides:
            return f"expected the column {self.overrides['question']!r} that --columns names, found {_list_text(keys)}"
        hint = "; did you mean 'question'?" if any(_probable_name(name, ["question"], 0.6) for name in keys) else ""
        example = f"; say which column is which, for example {naming(keys)}; a published file needs --dataset NAME"
        how = example if keys else ""
        listed = ", ".join(short(name) for name in keys[:_MAX_LISTED]) or "nothing"
        return f"expected a field 'question', 'query' or 'prompt', found {listed}{hint}{how}"

    def line(self, questions: Sequence[Question], repeated: int) -> str:
        """What was understood, in one line, of these questions, of which some repeat the text of another."""
        roles = self.roles.values()
        used: dict[str, list[str]] = {key: [each.names[key] for each in roles if key in each.names] for key in COLUMNS}
        used["answers"] = [name for each in roles for name in each.golds]
        used["choices"] += [name for each in roles for name in each.options]
        used["wrong answers"] = [name for each in roles for name in each.wrong]
        used["taken for what a system said:"] = [name for each in roles for name in each.reply_columns]
        used["not used:"] = [name for each in roles for name in each.unused]
        parts = [
            f"question from {_list_text(used['question'])}",
            f"answers from {_list_text(used['answers'])}" if used["answers"] else "no answers (--columns answers=NAME)",
            f"ids from {_list_text(used['id'])}" if used["id"] else "ids made from the text",
        ]
        for key in ("choices", "wrong answers", "task", "metadata"):
            parts += [f"{key} from {_list_text(used[key])}"] if used[key] else []
        parts += [f"{repeated:,} with the text of an earlier question"] if repeated else []
        parts += [f"{key} {_list_text(used[key])}" for key in (*used,) if key.endswith(":") and used[key]]
        return f"{counts(questions)}; {', '.join(parts)}"


def counts(questions: Sequence[Question]) -> str:
    """How many questions and golds there are, with the golds of one question as an example."""
    example = max(questions, key=lambda question: len(question.answers)).answers
    if not example:
        return f"{count_of(len(questions), 'question')}, no golds"
    each = [f"{' '.join(gold.split())[:40]!r}" for gold in example]
    more = f" and {len(each) - 3} more" if len(each) > 3 else ""
    golds = count_of(sum(len(question.answers) for question in questions), "gold")
    shown = f"{' or '.join(each[:3])}{more}"
    return f"{count_of(len(questions), 'question')}, {golds}, such as {shown} for one question"


def _probable_name(name: object, fields: Iterable[str], cutoff: float = _MIN_SIMILARITY) -> str | None:
    """The usual name of one of these fields, of which this one is probably a misspelling."""
    known = {_plain(each): each for key in fields for each in _SUGGESTED[key]}
    near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=cutoff)
    return known[near[0]] if near else None


def _option_columns(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    """The columns of options in order, if at least the first two are there; UserError if one between is missing."""
    series: dict[tuple[str, bool], dict[int, str]] = {}
    for name in keys:
        match = _OPTION.fullmatch(str(name).strip().casefold())
        if match and (match["word"] or match["place"].isalpha()):
            place = match["place"]
            at = ascii_lowercase.index(place) if place.isalpha() else int(place)
            series.setdefault((match["word"] or "", place.isalpha()), {})[at] = name
    for (word, letters), named in sorted(series.items(), reverse=True):
        start = min(named)
        places = range(start, start + len(named))
        if len(named) < 2 or start > (0 if letters else 1) or (not word and 1 not in named):
            continue
        if missing := [at for at in places if at not in named]:
            listed = ", ".join(f"`{named[at]}`" for at in sorted(named))
            expected = ascii_lowercase[missing[0]].upper() if letters else str(missing[0])
            raise row.error(f"columns {listed} are options without {expected}; rename columns that are no options")
        return tuple(named[at] for at in places)
    return ()


def _list_text(names: Iterable[str]) -> str:
    every = [f"`{' '.join(str(name).split())[:40]}`" for name in dict.fromkeys(names)]
    more = len(every) - _MAX_LISTED
    return ", ".join(every[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


_log = logging.getLogger(__name__)

Id = Annotated[str, Field(pattern=r"\S", coerce_numbers_to_str=True)]
"""An id in a file: a text, or a number that is converted to text."""

_SHIPPED = asset("eval", "samples")
_MAX_ALIAS_WORDS = 5
"""Words of an alias in a cell with semicolons or line ends."""


def questions_in(
    rows: Iterable[Row], path: Path | None, columns: Columns | None = None, *, task: str | None = None
) -> list[Question]:
    """The questions in the rows of a file of your own, in order. Logs what was understood as what.

    The fields are ``question``, and optionally ``id``, ``golden_answers``, ``choices``, ``instructions``, ``task`` and
    ``metadata``; :data:`madke.data.questions.COLUMNS` has their other names. Without ids, questions get a hash of their
    text, and a number if texts repeat. With ``choices``, golden answers are letters, texts of options, or 0-based
    indices as JSON numbers; all become letters.

    ``path`` is None for questions of the caller's own list. ``task`` applies to questions without a task; default:
    ``choice`` for those with choices, else ``short_answer``.

    Raises:
        UserError: The file or an entry is invalid; the message names the line. Or ``task`` would apply to no question.
    """
    if task is not None:
        TASKS[task]
    columns = columns or Columns()
    place_of: dict[str, str] = {}
    repeats: Counter[str] = Counter()
    questions = []
    for row in rows:
        roles = columns.find(row)
        question = _question(row, roles, task)
        if question.id in place_of and "id" in roles.names:
            raise row.error(f"id {question.id!r} is already on {place_of[question.id]}; expected each once")
        if question.id in place_of:
            repeats[question.id] += 1
            question = replace(question, id=f"{question.id}-{repeats[question.id] + 1}")
        place_of[question.id] = row.place
        questions.append(question)
    if not questions:
        raise UserError("the file contains no question" if path else "no questions were given", file=path)
    every = {name for keys in columns.roles for name in map(_plain, keys)}
    if lost := [f"{key}={name}" for key, name in columns.overrides.items() if _plain(name) not in every]:
        raise UserError(f"--columns {lost[0]}: no row has this column", file=path)
    if task is not None and all(question.task != task for question in questions):
        theirs = ", ".join(sorted({question.task for question in questions}))
        raise UserError(f"each question names its own task ({theirs}), so {task} would apply to none", file=path)
    line = columns.line(questions, repeats.total())
    if path is not None:
        say_once(path, line)
    elif any(each.reply_columns or each.unused for each in columns.roles.values()):
        _log.warning("questions: %s", line)
    return questions


@cache
def say_once(path: Path, line: str) -> None:
    """Log what was read of a file, unless madke ships it; a command may read it for a plan, and again for the run."""
    if path.absolute().parent != _SHIPPED:
        _log.warning("%s: %s", path, line)


def questions_of_records(
    records: Iterable[Question | Mapping[str, Any] | str],
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Question]:
    """The questions of the caller's own list. A mapping is read as the same object in a JSON Lines file."""
    rows = (Row(fields=_fields(each), file=None, number=number) for number, each in enumerate(records, start=1))
    return questions_in(rows, None, Columns(overrides=columns or {}), task=task)


def question_from_fields(record: Mapping[str, Any], task: str | None = None) -> Question:
    """The question of one mapping; see :func:`questions_in`."""
    return questions_of_records([record], task=task)[0]


def _fields(record: Question | Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(record, str):
        return {"question": record}
    if not isinstance(record, Question):
        return {name: _plain_value(value) for name, value in record.items()}
    values = {each.name: _plain_value(getattr(record, each.name)) for each in fields(record)}
    if not record.id:
        del values["id"]
    if record.task == Question(question="").task:  # nobody chose it
        del values["task"]
    return values


def _plain_value(value: Any) -> Any:
    """A list for tuples, sets and arrays; Python's own numbers."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _question(row: Row, roles: ColumnRoles, task: str | None) -> Question:
    """The question of a row, whose fields are in these columns."""
    values = {key: row.fields[name] for key, name in roles.names.items()}
    values = {key: None if _is_empty(value) and key != "id" else value for key, value in values.items()}
    text = row.check_text(row.fields[roles.names["question"]], roles.names["question"])
    options, labels = _options(row, roles)
    if (own_task := values.get("task")) is not None:
        task = row.check_text(own_task, roles.names["task"])
    task = task or (Choice.name if options else Question(question="").task)
    try:
        checked = get_task(task).check
    except UserError as error:
        raise row.error(str(error)) from None
    golds: list[str] = []
    for place, name in enumerate(roles.golds):
        golds += _texts(row, name, task, several=place > 0, options=options, labels=labels)
    metadata = row.parse_value(values.get("metadata") or {}, roles.names.get("metadata", ""))
    if not isinstance(metadata, Mapping):
        raise row.error(f"{roles.names['metadata']!r} is {short(metadata)}; expected an object")
    if wrong := [text for name in roles.wrong for text in _texts(row, name, task, several=True)]:
        metadata = {"wrong_answers": list(dict.fromkeys(wrong)), **metadata}
    instructions = values.get("instructions")
    question = Question(
        id=row.check_text(values["id"], roles.names["id"]) if "id" in values else id_of(text),
        question=text,
        answers=tuple(dict.fromkeys(golds)),
        task=task,
        choices=options,
        instructions="" if instructions is None else row.check_text(instructions, roles.names["instructions"]),
        metadata=metadata,
    )
    if fault := checked(question):
        raise row.error(fault)
    return question


def _is_empty(value: Any) -> bool:
    """Whether a cell has no value: nothing, blanks, an empty list, or not a number, as pandas writes it."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == [] or (isinstance(value, float) and math.isnan(value))


def _options(row: Row, roles: ColumnRoles) -> tuple[tuple[str, ...], list[str]]:
    """The options of a question, and the names that the file gives them, if it does (ARC: letters or numbers).

    They are a list, ``{"text": [...], "label": [...]}``, ``{"A": ...}``, or in a column each.
    """
    if roles.options:
        values = [(name, row.fields[name]) for name in roles.options]
        while values and _is_empty(values[-1][1]):
            values.pop()
        return tuple(row.check_text(value, name) for name, value in values), []
    name = roles.names.get("choices", "")
    value = row.parse_value(row.fields[name], name, any_list=True) if name else None
    if _is_empty(value):
        return (), []
    texts, labels = value, []
    if isinstance(value, Mapping) and value:
        is_table = set(value) == {"text", "label"}
        texts, labels = (value["text"], value["label"]) if is_table else ([*value.values()], [*value])
        if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len({*map(str, labels)}):
            raise row.error(f"{name!r} is {short(value)}; expected as many distinct labels as texts")
    if not isinstance(texts, list):
        raise row.error(f"{name!r} is {short(value)}; expected a list such as ['a', 'b'], or columns A, B, C ...")
    return tuple(row.check_text(text, name) for text in texts), [row.check_text(label, name) for label in labels]


def _texts(
    row: Row, name: str, task: str, *, several: bool, options: Sequence[str] = (), labels: Sequence[str] = ()
) -> list[str]:
    """The answers in one column; of a choice, letters.

    They are a text, a list, SQuAD's ``{"text": [...]}``, or TriviaQA's ``{"value": ..., "aliases": [...]}``.
    ``several``: the column's name says that it may have many answers.
    """
    value = row.parse_value(row.fields[name], name)
    if _is_empty(value):
        return []
    if isinstance(value, str) and is_ambiguous(value):
        one, many = f"[{value!r}]", "['1', '2']"
        raise row.error(f"{name!r} is {short(value)}: one answer or several? Write {one}, or a list such as {many}")
    if isinstance(value, str) and "\n#### " in value:
        raise row.error(f"{name!r} is {short(value)}, a worked solution; read GSM8K with --dataset gsm8k")
    value = _bare_answers(value)
    answers = [_bare_answers(each) for each in value] if isinstance(value, list) else [value]
    if options and task == Choice.name:
        return [_letter(row, answer, options, labels, name) for answer in answers]
    if isinstance(value, str) and task in ("short_answer", "answer_list"):
        answers = _aliases(value, several=several or task == "answer_list")
    read = row.answer if task == "short_answer" else row.check_text
    return [read(answer, name) for answer in answers]


def _bare_answers(value: Any) -> Any:
    """The answers in an object; any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    lower = {str(key).lower(): each for key, each in value.items()}
    if "text" in lower and set(lower) <= {"text", "answer_start"}:
        return lower["text"]
    if isinstance(lower.get("aliases"), list) and lower.get("value"):
        return [lower["value"], *lower["aliases"]]
    return value


def _aliases(cell: str, *, several: bool) -> list[str]:
    """The aliases in one cell: ``A|B``, ``A; B``, or one on each line; the cell itself if it is one answer.

    ``|`` always separates them, semicolons and line ends where each part is short or the column has ``several``. Signs
    within brackets do not count, nor do semicolons between parts that are not alike: one has a comma, another has none
    ("Crosby, Stills & Nash; live").
    """
    for sign in ("|", "\n", ";"):
        parts = [part.strip() for part in cell.split(sign)]
        whole = all(
            part and part.count("(") == part.count(")") and part.count("[") == part.count("]") for part in parts
        )
        alike = sign != ";" or len({"," in part for part in parts}) == 1
        short_parts = alike and all(len(part.split()) <= _MAX_ALIAS_WORDS for part in parts)
        if len(parts) > 1 and whole and (several or sign == "|" or short_parts):
            return parts
    return [cell]


def _letter(row: Row, answer: Any, options: Sequence[str], labels: Sequence[str], name: str) -> str:
    """The letter of the option that an answer names by its label, letter, text, or 0-based number."""
    letters = [letter for letter, _ in with_letters(tuple(options))]
    expected = f"expected a letter from A to {letters[-1]}" if letters else "expected a letter"
    if isinstance(answer, bool):
        raise row.error(f"{name!r} is {short(answer)}; {expected}, or the text of one option")
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if str(answer) in labels:
        return letters[labels.index(str(answer))]
    if isinstance(answer, int):
        if answer not in range(len(letters)):
            raise row.error(f"{name!r} contains {answer!r}; expected indices from 0 to {len(letters) - 1}")
        return letters[answer]
    text = row.check_text(answer, name)
    if re.fullmatch(r"\d{1,2}", text.strip()) and int(text) <= len(letters):
        why = "0-based numbers are for JSON, without quotes"
        raise row.error(f"{name!r} is {short(answer)}; {expected} ({why})")
    if text not in letters and list(options).count(text) == 1:  # an option may be named by a letter
        return letters[list(options).index(text)]
    letter = Choice().read(text, Question(question="", choices=tuple(options)))
    if letter is None:
        raise row.error(f"{name!r} is {short(answer)}; {expected}, or the text of one option")
    return letter


def id_of(text: str) -> str:
    """The id of a question that has none: a hash of its text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def question_to_json(question: Question) -> bytes:
    """The question as a line of a question file, without the newline; reading it gives an equal question."""
    item = {
        "id": question.id,
        "question": question.question,
        "task": question.task,
        "golden_answers": question.answers,
        "choices": question.choices,
        "instructions": question.instructions,
        "metadata": question.metadata,
    }
    kept = {key: value for key, value in item.items() if value or key not in ("choices", "instructions", "metadata")}
    return json.dumps(kept, ensure_ascii=False).encode()
