"""Whatever stands in an entry, it is read or refused; nothing else happens."""

from __future__ import annotations

import copy
import csv
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.errors import UserError
from madke.data import read_dataset
from madke.data.questions import question_to_json
from tests.data.published import FILES, KILT, write

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["(A)", "yes", "A"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["title", "text", "type"]), inner),
    max_leaves=6,
)
DOCUMENTS = {name: sample for name, sample in FILES.items() if not isinstance(sample[1], str)}
DOCUMENTS["triviaqa (KILT)"] = ("kilt.jsonl", KILT)


def places(value: Any, path: Any = ()) -> Iterator[Any]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from places(inner, (*path, key))


def changed(document: Any, path: Any, value: Any) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    where = document
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    return document


def read_or_refused(name: Any, text: Any, dataset: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / name, text)
        try:
            questions = read_dataset(path, dataset=dataset)
        except UserError:
            return
        ours = Path(folder) / "ours.jsonl"
        ours.write_bytes(b"".join(question_to_json(question) + b"\n" for question in questions))
        assert read_dataset(ours) == questions


@pytest.mark.parametrize("dataset", DOCUMENTS)
@given(data=st.data())
def test_any_value_anywhere(dataset: Any, data: Any) -> None:
    name, document = DOCUMENTS[dataset]
    path = data.draw(st.sampled_from(list(places(document))))
    document = changed(document, path, data.draw(VALUES))
    lines = document if isinstance(document, list) and name.endswith(".jsonl") else [document]
    text = "\n".join(map(json.dumps, lines)) if name.endswith(".jsonl") else json.dumps(document)
    read_or_refused(name, text, dataset.partition(" ")[0])


@given(st.sampled_from(["mmlu", "commonmt"]), st.lists(st.lists(st.text(max_size=4), max_size=7), max_size=3))
def test_any_table(dataset: Any, rows: Any) -> None:
    name, sample = FILES[dataset]
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    read_or_refused(name, str(sample) + table.getvalue(), dataset)
