"""How many replies could not be read, and why, in words."""

from collections.abc import Iterable, Mapping

from madke._util.terminal import printable
from madke.core.errors import count_of
from madke.report.tables import percent_cell
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

_UNREAD_NOTE = "unread: the final text holds no marked answer, only gives back its prompt, or was cut off"


def unread_note(scores: Iterable[Scores]) -> str:
    """What ``unread`` counts; that these answers are wrong, if any run is scored."""
    return f"{_UNREAD_NOTE}; it is wrong." if any(each.correct for each in scores) else f"{_UNREAD_NOTE}."


def unread(scores: Scores) -> int:
    """Number of debates without an answer whose final text cannot be read."""
    return sum(scores.unread.values())


def cut_note(scores: Scores, max_tokens: int | None = None) -> str | None:
    """How many replies were cut off before they said anything that can be read, and what to do; None if none was."""
    if not scores.cut:
        return None
    limit = "max_tokens" if max_tokens is None else count_of(max_tokens, "token")
    stages = ", ".join(f"{printable(stage)} {count}" for stage, count in scores.cut.items())
    count = sum(scores.cut.values())
    were = "was" if count == 1 else "were"
    replies = "1 reply" if count == 1 else f"{count:,} replies"
    return f"{replies} {were} cut off at {limit} and cannot be read ({stages}); --set max_tokens=N"


def bound_note(scores: Scores) -> str | None:
    """How many calls of each stage were bound by a JSON schema; None if none was."""
    bound = {stage: used for stage, used in scores.usage.items() if used.bound}
    stages = ", ".join(f"{printable(stage)} {used.bound:,} of {used.calls:,}" for stage, used in bound.items())
    return f"bound by a JSON schema: {stages} calls" if bound else None


def by_status(shares: Mapping[str, Estimate]) -> str:
    """The shares of replies by their status, in words."""
    stated = ", ".join(f"{status} {percent_cell(share).text} %" for status, share in shares.items())
    return f" ({stated})" if stated else ""


def grades_missing(scores: Scores) -> str:
    """The number of answers without a grade and the bounds of the grader's mean; empty if all have one."""
    if not scores.ungraded or scores.grader_if_ungraded is None:
        return ""
    bounds = "{:.1f} % (all wrong) and {:.1f} % (all right)".format(*(100 * each for each in scores.grader_if_ungraded))
    what = count_of(scores.ungraded, "answer has no grade and is", "answers have no grade and are")
    return f"{what} excluded from the grader's mean; with them it is between {bounds}"
