"""What each heading of a table means: one list for the page, next to the list of columns in ``score_tables``."""

from __future__ import annotations

from collections.abc import Mapping

_BY = "By the judge's last verdict; with m, by the task's matcher."
_PLANNED = "as planned before the start, from the fewest to the most."

EXPLANATIONS: Mapping[str, str] = {
    "arm": "One run. Its name is that of its folder.",
    "run": "One run. Its name is that of its folder.",
    # Scores
    "n": "Number of questions that are counted.",
    "correct": "Share of questions with a right final answer, by the first metric of the task.",
    "over repeats": "Correct, with an interval over repeats of these same questions.",
    "sd over repeats": "Standard deviation of correct between repeats, in points.",
    "EM": "Exact match: the answer equals a gold answer, apart from case, punctuation and articles.",
    "F1": "Words that the answer shares with the best gold answer, as F1.",
    "match": "The task's matcher accepts the answer. It is less strict than EM.",
    "label": "The label of a claim is right.",
    "choice": "The letter of a choice is right.",
    "math": "The answer is an expression that equals the gold answer.",
    "chrF": "Similarity of a translation to its reference, in characters.",
    "BLEU": "Similarity of a translation to its references, in sequences of words.",
    "grader": "A model that reads the gold answer says that the answer is right.",
    "Cons": f"Consistency: debaters give the same last answer, right or wrong. {_BY}",
    "Co2": f"Consistent and correct: debaters give the same last answer, and the final answer is right. {_BY}",
    "Co2 by grader": "As Co2, but a grading model says what is right.",
    "rounds": "Mean number of rounds of a debate.",
    "calls": "Calls of models and services in the whole run, also those answered by the call store.",
    "paid": "Calls that were sent to a model. The others were answered by the call store.",
    "tokens": "Prompt and completion tokens of the whole run.",
    "questions": "Number of different questions.",
    "debates": "Questions times repeats.",
    "answered": "Debates with a readable final answer.",
    "incomplete": "How many debates of the run are done, and why not all.",
    "abst.": "Abstained: debates without a readable final answer. They count as wrong.",
    "failed": "Debates without a result, because calls failed. No mean includes them.",
    # Retrieval
    "retriever": "A source of passages, or a fusion of several.",
    "depth": "The most passages of a question.",
    "hit": "Share of questions with a relevant passage among the first k.",
    "recall": "Mean share of a question's relevant passages that are among the first k.",
    "nDCG": "Discounted gain of the first k passages, by relevance and rank, as a share of the best order's.",
    "MRR": "Mean of 1 / rank of the first relevant passage; 0 if there is none.",
    # Paired tests
    "first": "The first run of the pair.",
    "second": "The second run of the pair.",
    "value": "The metric that is compared.",
    "of first": "Mean of the first run on the compared questions.",
    "of second": "Mean of the second run on the compared questions.",
    "difference": "Second minus first, with its 95 % interval, in points for shares.",
    "only first": "Questions that only the first run has right.",
    "only second": "Questions that only the second run has right.",
    "p": "Chance of such a difference if the runs were equally good, for this test alone.",
    "p (Holm)": "p, corrected for the number of pairs that are tested on this value. Below 0.05: marked with *.",
    "effect": "Size of the effect. g: share of differing questions in favour of the second, minus 0.5 (0.05 small, "
    "0.15 medium, 0.25 large). d: mean difference divided by its standard deviation.",
    "detectable": "The smallest difference that this many questions detect with 80 % power.",
    # Experiments
    "dataset": "The questions' dataset.",
    "model": "The model that plays the roles.",
    "calls planned": f"Calls of the arm, {_PLANNED}",
    "paid calls planned": f"Calls that no other arm makes first, {_PLANNED}",
    "paid calls": "Calls that this arm has sent to a model.",
    "tokens planned": f"Tokens of the paid calls, {_PLANNED}",
    "cost": "Cost of the paid calls, in the currency of the prices.",
    # Settings
    "data": "The question file.",
    "sample seed": "Seed that chose the questions from the file.",
    "protocol": "Rules of the debate: the variant, and the paper that it follows.",
    "models": "The model of each role.",
    "knowledge": "Passages per source in the pool, and how debaters select from them.",
    "settings": "Settings that differ from the protocol's defaults.",
    "sources": "What serves each source of passages.",
    "answer scorer": "The model that scores answers.",
    "first round": "Where the stances of the first round come from.",
    "seed, repeats": "Seed of the run, and number of debates per question.",
    "versions": "Versions of the programs that made the run.",
}
"""Heading without its unit -> meaning."""


def explanation(heading: str) -> str:
    """The meaning of a heading. Metrics of other packages have a general one."""
    if heading.startswith("unparsed: "):
        return "Share of this stage's replies in which the program found no answer of the asked form."
    other = "A metric of the task, as a share." if heading.endswith("%") else "An external score, on its own scale."
    return EXPLANATIONS.get(name_of(heading), other)


def name_of(heading: str) -> str:
    """The heading without its unit, the k of ``hit@k``, and the name of the metric in ``correct (METRIC)``."""
    return "correct" if heading.startswith("correct (") else heading.removesuffix(" %").partition("@")[0]
