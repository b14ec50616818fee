"""The columns of question files: which names mean what, and what was understood of a file."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from madke.core.errors import UserError, count_of
from madke.data.rows import Row, naming, short

_GOLDS = (
    "golden_answers", "gold_answers", "golden_answer", "gold_answer", "ground_truth", "ground_truths",
    "ground_truth_answer", "ground_truth_answers", "reference_answer", "reference_answers", "expected_output",
    "expected_outputs", "expected_answer", "expected_answers", "correct_answer", "best_answer",
)  # fmt: skip
"""Names that can only mean golds. Next to one, ``answer`` is what a system said."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "qid", "question_id", "query_id"),
    "question": ("question", "query", "prompt", "user_input", "input", "column_1"),
    "answers": (
        *_GOLDS, "answers", "answer", "answer_key", "short_answers", "short_answer", "target", "reference", "expected",
        "gold", "golden", "truth", "ideal", "correct_option", "correct_choice", "correct", "answer_index", "answer_idx",
        "column_2",
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
_ALIKE = 0.8
_MOST_COLUMNS = 10_000
_SHOWN = 8

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
class Found:
    """The columns of one row that are used."""

    names: Mapping[str, str]
    """Field of a question -> its column; without the golds."""
    golds: tuple[str, ...] = ()
    """The columns of golds: that of the answer, then those of aliases."""
    wrong: tuple[str, ...] = ()
    """Columns of wrong answers."""
    options: tuple[str, ...] = ()
    """Columns with one option each, in order, of a file without a column of ``choices``."""


@dataclass(kw_only=True)
class Columns:
    """The columns of a file as far as it was read; the keys of JSON objects may differ.

    ``given`` (field of a question -> column) is what the user said of them.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    used: dict[str, dict[str, None]] = field(default_factory=dict)
    """Field of a question -> the columns found."""
    unused: dict[str, None] = field(default_factory=dict)
    said: dict[str, None] = field(default_factory=dict)
    """Columns that hold what a system said."""
    given_found: set[str] = field(default_factory=set)
    """Fields whose given column a row has."""
    made_ids: bool = False
    golds: int = 0
    example: tuple[int, Sequence[str]] = (-1, ())
    """The golds of one question, with a rank: 2 for a cell that was split, or could have been; 1 for several golds."""
    _known: dict[tuple[str, ...], Found] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the forms of field names that files have, too; UserError for an unknown field."""
        fields = {_FIELD_OF.get(_plain(name), ""): column for name, column in self.given.items()}
        if "" in fields:
            wrong = next(name for name in self.given if _plain(name) not in _FIELD_OF)
            raise UserError(f"--columns: {wrong!r} is no field of a question; expected {', '.join(COLUMNS)}")
        self.given = fields

    def is_header(self, row: Row) -> bool:
        """Whether the keys of a row are names of columns, perhaps misspelt, and not data; UserError as for `find`."""
        refuse_many(row)
        names = {*map(_plain, row.fields)}
        named = {_plain(column) for column in self.given.values()}
        if not names & (_FIELD_OF.keys() | named) and not any(_meant(name, _SUGGESTED) for name in names):
            return False
        self.find(row)
        return True

    def find(self, row: Row) -> Found:
        """The columns of the row; UserError without a question, with a misspelt name, or with too many names."""
        refuse_many(row)
        keys = tuple(row.fields)
        if keys not in self._known:
            self._known[keys] = self._find(row, keys)
        return self._known[keys]

    def _find(self, row: Row, keys: Sequence[str]) -> Found:
        by_name = {_plain(name): name for name in reversed(keys)}
        found: dict[str, str] = {}
        for key, column in self.given.items():
            if column in keys or _plain(column) in by_name:
                found[key] = column if column in keys else by_name[_plain(column)]
        self.given_found.update(found)
        has_gold = any(_plain(name) in by_name for name in COLUMNS["answers"])
        is_said = not by_name.keys().isdisjoint(map(_plain, (*_GOLDS, *_CONTEXTS)))
        said = {by_name[name] for name in ("answer",) if name in by_name and is_said}
        taken = {*found.values(), *said}
        skipped = {*self.given, *(["aliases"] if "answers" in self.given else [])}
        for key in (key for key in COLUMNS if key not in skipped):
            usable = (by_name[_plain(n)] for n in COLUMNS[key] if _plain(n) in by_name and (n != "input" or has_gold))
            if name := next((name for name in usable if name not in taken), None):
                found[key] = name
        if "question" not in found:
            raise row.error(self._without_question(keys))
        golds = [found.pop(key) for key in ("answers", "aliases") if key in found]
        if "answers" not in self.given:
            golds += [name for name in keys if _FIELD_OF.get(_plain(name)) == "aliases" and name not in golds]
        options = () if "choices" in found else _option_columns(row, keys)
        rest = [name for name in keys if str(name).strip() and name not in (*found.values(), *golds, *options)]
        missing = [key for key in _SUGGESTED if key not in found and not (key == "answers" and golds)]
        for name in rest:
            if _plain(name) not in _FIELD_OF and (meant := _meant(name, missing)):
                raise row.error(f"unknown field {short(name)}; did you mean {meant!r}?")
        wrong = tuple(name for name in rest if _WRONG.fullmatch(_plain(name)))
        self.said.update(dict.fromkeys(name for name in rest if name in said))
        self.unused.update(dict.fromkeys(name for name in rest if name not in (*said, *wrong)))
        used = {key: [name] for key, name in found.items()} | {"answers": golds}
        for key, names in (*used.items(), ("choices", options), ("wrong answers", wrong)):
            self.used.setdefault(key, {}).update(dict.fromkeys(names))
        self.made_ids |= "id" not in found
        return Found(names=found, golds=tuple(golds), wrong=wrong, options=options)

    def _without_question(self, keys: Sequence[str]) -> str:
        if "question" in self.given:
            return f"expected the column {self.given['question']!r} that --columns names, found {_listed(keys)}"
        hint = "; did you mean 'question'?" if any(_meant(name, ["question"], 0.6) for name in keys) else ""
        how = f"; say which column is which, for example {naming(keys)}" if keys else ""
        listed = ", ".join(short(name) for name in keys[:_SHOWN]) or "nothing"
        return f"expected a field 'question', 'query' or 'prompt', found {listed}{hint}{how}"

    def add_golds(self, golds: Sequence[str], *, split: bool) -> None:
        """Count the golds of one question. ``split``: they were one cell."""
        self.golds += len(golds)
        rank = 2 if split or any(";" in gold or "|" in gold for gold in golds) else int(len(golds) > 1)
        if golds and rank > self.example[0]:
            self.example = rank, golds

    def is_plain(self, *, of_file: bool) -> bool:
        """Whether all is read, no cell was split and, of a file, all has madke's own names."""
        own = {*COLUMNS} - {"aliases", "answers"} | {"golden_answers"}
        other = {name for names in self.used.values() for name in names} - own
        is_own = not other and not self.made_ids
        return not self.unused and not self.said and self.example[0] < 2 and (is_own or not of_file)

    def line(self, count: int, repeated: int) -> str:
        """What was understood, in one line, of so many questions, of which some repeat the text of another."""
        parts = [f"question from {_listed(self.used['question'])}"]
        answers = self.used.get("answers")
        parts.append(f"answers from {_listed(answers)}" if answers else "no answers (--columns answers=NAME)")
        ids = self.used.get("id")
        parts.append(f"ids from {_listed(ids)}" if ids else "ids made from the text")
        parts += [
            f"{key} from {_listed(self.used[key])}"
            for key in ("choices", "wrong answers", "task", "metadata")
            if self.used.get(key)
        ]
        if repeated:
            parts.append(f"{repeated:,} with the text of an earlier question")
        if self.said:
            parts.append(f"taken for what a system said: {_listed(self.said)}")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return f"{self.counts(count)}; {', '.join(parts)}"

    def counts(self, count: int) -> str:
        """How many golds were read of so many questions, with those of one question as an example."""
        if not self.golds:
            return f"{count_of(count, 'question')}, no golds"
        each = [f"{' '.join(gold.split())[:40]!r}" for gold in self.example[1]]
        more = f" and {len(each) - 3} more" if len(each) > 3 else ""
        golds = f"{count_of(self.golds, 'gold')}, such as {' or '.join(each[:3])}{more} for one question"
        return f"{count_of(count, 'question')}, {golds}"


def refuse_many(row: Row) -> None:
    """UserError if a row has more columns than a file of questions can need; comparing their names takes long."""
    if len(row.fields) > _MOST_COLUMNS:
        raise row.error(f"found {len(row.fields):,} columns; expected at most {_MOST_COLUMNS:,}")


def _meant(name: object, fields: Iterable[str], cutoff: float = _ALIKE) -> str | None:
    """The usual name of one of these fields, of which this one is probably a misspelling."""
    known = {_plain(each): each for key in fields for each in _SUGGESTED[key]}
    near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=cutoff)
    return known[near[0]] if near else None


def _option_columns(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    """The columns of options in order, if at least the first two are there; UserError if one between is missing."""
    series: dict[tuple[str, bool], dict[int, str]] = {}
    for name in keys:
        found = _OPTION.fullmatch(str(name).strip().casefold())
        if found and (found["word"] or found["place"].isalpha()):
            place = found["place"]
            at = ascii_lowercase.index(place) if place.isalpha() else int(place)
            series.setdefault((found["word"] or "", place.isalpha()), {})[at] = name
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


def _listed(names: Iterable[str]) -> str:
    every = [f"`{' '.join(str(name).split())[:40]}`" for name in names]
    return ", ".join(every[:_SHOWN]) + (f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else "")
