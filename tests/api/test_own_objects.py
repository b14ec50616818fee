"""Objects that a run is given, such as its task, live in that run and nowhere else."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.errors import UserError
from madke.data.formats import READERS
from madke.scoring.metrics import METRICS
from madke.tasks import TASKS, get_task

QUESTIONS = [{"id": "q", "question": "How long is the bridge, in metres?", "answers": ["100"]}]


def length(tolerance: float) -> madke.BaseTask:
    """A task of a class that no module holds, so that its name alone finds nothing."""

    class Length(madke.BaseTask):
        name = "length"
        instructions = "Answer with a number of metres."
        examples = (
            {"question": "How long is A?", "reasoning": "It was measured.", "answer": "12"},
            {"question": "How long is B?", "reasoning": "It was measured.", "answer": "7"},
        )

        @madke.metric("close", binary=True)
        @staticmethod
        def close(answer: str, question: madke.Question) -> float:
            return float(abs(float(answer) - float(question.answers[0])) <= tolerance)

        metrics = (close,)

        def accepts(self, answer: str, question: madke.Question) -> bool:
            return abs(float(answer) - float(question.answers[0])) <= tolerance

        def same(self, a: str, b: str, question: madke.Question) -> bool:
            return abs(float(a) - float(b)) <= tolerance

    return Length()


def measured(tolerance: float, out: Path, said: str = "105") -> madke.Run:
    model = lambda messages: f"The answer is [{said}]."  # noqa: E731
    return madke.run(QUESTIONS, protocol="cot", model=model, task=length(tolerance), out=out)


@pytest.fixture
def known() -> Iterator[None]:
    """Checks that no registry knows more after the test than before."""
    registries: tuple[Any, ...] = (TASKS, METRICS, READERS)
    before = [(list(each), each.used()) for each in registries]
    yield
    assert [(list(each), each.used()) for each in registries] == before


@pytest.mark.usefixtures("known")
def test_two_runs_keep_their_own_tasks_of_one_name(tmp_path: Path) -> None:
    strict, lax = measured(1, tmp_path / "strict"), measured(10, tmp_path / "lax")
    assert strict.record.task == lax.record.task
    # In this order, so that the first run is scored after the second one was prepared.
    assert [run.scores["close"].value for run in (strict, lax)] == [0.0, 1.0]
    assert [madke.score(run).metrics["close"].value for run in (strict, lax)] == [0.0, 1.0]
    for run in (strict, lax):
        assert "close" in run.table()
        assert run.report(tmp_path / "page.html").exists()
    with pytest.raises(UserError, match=r"is code that only a file names.*use the Run that has it"):
        get_task(strict.record.task)
    with pytest.raises(UserError, match="is code that only a file names"):
        madke.score(tmp_path / "lax")


@pytest.mark.usefixtures("known")
def test_runs_are_compared_by_their_own_task(tmp_path: Path) -> None:
    first, second = measured(10, tmp_path / "a"), measured(10, tmp_path / "b", said="99")
    compared = madke.compare(first, second)
    assert [row.differs for row in compared.questions] == [False]
    assert {test.metric for test in compared.tests()} >= {"close"}


@pytest.mark.usefixtures("known")
def test_a_single_debate_leaves_nothing_behind() -> None:
    asked = madke.ask(QUESTIONS[0], protocol="cot", model=lambda messages: "The answer is [100].", task=length(1))
    assert asked.answer == "100"


@pytest.mark.usefixtures("known")
def test_a_function_reads_a_file_of_its_own_form(tmp_path: Path) -> None:
    def pairs(path: Path) -> Iterator[madke.Question]:
        for line in path.read_text().splitlines():
            question, answer = line.split("\t")
            yield madke.Question(id=answer, question=question, answers=(answer,))

    class Silent:
        name = description = "silent"

        def search(self, queries: Sequence[str], k: int) -> list[madke.Hits]:
            return [madke.Hits() for _ in queries]

    (tmp_path / "pairs.tsv").write_text("Which river leaves Lake Baikal?\tAngara\n")
    run = madke.run(tmp_path / "pairs.tsv", dataset=pairs, protocol="cot", model=lambda messages: "It is [Angara].")
    assert [transcript.id for transcript in run.transcripts()] == ["Angara"]
    assert "pairs" in str(run.record.dataset)
    found = madke.build_pools(tmp_path / "pairs.tsv", tmp_path / "p.jsonl", dataset=pairs, sources=[Silent()])
    assert [count.asked for count in found.values()] == [1]
