"""The citations of answers, measured: of runs, and of answer files in TREC RAG's format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel

from madke._util.files import text_lines
from madke.core.agreement import CitedSentence
from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.data.rag_answers import MOST_REFERENCES, RagAnswer
from madke.engine.prose import cited_sentences
from madke.scoring.citations import (
    CitationScores,
    Nugget,
    NuggetScores,
    Support,
    SupportScores,
    alce,
    nugget_scores,
    trec_support,
)
from madke.scoring.statistics import Estimate, estimate

_KEYS = " "
"""Between source and key in a reference."""


def answer_of_debate(transcript: Transcript, run: str) -> RagAnswer | None:
    """The final text of a debate as sentences that cite; None without an answer.

    Citations are those that the text has. If it has none, the last sentence, which states the answer, cites the
    passages that were looked up.
    """
    if transcript.answer is None:
        return None
    known = {entry.n: f"{entry.source}{_KEYS}{entry.key}" for entry in transcript.pool}
    text = transcript.final.text or f"The answer is {transcript.answer}."
    named = [(one.bare, one.citations) for one in cited_sentences(text)]
    sentences = [(one, tuple(n for n in cited if n in known)) for one, cited in named if one]
    if sentences and not any(cited for _, cited in sentences) and transcript.agreement is not None:
        sentences[-1] = sentences[-1][0], tuple(n for n in transcript.agreement.cited if n in known)
    used = list(dict.fromkeys(n for _, cited in sentences for n in cited))[:MOST_REFERENCES]
    place = {n: at for at, n in enumerate(used)}
    return RagAnswer(
        run=run,
        id=transcript.id,
        question=transcript.question,
        references=tuple(known[n] for n in used),
        sentences=tuple(
            CitedSentence(text=one, citations=tuple(place[n] for n in cited if n in place)) for one, cited in sentences
        ),
    )


class _Nuggets(BaseModel, frozen=True):
    qid: str
    nuggets: tuple[Nugget, ...]


def read_nuggets(path: Path) -> Mapping[str, Sequence[Nugget]]:
    """Question id -> nuggets, from JSON lines ``{"qid", "nuggets": [{"text", "importance", "assignment"?}]}``."""
    found: dict[str, Sequence[Nugget]] = {}

    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            one = _Nuggets.model_validate_json(line)
        except ValueError:
            form = '{"qid", "nuggets": [{"text", "importance": "vital" or "okay"}]}'
            raise UserError(f"expected {form}", file=path, line=number) from None
        if one.qid in found:
            raise UserError(f"the question {one.qid!r} stands twice", file=path, line=number)
        found[one.qid] = one.nuggets
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSupport:
    """The figures of one answer."""

    alce: CitationScores
    trec: SupportScores
    nuggets: NuggetScores | None


def measured(
    answers: Iterable[RagAnswer],
    texts: Mapping[tuple[str, str], str],
    nuggets: Mapping[str, Sequence[Nugget]],
    support: Support,
) -> list[AnswerSupport]:
    """The figures of each answer with a sentence. ``texts``: (question id, reference) -> passage."""
    found = []
    for answer in answers:
        if not answer.sentences:
            continue
        if missing := [key for key in answer.references if (answer.id, key) not in texts]:
            raise UserError(f"question {answer.id!r}: the reference {missing[0]!r} is in no pool; give --pools")
        passages = [texts[answer.id, key] for key in answer.references]
        whole, wanted = " ".join(one.text for one in answer.sentences), nuggets.get(answer.id)
        found.append(
            AnswerSupport(
                alce=alce(answer.sentences, passages, support),
                trec=trec_support(answer.sentences, passages, support),
                nuggets=nugget_scores(wanted, whole, support) if wanted is not None else None,
            )
        )
    return found


def means(found: Sequence[AnswerSupport]) -> dict[str, Estimate]:
    """Each figure as a mean over answers, with its interval."""
    values: dict[str, list[float]] = {}
    for each in found:
        named = {"ALCE recall": each.alce.recall, "ALCE precision": each.alce.precision}
        named |= {f"support {name.replace('_', ' ')}": value for name, value in asdict(each.trec).items()}
        named |= {
            f"nuggets {n.replace('_', ' ')}": v for n, v in (asdict(each.nuggets) if each.nuggets else {}).items()
        }
        for name, value in named.items():
            values.setdefault(name, []).append(value)
    return {name: mean for name, each in values.items() if (mean := estimate(each)) is not None}
