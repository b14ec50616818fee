"""The figures of the study, computed from kept transcripts: arms, votes of the same cost, and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from eval.studies.kept import KeptStudy
from madke.core.transcript import ParseStatus, StageUsage, Transcript, Turn
from madke.engine.agreement import answer_groups, matcher
from madke.scoring.arms import ArmValues, read_arm
from madke.scoring.debate_rows import DebateMeasures
from madke.scoring.gates import Shadow, gated_debate, shadow_of
from madke.scoring.metrics import question_of
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.statistics import Estimate
from madke.tasks import get_task

METRIC = "match"
PARTS = ("nq_open", "hotpotqa", "ramdocs")
PRIMARY = ("madke", "mad", "moa", "gated", "isolate", "adaptive-vote")
CONTROLS = (("mad-noise", "mad"), ("standard", "rag"), ("cot", "rag"), ("rag", "madke"))
"""(left, right): the difference is right minus left."""
DEBATES = ("gated", "mad", "moa", "madke")
VOTE = "vote"
_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm, on the questions that all arms of its model have answered."""

    name: str
    transcripts: Sequence[Transcript]

    @cached_property
    def values(self) -> ArmValues:
        """The values of its questions."""
        return read_arm(self.name, self.transcripts)

    def mean(self, name: str = METRIC) -> Estimate | None:
        """The mean of a value, with its interval."""
        return self.values.mean(name)

    def per_question(self, name: str) -> float:
        """Mean ``calls``, ``tokens``, ``completion_tokens`` or ``distinct_tokens`` of a debate."""
        return fmean(getattr(transcript.total, name) for transcript in self.transcripts)

    def part(self, dataset: str) -> Arm:
        """Its questions of one dataset."""
        return Arm(name=self.name, transcripts=[each for each in self.transcripts if each.dataset == dataset])


@dataclass(frozen=True, kw_only=True)
class Compared:
    """An arm against a vote of the same cost, or a control."""

    test: PairedTest
    samples: int | None = None
    """Samples of the vote."""

    @property
    def found(self) -> bool:
        """Whether the corrected p is below 0.05."""
        return self.test.p_holm < _ALPHA


@dataclass(frozen=True, kw_only=True)
class Results:
    """All figures of one model."""

    study: KeptStudy

    @cached_property
    def arms(self) -> Mapping[str, Arm]:
        """Name -> arm."""
        held = self.study.transcripts
        ids = set.intersection(*({each.id for each in transcripts} for transcripts in held.values()))
        return {
            name: Arm(name=name, transcripts=[each for each in found if each.id in ids]) for name, found in held.items()
        }

    @property
    def questions(self) -> int:
        """Questions that all arms have answered."""
        return len(next(iter(self.arms.values())).transcripts)

    @cached_property
    def votes(self) -> Sequence[Arm]:
        """The vote of the first 1, 2, ... samples."""
        if VOTE not in self.study.transcripts:
            return []
        asked = {each.id for each in next(iter(self.arms.values())).transcripts}
        whole = [each for each in self.study.transcripts[VOTE] if each.id in asked]
        most = max(len(each.rounds[0].turns) for each in whole) if whole else 0
        return [Arm(name=f"vote@{k}", transcripts=[vote_of(each, k) for each in whole]) for k in range(1, most + 1)]

    def equal_vote(self, arm: Arm, unit: str = "calls") -> Arm | None:
        """The vote whose mean ``calls`` or ``tokens`` are nearest to the arm's."""
        if not self.votes:
            return None
        cost = arm.per_question(unit)
        return min(self.votes, key=lambda vote: abs(vote.per_question(unit) - cost))

    @cached_property
    def primary(self) -> Mapping[str, Compared]:
        """Arm -> the test against its equal-cost vote, Holm-corrected."""
        pairs = [(vote, self.arms[name]) for name in PRIMARY if name in self.arms and (vote := self._vote(name))]
        tests = paired_tests([(vote.values, arm.values) for vote, arm in pairs], [METRIC])
        return {
            test.right: Compared(test=test, samples=int(vote.name.partition("@")[2]))
            for test, (vote, _) in zip(tests, pairs, strict=True)
        }

    def _vote(self, name: str) -> Arm | None:
        return self.equal_vote(self.arms[name])

    @cached_property
    def controls(self) -> Sequence[Compared]:
        """The secondary tests, Holm-corrected."""
        pairs = [(self.arms[left], self.arms[right]) for left, right in CONTROLS if {left, right} <= self.arms.keys()]
        tests = paired_tests([(left.values, right.values) for left, right in pairs], [METRIC])
        return [Compared(test=test) for test in tests]

    @cached_property
    def shadows(self) -> Mapping[str, Shadow]:
        """Debate -> what gates would have made of it."""
        held = {name: map(DebateMeasures, arm.transcripts) for name, arm in self.arms.items() if name in DEBATES}
        found = {name: shadow_of(map(gated_debate, debates)) for name, debates in held.items()}
        return {name: shadow for name, shadow in found.items() if shadow is not None}


def vote_of(transcript: Transcript, samples: int) -> Transcript:
    """The vote of the first samples of a longer one; a tie goes to the earliest."""
    entry = transcript.rounds[0]
    turns = entry.turns[:samples]
    spoke = [turn for turn in turns if turn.stance.status != "failed"]
    groups = answer_groups(spoke, matcher(get_task(transcript.task), question_of(transcript)))
    answer = max(groups, key=len)[0].stance.answer if groups else None
    used = sum((turn.usage or StageUsage() for turn in turns), StageUsage())
    return replace(
        transcript,
        rounds=(replace(entry, turns=turns),),
        answer=answer,
        status="failed" if not spoke else "abstained" if answer is None else "ok",
        final=replace(transcript.final, answer=answer, status=_status(spoke, answer)),
        usage={"speak": used},
    )


def _status(spoke: Sequence[Turn], answer: str | None) -> ParseStatus:
    return "ok" if answer is not None else spoke[0].stance.status if spoke else "failed"
