"""Which columns (or keys) of a question file mean what."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from madke.core.wording import counted
from madke.data.published_rows import Row, short

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "qid", "question_id", "query_id"),
    "question": ("question", "query", "prompt", "column_1"),
    "golden_answers": ("golden_answers", "answers", "answer", "column_2"),
    "choices": ("choices",),
    "instructions": ("instructions",),
    "task": ("task",),
    "metadata": ("metadata",),
}
"""Field of a question -> the names of its column, the first one preferred; case, spaces and hyphens do not matter."""

_NAMES = {name: key for key, names in COLUMNS.items() for name in names}
_SUGGESTED = [name for name, key in _NAMES.items() if key not in ("id", "task") and not name.startswith("column")]
_ALIKE, _LESS_ALIKE = 0.8, 0.6
_SHOWN = 8


def _plain(name: object) -> str:
    return str(name).strip().casefold().replace(" ", "_").replace("-", "_")


def is_header(cells: Iterable[str]) -> bool:
    """Whether the first row of a table has the name of a column, perhaps misspelt."""
    return any(_plain(cell) in _NAMES or _meant(cell, _SUGGESTED) for cell in cells)


def _meant(name: object, known: Iterable[str], cutoff: float = _ALIKE) -> str | None:
    """The known name of which this one is probably a misspelling."""
    return next(iter(difflib.get_close_matches(_plain(name), known, n=1, cutoff=cutoff)), None)


@dataclass(kw_only=True)
class Columns:
    """The columns of a file as far as it was read; the keys of JSON objects may differ."""

    used: dict[str, dict[str, None]] = field(default_factory=dict)
    """Field of a question -> the names found."""
    unused: dict[str, None] = field(default_factory=dict)
    made_ids: bool = False
    _known: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)

    def names(self, row: Row) -> Mapping[str, str]:
        """Field of a question -> its name in the row; UserError without a question, or with a misspelt name."""
        keys = tuple(row.fields)
        if keys not in self._known:
            self._known[keys] = self._found(row, keys)
        return self._known[keys]

    def _found(self, row: Row, keys: Sequence[str]) -> dict[str, str]:
        by_name = {_plain(name): name for name in reversed(keys)}
        found = {}
        for key, names in COLUMNS.items():
            if name := next((by_name[name] for name in names if name in by_name), None):
                found[key] = name
        missing = [name for name in _SUGGESTED if _NAMES[name] not in found]
        unused = [name for name in keys if str(name).strip() and name not in found.values()]
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
        self.unused.update(dict.fromkeys(unused))
        self.made_ids |= "id" not in found
        return found

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
        return f"{file}: {counted(count, 'question')}; {', '.join(parts)}"


def _listed(names: Iterable[str]) -> str:
    every = [f"`{' '.join(str(name).split())[:40]}`" for name in names]
    return ", ".join(every[:_SHOWN]) + (f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else "")
