"""A task of one's own: by inheriting, or as any object that has what a task needs."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.scoring.metrics import METRICS, Metric, is_binary, metric, metrics_of
from madke.tasks import TASKS, BaseTask, code_of, get_task
from madke.tasks.base import Example, as_task

EXAMPLES: tuple[Example, ...] = (
    {"question": "Which colour has grass?", "reasoning": "Its leaves hold chlorophyll.", "answer": "green"},
    {"question": "Which colour has blood?", "reasoning": "It carries iron.", "answer": "red"},
)
ASKED = Question(id="q", question="Which colour has the sky?", answers=("red",))


class Colour(BaseTask):
    name = "colour"
    instructions = "Answer with one of: red, green, blue."
    choices = ("red", "green", "blue")
    examples = EXAMPLES


class Length:
    """Inherits nothing; two lengths are the same within what the question tolerates."""

    name = "length"
    instructions = "Answer with a number of metres."
    examples = (EXAMPLES[0] | {"answer": "12"}, EXAMPLES[1] | {"answer": "7"})

    def read(self, text: Any, question: Any) -> Any:
        return text.strip() or None

    def same(self, a: str, b: str, question: Question) -> bool:
        return abs(float(a) - float(b)) <= question.metadata.get("tolerance", 0)

    def accepts(self, answer: str, question: Question) -> bool:
        return any(self.same(answer, gold, question) for gold in question.answers)


def warm(answer: str, question: Question) -> float:
    return float(answer in ("red", "yellow"))


@metric("loud", binary=True)
def loud(answer: str, question: Question) -> int:
    return len(answer)


@pytest.fixture
def named() -> Callable[..., Any]:
    """Names of this module, as the command line gives them."""
    return lambda name: f"{__name__}:{name}"


def test_a_task_with_choices_reads_them_in_its_own_spelling() -> None:
    task = as_task("colour", Colour)

    assert task.read(' **"RED".** ', ASKED) == "red"
    assert task.read("purple", ASKED) is None
    assert task.accepts("red", ASKED)
    assert not task.accepts("blue", ASKED)
    assert task.check(ASKED) is None
    assert "'purple'" in task.check(Question(id="q", question="?", answers=("purple",)))


def test_a_task_that_inherits_nothing_gets_the_rest() -> None:
    task = as_task("length", Length())
    asked = Question(id="q", question="How long?", answers=("12",), metadata={"tolerance": 1})

    assert task.accepts("12.5", asked)
    assert not task.accepts("14", asked)
    assert (task.metrics, task.choices, task.check(asked)) == (("match",), (), None)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"instructions": ""}, "lacks 'instructions'"),
        ({"same": None}, "lacks 'same'"),
        ({"examples": EXAMPLES[:1]}, "two examples with different answers"),
        ({"examples": ({"question": "?", "answer": "red"},)}, "an example lacks 'reasoning'"),
        ({"scales": ("quality", "beauty")}, "unknown scale of task 'colour' 'beauty'"),
    ],
)
def test_what_is_missing_is_told(change: dict[str, Any], found: str) -> None:
    with pytest.raises(UserError, match=found):
        as_task("colour", type("Other", (Colour,), change))


def test_a_name_of_code_is_looked_up_only_once_somebody_named_it(named: Callable[..., Any]) -> None:
    for name in ("not_imported:Colour", "os:system", "tempfile:TemporaryDirectory", named("nothing.at.all")):
        with pytest.raises(UserError, match="if you trust it, give --task"):
            get_task(name)

    name = named("Colour")  # this module is imported
    assert get_task(name).name == "colour"
    assert get_task(name) is TASKS[name]
    assert list(code_of(["math", name])) == [name]
    assert code_of([name])[name].startswith(f"{name}#")


def test_a_task_holds_metrics_as_objects_which_scores_call_by_their_own_names(named: Callable[..., Any]) -> None:
    task = as_task("colour", type("Own", (Colour,), {"metrics": (loud, named("loud"), warm, "em")}))

    assert metrics_of(task) == ("loud", "loud", named("warm"), "em")
    assert METRICS["loud"] is loud
    with pytest.raises(UserError, match="there is a metric 'em' already"):
        metrics_of(as_task("colour", type("Own", (Colour,), {"metrics": (metric("em")(warm),)})))


@pytest.mark.parametrize("value", [-0.5, 70, float("nan")])
def test_a_metric_outside_0_to_1_is_refused_since_scores_are_shown_in_percent(value: float) -> None:
    said = rf"metric 'stars' returned {value}.* for question 'q'; expected a number from 0 to 1"
    with pytest.raises(UserError, match=said):
        metric("stars")(lambda answer, question: value)("red", ASKED)


def test_a_metric_that_fails_is_named_with_its_question() -> None:
    with pytest.raises(UserError, match="metric 'years' failed for question 'q' and answer 'red': ValueError: invalid"):
        metric("years")(lambda answer, question: int(answer))("red", ASKED)


def test_a_function_is_a_metric_and_says_whether_it_is_0_or_1(named: Callable[..., Any]) -> None:
    assert METRICS[named("warm")]("red", ASKED) == 1
    assert not METRICS[named("warm")].binary
    assert not is_binary(named("warm"))
    assert isinstance(loud, Metric)
    assert METRICS[named("loud")] is loud
    with pytest.raises(UserError, match=r"metric 'loud' returned 3\.0 for question 'q'; expected 0 or 1"):
        loud("red", ASKED)
    with pytest.raises(UserError, match="expected a function"):
        METRICS[named("EXAMPLES")]
