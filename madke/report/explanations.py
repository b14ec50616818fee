"""What each heading of a table means: one list for the page, next to the list of columns in ``score_tables``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a column."""

    text: str
    best: bool = False
    """Whether the highest value is the best one."""
    outcome: str = ""
    """Outcome of the debates behind the figure: a name of ``page_data.OUTCOMES``; of pairs also ``differ``,
    ``only first`` and ``only second``. Empty: all debates."""


_PLANNED = "as planned before the start, from the fewest to the most"
_BY_JUDGE = "By the judge's last verdict; with m, by the task's matcher."

EXPLANATIONS: Mapping[str, Explanation] = {
    "arm": Explanation("One run. Its name is that of its folder."),
    "run": Explanation("One run. Its name is that of its folder."),
    # Scores
    "n": Explanation("Number of questions that are counted."),
    "correct": Explanation(
        "Share of questions with a right final answer, by the first metric of the task.", best=True, outcome="right"
    ),
    "over repeats": Explanation("Correct, with an interval over repeats of these same questions.", best=True),
    "sd over repeats": Explanation("Standard deviation of correct between repeats, in points."),
    "EM": Explanation(
        "Exact match: the answer equals a gold answer, apart from case, punctuation and articles.", best=True
    ),
    "F1": Explanation("Words that the answer shares with the best gold answer, as F1.", best=True),
    "match": Explanation("The task's matcher accepts the answer. It is less strict than EM.", best=True),
    "label": Explanation("The label of a claim is right.", best=True),
    "choice": Explanation("The letter of a choice is right.", best=True),
    "math": Explanation("The answer is an expression that equals the gold answer.", best=True),
    "chrF": Explanation("Similarity of a translation to its reference, in characters.", best=True),
    "BLEU": Explanation("Similarity of a translation to its references, in sequences of words.", best=True),
    "grader": Explanation("A model that reads the gold answer says that the answer is right.", best=True),
    "Cons": Explanation(
        f"Consistency: debaters give the same last answer, right or wrong. {_BY_JUDGE}", best=True, outcome="divided"
    ),
    "Co2": Explanation(
        f"Consistent and correct: debaters give the same last answer, and the final answer is right. {_BY_JUDGE}",
        best=True,
        outcome="right",
    ),
    "Co2 by grader": Explanation("As Co2, but a grading model says what is right.", best=True),
    "rounds": Explanation("Mean number of rounds of a debate."),
    "calls": Explanation("Calls of models and services in the whole run, also those answered by the call store."),
    "paid": Explanation("Calls that were sent to a model. The others were answered by the call store."),
    "tokens": Explanation("Prompt and completion tokens of the whole run."),
    "questions": Explanation("Number of different questions."),
    "debates": Explanation("Questions times repeats."),
    "answered": Explanation("Debates with a readable final answer."),
    "incomplete": Explanation("How many debates of the run are done, and why not all."),
    "abst.": Explanation(
        "Abstained: debates without a readable final answer. They count as wrong.", outcome="abstained"
    ),
    "failed": Explanation("Debates without a result, because calls failed. No mean includes them.", outcome="failed"),
    # Paired tests
    "first": Explanation("The first run of the pair."),
    "second": Explanation("The second run of the pair."),
    "value": Explanation("The metric that is compared."),
    "of first": Explanation("Mean of the first run on the compared questions."),
    "of second": Explanation("Mean of the second run on the compared questions."),
    "difference": Explanation("Second minus first, with its 95 % interval, in points for shares.", outcome="differ"),
    "only first": Explanation("Questions that only the first run has right.", outcome="only first"),
    "only second": Explanation("Questions that only the second run has right.", outcome="only second"),
    "p": Explanation(
        "Chance of such a difference if the runs were equally good, for this test alone.", outcome="differ"
    ),
    "p (Holm)": Explanation(
        "The p value, corrected for the number of pairs that are tested on this value. Below 0.05: marked with *.",
        outcome="differ",
    ),
    "effect": Explanation(
        "Size of the effect. g: share of differing questions in favour of the second, minus 0.5 (0.05 small, "
        "0.15 medium, 0.25 large). d: mean difference divided by its standard deviation.",
        outcome="differ",
    ),
    "detectable": Explanation("The smallest difference that this many questions detect with 80 % power."),
    # Experiments
    "dataset": Explanation("The questions' dataset."),
    "model": Explanation("The model that plays the roles."),
    "calls planned": Explanation(f"Calls of the arm, {_PLANNED}."),
    "paid calls planned": Explanation(f"Calls that no other arm makes first, {_PLANNED}."),
    "paid calls": Explanation("Calls that this arm has sent to a model."),
    "tokens planned": Explanation(f"Tokens of the paid calls, {_PLANNED}."),
    "cost": Explanation("Cost of the paid calls, in the currency of the prices."),
    # Settings
    "data": Explanation("The question file."),
    "sample seed": Explanation("Seed that chose the questions from the file."),
    "protocol": Explanation("Rules of the debate: the variant, and the paper that it follows."),
    "models": Explanation("The model of each role."),
    "knowledge": Explanation("Passages per source in the pool, and how debaters select from them."),
    "settings": Explanation("Settings that differ from the protocol's defaults."),
    "sources": Explanation("What serves each source of passages."),
    "answer scorer": Explanation("The model that scores answers."),
    "first round": Explanation("Where the stances of the first round come from."),
    "seed, repeats": Explanation("Seed of the run, and number of debates per question."),
    "versions": Explanation("Versions of the programs that made the run."),
}
"""Heading without its unit -> meaning."""

_UNPARSED = Explanation("Share of this stage's replies in which the program found no answer of the asked form.")
_OTHER_METRIC = Explanation("A metric of the task, as a share.", best=True)
_OTHER_SCORE = Explanation("An external score, on its own scale.")


def explanation(heading: str) -> Explanation:
    """The meaning of a heading. Metrics of other packages have a general one."""
    name = heading.removesuffix(" %")
    if name.startswith("unparsed: "):
        return _UNPARSED
    name = "correct" if name.startswith("correct (") else name
    return EXPLANATIONS.get(name) or (_OTHER_METRIC if heading.endswith("%") else _OTHER_SCORE)
