"""The columns of question files: which names mean what, and what was understood of a file."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase

from madke.core.errors import count_of
from madke.data.published_rows import Row, short

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "qid", "question_id", "query_id"),
    "question": ("question", "query", "prompt", "user_input", "input", "column_1"),
    "golden_answers": (
        "golden_answers", "answers", "answer", "answerkey", "answer_key", "target", "reference", "column_2",
    ),
    "choices": ("choices", "options"),
    "instructions": ("instructions",),
    "task": ("task",),
    "metadata": ("metadata",),
}  # fmt: skip
"""Field of a question -> the names of its column, the first one preferred; case, spaces and hyphens do not matter."""

_ONLY_WITH = {"input": "target", "target": "input", "reference": "user_input"}
"""A name that means something else alone -> the name that makes a pair with it, in Inspect's and ragas' files."""

_NAMES = {name: key for key, names in COLUMNS.items() for name in names}
_SUGGESTED = [
    name
    for name, key in _NAMES.items()
    if key not in ("id", "task")
    and name not in {"answerkey", "answer_key", "options", *_ONLY_WITH, "column_1", "column_2"}
]
_ALIKE, _LESS_ALIKE = 0.8, 0.6
_MOST_COLUMNS = 10_000
_SHOWN = 8

_OPTION = re.compile(r"(?:(?P<word>option|options|choice|choices)[_/.]?)?(?P<place>[a-z]|\d{1,2})")
"""The column of one option: ``A``, ``option_a``, ``choices/0``."""


def refuse_many(row: Row, count: int) -> None:
    """UserError if a row has more columns than a file of questions can need; comparing their names takes long."""
    if count > _MOST_COLUMNS:
        raise row.error(f"found {count:,} columns; expected at most {_MOST_COLUMNS:,}")


def _plain(name: object) -> str:
    return str(name).strip().casefold().replace(" ", "_").replace("-", "_")


def is_header(cells: Iterable[str]) -> bool:
    """Whether the first row of a table has the name of a column, perhaps misspelt."""
    names = [_plain(cell) for cell in cells]
    return any((name in _NAMES and _ONLY_WITH.get(name, name) in names) or _meant(name, _SUGGESTED) for name in names)


def _meant(name: object, known: Iterable[str], cutoff: float = _ALIKE) -> str | None:
    """The known name of which this one is probably a misspelling."""
    return next(iter(difflib.get_close_matches(_plain(name), known, n=1, cutoff=cutoff)), None)


def _option_columns(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    """The columns of options in order, if at least the first two are there; UserError if one between is missing."""
    series: dict[tuple[str, bool], dict[int, str]] = {}
    for name in keys:
        if (found := _OPTION.fullmatch(_plain(name))) and (found["word"] or found["place"].isalpha()):
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The columns of one row that are used."""

    names: Mapping[str, str]
    """Field of a question -> its name in the row."""
    options: tuple[str, ...] = ()
    """Columns with one option each, in order, of a file without a column of ``choices``."""


@dataclass(kw_only=True)
class Columns:
    """The columns of a file as far as it was read; the keys of JSON objects may differ."""

    used: dict[str, dict[str, None]] = field(default_factory=dict)
    """Field of a question -> the names found."""
    unused: dict[str, None] = field(default_factory=dict)
    made_ids: bool = False
    _known: dict[tuple[str, ...], Found] = field(default_factory=dict)

    def find(self, row: Row) -> Found:
        """The columns of the row; UserError without a question, with a misspelt name, or with too many names."""
        refuse_many(row, len(row.fields))
        keys = tuple(row.fields)
        if keys not in self._known:
            self._known[keys] = self._found(row, keys)
        return self._known[keys]

    def _found(self, row: Row, keys: Sequence[str]) -> Found:
        by_name = {_plain(name): name for name in reversed(keys)}
        found: dict[str, str] = {}
        for key, names in COLUMNS.items():
            # The answer of a pair is used only with its question.
            partners = by_name.keys() if key == "question" else {_plain(found.get("question"))}
            usable = (name for name in names if name not in _ONLY_WITH or _ONLY_WITH[name] in partners)
            if name := next((name for name in usable if name in by_name), None):
                found[key] = by_name[name]
        options = () if "choices" in found else _option_columns(row, keys)
        missing = [name for name in _SUGGESTED if _NAMES[name] not in found]
        unused = [name for name in keys if str(name).strip() and name not in (*found.values(), *options)]
        for name in unused:
            if meant := _meant(name, missing):
                raise row.error(f"unknown field {short(name)}; did you mean {meant!r}?")
        if "question" not in found:
            near = [meant for name in unused if (meant := _meant(name, ("question", "query", "prompt"), _LESS_ALIKE))]
            hint = f"; did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(short(name) for name in keys[:_SHOWN]) or "nothing"
            raise row.error(f"expected a field 'question', 'query' or 'prompt', found {listed}{hint}")
        for key, name in found.items():
            self.used.setdefault(key, {})[name] = None
        if options:
            self.used.setdefault("choices", {}).update(dict.fromkeys(options))
        self.unused.update(dict.fromkeys(unused))
        self.made_ids |= "id" not in found
        return Found(names=found, options=options)

    def is_plain(self) -> bool:
        """Whether the file has only the fields of madke's own form."""
        return not self.made_ids and not self.unused and all(list(names) == [key] for key, names in self.used.items())

    def line(self, file: Path, count: int, repeated: int) -> str:
        """What was understood, in one line, of so many questions, of which some repeat the text of another."""
        parts = [f"question from {_listed(self.used['question'])}"]
        answers = self.used.get("golden_answers")
        parts.append(f"answers from {_listed(answers)}" if answers else "no answers")
        ids = self.used.get("id")
        parts.append(f"ids from {_listed(ids)}" if ids else "ids made from the text")
        parts += [
            f"{key} from {_listed(self.used[key])}" for key in ("choices", "task", "metadata") if key in self.used
        ]
        if repeated:
            parts.append(f"{repeated:,} with the text of an earlier question")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return f"{file}: {count_of(count, 'question')}; {', '.join(parts)}"


def _listed(names: Iterable[str]) -> str:
    every = [f"`{' '.join(str(name).split())[:40]}`" for name in names]
    return ", ".join(every[:_SHOWN]) + (f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else "")
