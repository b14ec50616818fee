"""Relevance judgements (qrels): which passages answer which question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.files import opened, refuse_repeated

Judged = Mapping[str, int]
"""Key of a passage -> its relevance; above 0 is relevant."""

_HEADINGS = (("qid", "query-id"), ("passage_id", "corpus-id"), ("rel", "score"))
"""Headings of a table: question, passage, relevance. The second of each pair is BEIR's."""
_TREC = (0, 2, 3)
_EXPECTED = (
    "expected TREC's four columns (question, 0, passage, relevance), or a table separated by tabs with the headings "
    "qid, passage_id and rel"
)


def read_qrels(path: Path) -> Mapping[str, Judged]:
    """Question id -> judged passages, from a file in TREC's form or a table with headings; also from ``.gz``.

    UserError with file and line: a missing column, a relevance that is no whole number, a passage judged twice.
    """
    qrels: dict[str, dict[str, int]] = {}
    line_of: dict[tuple[str, str], int] = {}
    for number, question, passage, relevance in _rows(path):
        what = f"passage {passage!r} of question {question!r}"
        refuse_repeated(line_of, (question, passage), number, file=path, what=what)
        try:
            qrels.setdefault(question, {})[passage] = int(relevance)
        except ValueError:
            found = f"found relevance {relevance!r}, expected a whole number"
            raise UserError(found, file=path, line=number) from None
    if not qrels:
        raise UserError(f"holds no judgements; {_EXPECTED}", file=path)
    return qrels


def judged(qrels: Mapping[str, Judged], question: str) -> Judged:
    """The judged passages of a question. For ``NAME/ID`` (two datasets share an ID) those of ``ID`` count, too."""
    return qrels.get(question) or qrels.get(question.partition("/")[2], {})


def _rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """(1-based line, question, passage, relevance) of each line that is not blank."""
    columns: Sequence[int] | None = None
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode("utf-8-sig").rstrip("\r\n")
            except UnicodeDecodeError:
                raise UserError("is not UTF-8", file=path, line=number) from None
            if number == 1 and (columns := _columns(text.split("\t"))):
                continue
            cells = text.split("\t") if columns else text.split()
            if not text.strip():
                continue
            if len(cells) <= max(columns) if columns else len(cells) != 4:
                raise UserError(f"found {len(cells)} columns; {_EXPECTED}", file=path, line=number)
            question, passage, relevance = (cells[place].strip() for place in columns or _TREC)
            yield number, question, passage, relevance


def _columns(headings: Sequence[str]) -> Sequence[int] | None:
    """The places of question, passage and relevance; None if one has no heading."""
    found = [[headings.index(name) for name in names if name in headings] for names in _HEADINGS]
    return [places[0] for places in found] if all(found) else None
