from pathlib import Path

import pytest

from madke.core.question import Question
from madke.scoring.metrics import METRICS
from madke.tasks import TASKS

TASK = TASKS["translation"]


def same(a: str, b: str) -> bool:
    return TASK.same(a, b, Question(id="q", question="?"))


ASKED = Question(id="t", question="?", task="translation")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (" \u201cHe  ate\nit.\u201d ", "He ate it."),
        ("'\"He ate it.\"'", "He ate it."),
        ("**He ate it.**", "He ate it."),
        ("Stop.", "Stop."),
        ('"Yes" and "no"', '"Yes" and "no"'),
        ('""', None),
        ("...", None),
    ],
)
def test_a_translation_is_read_without_the_marks_around_it_but_with_its_full_stop(raw: str, text: str | None) -> None:
    assert TASK.read(raw, ASKED) == text


def test_translations_are_the_same_but_for_case_punctuation_and_spacing() -> None:
    assert same("He ate it.", "he  ate it")
    assert not same("He ate it.", "He has eaten it.")


def test_recorded_translations_score_sanely_and_gpt_4_best(shared_data: Path) -> None:
    references = (shared_data / "questions" / "commonmt_200.en").read_text(encoding="utf-8").splitlines()
    asked = [Question(id="t", question="?", answers=(reference,), task="translation") for reference in references]
    for name, low, high in (("chrf", 0.5, 0.6), ("bleu", 0.25, 0.35)):
        means = {}
        for path in (shared_data / "recorded" / "mad_commonmt_outputs").glob("*.txt"):
            answers = path.read_text(encoding="utf-8").splitlines()
            scores = [METRICS[name](*pair) for pair in zip(answers, asked, strict=True)]
            means[path.stem] = sum(scores) / len(scores)
        assert len(means) == 6
        assert all(low < mean < high for mean in means.values()), means
        assert max(means, key=means.get) == "gpt4"
