"""The figures of the study, computed from kept transcripts by the rules of PLAN.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from eval.studies.kept import KeptStudy
from madke.core.transcript import StageUsage, Transcript, outcome
from madke.engine.agreement import answer_groups, matcher
from madke.scoring.arms import ArmValues, read_arm
from madke.scoring.debate_rows import DebateMeasures, correct, heard, majority
from madke.scoring.metrics import question_of
from madke.scoring.paired import PairedTest, equal_within, further_questions, half_of_90, holm, paired_test
from madke.scoring.scores import Scores, scores_of
from madke.scoring.statistics import RESAMPLES, Estimate, bootstrap, effective_votes
from madke.tasks import get_task

MEASURES = ("match", "em", "f1")
PRIMARY = (("mad-vote", "mad"), ("rag-vote", "mad-brief"))
"""(left, right): the difference is right minus left."""
SECONDARY = (("rag-vote", "mad"), ("second-turn", "mad"), ("madke-vote", "madke"), ("rag-vote", "views"))
CELLS = (("mad-vote", "mad"), ("vote-no-pool", "mad-no-pool"))
"""Knowledge times debate: the gain of debate with the pool, and without."""
CORE = ("alone", "rag", "mad", "mad-vote", "mad-brief", "rag-vote", "second-turn")
"""The arms that run first, on all questions."""
AGREEMENTS = ("all agree", "two agree", "none agree")
"""Of the three first answers of a debate."""
READABLE_GAP = 0.05
"""A larger difference of readable shares is part of a contrast's finding."""
_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyModel:
    """What the plan says of a model."""

    name: str
    """Its public name."""
    short: str
    sha256: str = ""
    """Of its file."""
    planned: int
    """Questions of the core arms."""
    others: int | None
    """Questions of the other arms; None: as many as of the core."""
    least: int
    """With fewer questions the model's part is interim: nothing is compared."""
    margin: float


MODELS = {
    "qwen-0.5b": StudyModel(
        name="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        short="the 0.5B",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        planned=600,
        others=100,
        least=300,
        margin=0.05,
    ),
    "qwen-1.5b": StudyModel(
        name="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        short="the 1.5B",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        planned=200,
        others=60,
        least=120,
        margin=0.10,
    ),
}
"""Its name on the command line, in folders, and at the endpoint (``openai/NAME``) -> what the plan says of it."""


def plan_of(model: str) -> StudyModel:
    """What the plan says of a model; one that it does not name is held to the sizes and the margin of the 0.5B."""
    return MODELS.get(model) or replace(MODELS["qwen-0.5b"], name=model, short=model, sha256="", others=None)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The debates of one arm."""

    name: str
    transcripts: Sequence[Transcript]

    @cached_property
    def values(self) -> ArmValues:
        """The values of its questions."""
        return read_arm(self.name, self.transcripts)

    def mean(self, measure: str = MEASURES[0]) -> Estimate | None:
        """The mean of a value, with its interval."""
        return self.values.mean(measure)

    def per_question(self, name: str) -> float:
        """Mean ``calls`` or ``tokens`` of a debate."""
        return fmean(getattr(transcript.total, name) for transcript in self.transcripts)


def vote_of(transcript: Transcript, samples: int) -> Transcript:
    """The vote of the first samples of a longer one; a tie goes to the earliest."""
    entry = replace(transcript.rounds[0], turns=transcript.rounds[0].turns[:samples])
    spoke = heard(entry)
    answer = majority(answer_groups(spoke, matcher(get_task(transcript.task), question_of(transcript))))
    status = "ok" if answer is not None else spoke[0].stance.status if spoke else "failed"
    return replace(
        transcript,
        rounds=(entry,),
        answer=answer,
        status=outcome(status),
        final=replace(transcript.final, answer=answer, status=status),
        usage={"speak": sum((turn.usage or StageUsage() for turn in entry.turns), StageUsage())},
    )


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A debate against its vote, or another pair of arms."""

    test: PairedTest
    others: Mapping[str, PairedTest]
    """The same contrast by EM and F1."""
    margin: float
    unequally_read: Sequence[str] = ()
    """Stages whose readable shares differ by more than five points."""

    @property
    def finding(self) -> str:
        """``pays``, ``costs``, ``equal within m points``, both, or ``not decided`` with a number of questions."""
        found = []
        if self.test.p_holm < _ALPHA:
            found.append("pays" if self.test.difference.value > 0 else "costs")
        if equal_within(self.test.difference, self.margin):
            found.append(f"equal within {100 * self.margin:g} points")
        return " and ".join(found) or f"not decided; about {self.needed:,} questions would decide"

    @property
    def needed(self) -> int:
        """Questions for a power of 80 % at this difference, or for an interval within the margin; the smaller."""
        more = further_questions(self.test)
        sizes = [] if more is None else [self.test.n + more]
        room = self.margin - abs(self.test.difference.value)
        if room > 0:
            sizes.append(math.ceil(self.test.n * (half_of_90(self.test.difference) / room) ** 2))
        return max(min(sizes), self.test.n + 1)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What the second round of a debate changed, for one kind of first round."""

    agreement: str
    """One of :data:`AGREEMENTS`."""
    questions: int
    right_before: int
    """By a vote on the first round."""
    right_after: int
    corrected: int
    spoiled: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All figures of one model."""

    study: KeptStudy
    plan: StudyModel

    @classmethod
    def of(cls, study: KeptStudy) -> Figures:
        """By the plan of the study's model."""
        return cls(study=study, plan=plan_of(study.model))

    @property
    def interim(self) -> bool:
        """Whether there are too few questions to compare anything."""
        return self.study.questions < self.plan.least

    @cached_property
    def arms(self) -> Mapping[str, Arm]:
        """Name -> arm; one outside the core with too few questions is left out.

        ``madke-vote`` has the first debaters whose calls are nearest to those of ``madke``.
        """
        found = {
            name: Arm(name=name, transcripts=held)
            for name, held in self.study.transcripts.items()
            if name in CORE or len(held) >= (self.plan.others or 1)
        }
        vote, debate = found.get("madke-vote"), found.get("madke")
        if vote and debate and vote.transcripts:
            most = max(len(each.rounds[0].turns) for each in vote.transcripts)
            sizes = [
                Arm(name=vote.name, transcripts=[vote_of(each, size) for each in vote.transcripts])
                for size in range(1, most + 1)
            ]
            calls = debate.per_question("calls")
            found[vote.name] = min(sizes, key=lambda each: abs(each.per_question("calls") - calls))
        return found

    @cached_property
    def scores(self) -> Mapping[str, Scores]:
        """Arm -> its scores."""
        return {name: scores_of(arm.transcripts) for name, arm in self.arms.items()}

    @cached_property
    def primary(self) -> Sequence[Contrast]:
        """The primary contrasts, Holm-corrected over them."""
        return [*self._contrasts(PRIMARY)]

    @cached_property
    def secondary(self) -> Sequence[Contrast]:
        """The secondary contrasts, Holm-corrected over them."""
        return [*self._contrasts(SECONDARY)]

    def _contrasts(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Contrast]:
        found = []
        for left, right in pairs:
            if left in self.arms and right in self.arms:
                one, two = self.arms[left].values, self.arms[right].values
                tests = {measure: test for measure in MEASURES if (test := paired_test(one, two, measure))}
                found += [tests] if tests else []
        # A test that waits for its arms counts in the correction as one that finds nothing.
        ps = [each[MEASURES[0]].p for each in found] + [1.0] * (len(pairs) - len(found))
        for measures, p in zip(found, holm(ps), strict=False):
            test = replace(measures.pop(MEASURES[0]), p_holm=p)
            gaps = [*self._unequally_read(test.left, test.right)]
            yield Contrast(test=test, others=measures, margin=self.plan.margin, unequally_read=gaps)

    def _unequally_read(self, left: str, right: str) -> Iterator[str]:
        one, two = (self.scores[name].readable for name in (left, right))
        for stage in one:
            if stage in two and abs(one[stage].value - two[stage].value) > READABLE_GAP:
                yield stage

    @property
    def waiting(self) -> list[str]:
        """What is not tested yet, because its arms have too few questions."""
        pairs = [f"`{right}` minus `{left}`" for left, right in SECONDARY if not {left, right} <= self.arms.keys()]
        return pairs if self.interaction else [*pairs, "knowledge times debate"]

    @cached_property
    def interaction(self) -> Estimate | None:
        """The gain of debate with the pool minus its gain without, with a bootstrap interval over questions."""
        if not {name for pair in CELLS for name in pair} <= self.arms.keys():
            return None
        cells = [self.arms[name].values.values.get(MEASURES[0], {}) for pair in CELLS for name in pair]
        shared = [key for key in cells[0] if all(key in each for each in cells)]
        if len(shared) < 2:
            return None
        vote, debate, bare_vote, bare_debate = ([fmean(each[key].values()) for key in shared] for each in cells)
        gains = [b - a - (d - c) for a, b, c, d in zip(vote, debate, bare_vote, bare_debate, strict=True)]
        low, high = bootstrap(gains, RESAMPLES)
        return Estimate(value=fmean(gains), low=low, high=high, n=len(gains))

    @cached_property
    def ballots(self) -> Mapping[str, Estimate]:
        """What was varied -> how many independent votes the ballots were worth."""
        votes = {name: _votes(arm) for name, arm in self.arms.items()}
        prompts = [votes.get(name, {}) for name in ("mad-vote", "rag-vote", "alone")]
        sets = {
            "sample (`mad-vote`)": [*votes.get("mad-vote", {}).values()],
            "sample (`rag-vote`)": [*votes.get("rag-vote", {}).values()],
            "prompt (`mad-vote`, `rag-vote`, `alone`)": [
                [each[id_][0] for each in prompts] for id_ in prompts[0] if all(each.get(id_) for each in prompts)
            ],
            "view (`views`)": [*votes.get("views", {}).values()],
        }
        worth = {name: effective_votes(ballots) for name, ballots in sets.items()}
        return {name: each for name, each in worth.items() if each is not None}

    def changes(self, name: str) -> list[Changes]:
        """What the debate of an arm changed, by the agreement of its first round."""
        debates = [each for each in self.arms[name].transcripts if each.status != "failed"]
        found = [(_agreement(each), _right(vote_of(each, 3)), _right(each)) for each in debates]
        rows = {kind: [pair for agreement, *pair in found if agreement == kind] for kind in AGREEMENTS}
        return [
            Changes(
                agreement=kind,
                questions=len(pairs),
                right_before=sum(before == 1 for before, _ in pairs),
                right_after=sum(after == 1 for _, after in pairs),
                corrected=sum(before < after for before, after in pairs),
                spoiled=sum(before > after for before, after in pairs),
            )
            for kind, pairs in rows.items()
        ]


def model_votes(studies: Sequence[Figures]) -> Estimate | None:
    """Effective votes of the models' first samples of ``mad-vote`` on their shared questions."""
    held = [_votes(each.arms["mad-vote"]) for each in studies if "mad-vote" in each.arms]
    if len(held) < 2:
        return None
    shared = [id_ for id_ in held[0] if all(votes.get(id_) for votes in held)]
    return effective_votes([[votes[id_][0] for votes in held] for id_ in shared])


def _votes(arm: Arm) -> dict[str, list[float]]:
    """Question -> right or wrong for each ballot; one for an arm of one call."""
    return {
        each.id: DebateMeasures(each).votes or [_right(each)] for each in arm.transcripts if each.status != "failed"
    }


def _right(transcript: Transcript) -> float:
    """Whether the final answer matches a gold answer; a missing one does not."""
    return correct(transcript) or 0.0


def _agreement(transcript: Transcript) -> str:
    turns = transcript.rounds[0].turns
    groups = answer_groups(turns, matcher(get_task(transcript.task), question_of(transcript)))
    largest = max(map(len, groups), default=0)
    return AGREEMENTS[0 if largest == len(turns) else 1 if largest > 1 else 2]
