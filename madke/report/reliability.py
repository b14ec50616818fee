"""How far the scores of arms can be trusted: readable replies, the judge's record, and what looks wrong."""

from collections.abc import Iterator, Mapping

from madke._util.terminal import printable
from madke.core.errors import count_of
from madke.report.tables import percent_cell
from madke.scoring.scores import Scores


def readable_note(name: str, scores: Scores) -> str | None:
    """The readable share of an arm's replies by stage, and the median length of its answers; None without replies."""
    if not scores.readable:
        return None
    shares = ", ".join(f"{printable(stage)} {percent_cell(share).text} %" for stage, share in scores.readable.items())
    words = ""
    if scores.answer_words is not None:
        words = f"; the median answer has {scores.answer_words:g} word{'' if scores.answer_words == 1 else 's'}"
    share = scores.debate.get("copied")
    copied = ""
    if share and share.value:
        copied = f"; {percent_cell(share).text} % of replies to others are in others' words"
    return f"{name}: readable replies: {shares}{words}{copied}."


_UNEQUAL = 0.05
"""A larger difference between the readable shares of two arms is part of the finding."""


def readable_difference(scores: Mapping[str, Scores]) -> str:
    """The stages that two arms were read unequally in, in one sentence; empty if there are none."""
    found = []
    for stage in dict.fromkeys(stage for each in scores.values() for stage in each.readable):
        shares = {name: each.readable[stage].value for name, each in scores.items() if stage in each.readable}
        low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        if shares[high] - shares[low] > _UNEQUAL + 1e-9:
            figures = f"{100 * shares[low]:.1f} % in {low}, {100 * shares[high]:.1f} % in {high}"
            found.append(f"{stage} {figures}")
    return f"Replies were not equally readable: {'; '.join(found)}." if found else ""


def judge_notes(name: str, scores: Scores) -> Iterator[str]:
    """How often the judge and the summarizer of an arm differ from the task's matcher."""
    found = scores.judge
    false_same = found.same_of_different + found.same_of_missing
    if found.same or found.different:
        yield (
            f"{name}: the judge said SAME {_times(found.same)}, in {false_same:,} of them about answers that the "
            f"matcher finds different ({found.same_of_different:,}) or missing ({found.same_of_missing:,})"
            f"{_per_debate(scores, 'false_same')}; DIFFERENT {_times(found.different)}, in "
            f"{found.different_of_same:,} of them about answers that it finds the same"
            f"{_per_debate(scores, 'false_different')}."
        )
    if found.summaries:
        yield (
            f"{name}: in {found.new_summaries:,} of {found.summaries:,} summaries the final answer is none of the "
            f"debaters'{_per_debate(scores, 'new_summary')}."
        )


def _times(count: int) -> str:
    return count_of(count, "time")


def _per_debate(scores: Scores, name: str) -> str:
    """The share over questions with its interval."""
    share = scores.debate.get(name)
    return f", {percent_cell(share).text} % of them per question ({percent_cell(share).interval})" if share else ""


_SENTENCES = 0.1, 0.8
"""EM at most this, and ``match`` at least this: answers that are right, but not in the form that EM counts."""
_MOST_UNREAD = 0.1


def oddities(scores: Mapping[str, Scores]) -> Iterator[str]:
    """What in the scores of arms suggests that something is off, one sentence each."""
    for name, each in scores.items():
        em, match = each.metrics.get("em"), each.metrics.get("match")
        if em and match and em.value <= _SENTENCES[0] and match.value >= _SENTENCES[1]:
            yield (
                f"{name}: EM is {percent_cell(em).text} % where match is {percent_cell(match).text} %. The answers are "
                "right but are not the bare golds: ask for fewer words, or compare by match."
            )
        lost = {stage: 1 - share.value for stage, share in each.readable.items() if 1 - share.value > _MOST_UNREAD}
        if lost:
            stages = ", ".join(f"{100 * share:.0f} % of {stage}" for stage, share in lost.items())
            yield f"{name}: more than a tenth of the replies cannot be read ({stages}); look at some of them."
        elif (unread := sum(each.unread.values())) > _MOST_UNREAD * (each.transcripts - each.failed):
            counts = f"{unread:,} of {each.transcripts:,}"
            yield f"{name}: {counts} final answers cannot be read; look at some of them."
    if len(scores) > 1:
        first, *others = ({name: mean.value for name, mean in each.metrics.items()} for each in scores.values())
        if first and all(other == first for other in others):
            yield "All arms have the same scores by every measure: check that they differ in what you mean to compare."
