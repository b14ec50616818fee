"""Citation, support and nugget scores, against plain references of their owners' definitions on random cases."""

from __future__ import annotations

import random
from typing import Any

import pytest

from madke.core.agreement import CitedSentence
from madke.scoring.citations import Nugget, alce, nugget_scores, settled, trec_support

PASSAGES = [f"passage {n}" for n in range(5)]
CASES = 1000


def table(seed: int) -> Any:
    """A fixed entailment table: each pair has one of three levels, the same whenever it is asked."""

    def support(premise: str, hypothesis: str) -> float:
        return random.Random(f"{seed} {premise} => {hypothesis}").choice([1.0, 1.0, 0.5, 0.0])

    return support


def sentences(draw: random.Random) -> list[CitedSentence]:
    """Sentences with none to six citations; some out of range, some repeated."""
    found = []
    for n in range(draw.randint(1, 6)):
        cited = [
            draw.choice([*range(5), *range(5), *range(5), 7, 99]) for _ in range(draw.choice([0, 1, 1, 2, 3, 4, 6]))
        ]
        found.append(CitedSentence(text=f"sentence {n}", citations=tuple(cited)))
    return found


def alce_by_definition(answer: list[CitedSentence], support: Any, cap: int | None) -> tuple[float, float]:
    """Section 4.3 of the paper, and the order of the owners' evaluation: first the range, then the cap."""
    backed, useful, counted = 0, 0, 0
    for sentence in answer:
        names = [*sentence.citations]
        verdict: bool | None = None
        if names == [] or max(names) >= len(PASSAGES):
            verdict = False
        else:
            names = names if cap is None else names[:cap]
            counted += len(names)
            verdict = support("\n".join(PASSAGES[i] for i in names), sentence.text) == 1.0
        backed += verdict
        if not (verdict and len(names) > 1):
            useful += verdict
            continue
        for name in names:
            if support(PASSAGES[name], sentence.text) == 1.0:
                useful += 1
                continue
            rest = names.copy()
            rest.remove(name)
            if support("\n".join(PASSAGES[i] for i in rest), sentence.text) != 1.0:
                useful += 1
    return backed / len(answer), (useful / counted if counted > 0 else 0)


@pytest.mark.parametrize("cap", [3, None])
def test_alce_equals_its_definition_on_random_cases(cap: int | None) -> None:
    several = 0
    for seed in range(CASES):
        answer, support = sentences(random.Random(seed)), table(seed)
        found = alce(answer, PASSAGES, support, cap)
        assert (found.recall, found.precision) == alce_by_definition(answer, support, cap), seed
        several += 0 < found.precision < 1
    assert several > CASES / 4, "the cases tell definitions apart"


def test_support_equals_its_definition_on_random_cases() -> None:
    for seed in range(CASES):
        answer, support = sentences(random.Random(seed)), table(seed)
        weights = []
        for sentence in answer:
            if sentence.citations:
                first = sentence.citations[0]
                weights.append(support(PASSAGES[first], sentence.text) if first < len(PASSAGES) else 0.0)
        found = trec_support(answer, PASSAGES, support)
        assert found.weighted_recall == pytest.approx(sum(weights) / len(answer))
        assert found.weighted_precision == pytest.approx(sum(weights) / len(weights) if weights else 0)
        assert found.hard_recall == pytest.approx(weights.count(1.0) / len(answer))


def test_nugget_scores_equal_their_definition_on_random_cases() -> None:
    for seed in range(CASES):
        draw = random.Random(seed)
        kinds = ["support", "partial_support", "not_support"]
        rows = [(draw.choice(["vital", "okay"]), draw.choice(kinds)) for _ in range(draw.randint(0, 8))]
        nuggets: list[Any] = [Nugget(text="t", importance=kind, assignment=given) for kind, given in rows]  # type: ignore[arg-type]
        found = nugget_scores(nuggets, "answer", table(seed))
        vital = [given for kind, given in rows if kind == "vital"]
        every = [given for _, given in rows]
        for group, strict, graded in ((vital, found.strict_vital, found.vital), (every, found.strict_all, found.all)):
            whole, half = group.count("support"), group.count("partial_support")
            assert strict == pytest.approx(whole / len(group) if group else 0.0)
            assert graded == pytest.approx((whole + half / 2) / len(group) if group else 0.0)


def test_a_nugget_without_assignment_is_looked_for_in_the_answer() -> None:
    asked = []

    def support(premise: str, hypothesis: str) -> float:
        asked.append((premise, hypothesis))
        return 0.5

    found = nugget_scores([Nugget(text="It is deep.", importance="vital")], "The answer.", support)
    assert asked == [("The answer.", "It is deep.")]
    assert (found.strict_vital, found.vital) == (0.0, 0.5)


def test_pairs_are_asked_in_batches_and_once() -> None:
    batches: list[set[Any]] = []
    answer, support = sentences(random.Random(5)), table(5)

    def ask(pairs: set[Any]) -> dict[Any, float]:
        assert not any(pairs & earlier for earlier in batches)
        batches.append(pairs)
        return {pair: support(*pair) for pair in pairs}

    assert settled(lambda each: alce(answer, PASSAGES, each), ask) == alce(answer, PASSAGES, support)
    assert 1 <= len(batches) <= 3
