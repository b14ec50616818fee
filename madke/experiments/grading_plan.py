"""The calls, tokens and cost of grading answers, in advance."""

from collections.abc import Sequence

from madke.core.question import Question
from madke.endpoints.prices import Prices, price_of
from madke.experiments.load import Load, Planned, load_of, planned_usage
from madke.experiments.plan import spread
from madke.scoring.outside import Grader, grading_request

GRADING_PLAN = "grading"
"""The name of the plan."""


def planned_grading(
    questions: Sequence[Question], debates: int, graders: Sequence[Grader], prices: Prices, reply_tokens: int
) -> list[Planned]:
    """One estimate per grader: from one answer to a question in all its debates, to a different one in each.

    ``debates``: the number of all debates of these questions. An answer is assumed as long as the first reference.
    Questions without a reference are not graded.
    """
    asked = [question for question in questions if question.answers]
    if not asked:
        return []
    each = debates / len(questions)
    sample = spread(asked)
    plans = []
    for grader in graders:
        price = price_of(grader.model, prices)
        usages = [
            planned_usage(grading_request(question, question.answers[0]).messages, reply_tokens) for question in sample
        ]
        once = sum((load_of(usage, price, 1, 1) for usage in usages), Load()) * (len(asked) / len(sample))
        name = GRADING_PLAN if len(graders) == 1 else f"{GRADING_PLAN} by {grader.model}"
        plan = Planned(
            name=name,
            debates=round(each * len(asked)),
            least=once,
            most=once * each,
            models=(grader.model,),
            unpriced=() if price else (grader.model,),
        )
        plans.append(plan)
    return plans
