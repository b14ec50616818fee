"""How well rankings find the judged passages: relevance judgements, hit@k, recall@k, nDCG@k, MRR."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from madke._util.assets import require
from madke._util.files import refuse_repeated, text_lines
from madke.core.errors import UserError
from madke.retrieval.pools import PoolRecord, sources_in
from madke.retrieval.ranking import Method, fuse
from madke.scoring.statistics import Estimate, estimate

Judged = Mapping[str, int]
"""Key of a passage -> its relevance; above 0 is relevant."""
_HEADINGS = (("qid", "query-id"), ("passage_id", "corpus-id"), ("rel", "score"))
"""Headings of a table: question, passage, relevance. The second of each pair is BEIR's."""
_EXPECTED = (
    "expected TREC's four columns (question, 0, passage, relevance), or a table separated by tabs with the headings "
    "qid, passage_id and rel"
)
Ranking = Mapping[str, float]
"""Key of a passage -> its score, best first."""
Rankings = Mapping[str, Ranking]
"""Question id -> the ranking of one retriever."""


def read_qrels(path: Path) -> Mapping[str, Judged]:
    """Question id -> judged passages, from a file in TREC's form or a table with headings; also from ``.gz``.

    UserError with file and line: a missing column, a relevance that is no whole number, a passage judged twice.
    """
    qrels: dict[str, dict[str, int]] = {}
    line_of: dict[tuple[str, str], int] = {}
    columns: Sequence[int] = ()
    for number, line in enumerate(text_lines(path), start=1):
        text = line.rstrip("\r\n")
        cells = text.split("\t")
        if number == 1:
            positions = [[cells.index(name) for name in names if name in cells] for names in _HEADINGS]
            columns = [places[0] for places in positions] if all(positions) else ()
        if not text.strip() or (number == 1 and columns):
            continue
        cells = cells if columns else text.split()
        if len(cells) <= max(columns) if columns else len(cells) != 4:
            raise UserError(f"found {len(cells)} columns; {_EXPECTED}", file=path, line=number)
        question, passage, relevance = (cells[place].strip() for place in columns or (0, 2, 3))
        what = f"passage {passage!r} of question {question!r}"
        refuse_repeated(line_of, (question, passage), number, file=path, what=what)
        try:
            qrels.setdefault(question, {})[passage] = int(relevance)
        except ValueError:
            wrong = f"found relevance {relevance!r}, expected a whole number"
            raise UserError(wrong, file=path, line=number) from None
    if not qrels:
        raise UserError(f"holds no judgements; {_EXPECTED}", file=path)
    return qrels


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalScores:
    """How well one retriever finds the relevant passages."""

    name: str
    n: int
    """Number of questions: those with a relevant passage that it answered."""
    depth: int
    """The most passages that it returned for a question."""
    measures: Mapping[str, Estimate]
    """``hit@k``, ``recall@k``, ``nDCG@k`` and ``MRR``, each a mean over questions."""


def retrieval(
    name: str, rankings: Rankings, qrels: Mapping[str, Judged], *, depths: Sequence[int], least: int = 1
) -> RetrievalScores:
    """Measure one retriever with ``ir_measures``, which evaluates as ``trec_eval`` does.

    A question counts if a passage with a relevance of at least ``least`` is known. Only such passages count for
    hit@k, recall@k and MRR; nDCG uses all relevances. UserError if no question counts, or the package is missing.
    """
    require("retrieval measures need", "retrieval", "ir_measures")
    from ir_measures import RR, Qrel, R, ScoredDoc, Success, iter_calc, nDCG

    # Of two datasets that share an ID, experiments call the questions NAME/ID.
    known = {each: qrels.get(each) or qrels.get(each.partition("/")[2], {}) for each in rankings}
    judged = [question for question, each in known.items() if any(relevance >= least for relevance in each.values())]
    if not judged:
        problem = f"none of the {len(known)} questions of {name!r} has a relevant passage in the judgements"
        raise UserError(f"{problem}; expected the question ids of the questions, and a relevance of {least} or more")
    of_depth = {"hit": Success(rel=least), "recall": R(rel=least), "nDCG": nDCG}
    measures = {f"{heading}@{depth}": measure @ depth for heading, measure in of_depth.items() for depth in depths}
    measures["MRR"] = RR(rel=least)
    # The order is the retriever's own: trec_eval would order equal scores by key.
    run = [ScoredDoc(question, key, -n) for question in judged for n, key in enumerate(rankings[question])]
    judgements = [Qrel(question, *judgement) for question in judged for judgement in known[question].items()]
    values: dict[str, list[float]] = {}
    for each in iter_calc(measures.values(), judgements, run):
        values.setdefault(str(each.measure), []).append(each.value)
    return RetrievalScores(
        name=name,
        n=len(judged),
        depth=max(len(rankings[question]) for question in judged),
        measures={
            heading: mean
            for heading, measure in measures.items()
            if (mean := estimate(values[str(measure)])) is not None
        },
    )


def of_pools(records: Iterable[PoolRecord]) -> dict[str, dict[str, Ranking]]:
    """Source -> its rankings, without the questions that it failed on."""
    rankings: dict[str, dict[str, Ranking]] = {}
    silent: dict[str, Mapping[str, str]] = {}
    for record in records:
        if not record.sources:
            silent[record.id] = record.partial
        for source in (name for name in sources_in([record]) if name not in record.partial):
            passages = sorted((each for each in record.passages if each.source == source), key=lambda each: each.rank)
            rankings.setdefault(source, {})[record.id] = {passage.key: passage.score for passage in passages}
    # A hand-written line names no source that found nothing.
    for question, partial in silent.items():
        for source in rankings.keys() - partial.keys():
            rankings[source].setdefault(question, {})
    return rankings


def with_fusions(parts: Mapping[str, Rankings]) -> dict[str, Rankings]:
    """The parts, and if there are several their fusions, over the questions that all of them answered."""
    if len(parts) < 2:
        return dict(parts)
    shared = sorted(set.intersection(*(set(rankings) for rankings in parts.values())))
    fusions: dict[str, Method] = {"rank fusion": "rrf", "+".join(parts): "weighted"}
    return dict(parts) | {
        name: {question: fuse([part[question] for part in parts.values()], method) for question in shared}
        for name, method in fusions.items()
    }
