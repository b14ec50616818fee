"""The unit of each value of a debate or of a round. How it is printed, its interval and its tests follow from it."""

from collections.abc import Mapping
from types import MappingProxyType

from madke.scoring.metrics import METRICS

GRADER = "grader"
"""The name of a model's grades among the external scores: right is 1, wrong is 0."""

HUMAN = "human_"
"""How the names of people's grades begin among the external scores: ``human_right``, ``human_quality``, ..."""

BIAS = "bias"
"""Whether people find that an ambiguous word is translated wrongly (Liang et al., published version, Table 4)."""

SHARE = "share"
"""The unit of values from 0 to 1, where 0 means no and 1 means yes. They are printed in percent."""

_SHARES = (
    # Of the final answer
    *("correct", "cons_judge", "cons_matcher", "co2_judge", "co2_matcher", "co2_judge_grader", "co2_matcher_grader"),
    *(f"{HUMAN}right", f"{HUMAN}ambiguity_resolved", BIAS),
    # Of the debate
    *("corrected", "collapsed", "oracle", "repaired", "trapped", "trapped_debater", "judge_tie", "diversity"),
    *("right_to_wrong", "right_to_none", "wrong_to_right", "copied", "false_same", "false_different", "new_summary"),
    # Of a round
    *("accuracy", "right", "cons", "co2", "log_likelihood_clipped", "disagreement", "self_disagreement"),
    *("adopted", "unmisled", "resisted", "given_up"),
    # Of selections
    *("pool_recall", "no_found", "selection_overlap", "selection_change"),
    *("selection_recall", "selection_precision", "misinformation_selected"),
)

VALUE_UNITS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_SHARES, SHARE)
    | {"rounds": "rounds", "selected_ids": "passages", "entropy": "bits", "log_likelihood": "bits"}
    | {f"{HUMAN}quality": "1 to 5"}
)
"""Name -> unit, for all values but metrics and those of :data:`NAMED_SHARES`."""

NAMED_SHARES: Mapping[str, str] = MappingProxyType(
    {"share_": "SOURCE", "sided_with_": "NAME", "changed_": "NAME", f"{GRADER}:": "MODEL"}
)
"""Beginning of a name -> what follows it, for shares of which there are several."""


def unit_of(name: str) -> str | None:
    """The unit of a value; metrics are shares. None for an external scorer, which has its own scale."""
    if name in VALUE_UNITS:
        return VALUE_UNITS[name]
    return SHARE if name in METRICS or name == GRADER or name.startswith(tuple(NAMED_SHARES)) else None


def is_share(name: str) -> bool:
    """Whether a value is from 0 to 1, in percent. External scorers have their own scales."""
    return unit_of(name) == SHARE


def may_be_rate(name: str) -> bool:
    """Whether 0 and 1 mean no and yes, so that values without any other are a rate. External scorers may give one."""
    return unit_of(name) in (SHARE, None)


def is_grader(name: str) -> bool:
    """Whether external scores of this name are a model's grades: those of the first grader or of a further one."""
    return name == GRADER or name.startswith(f"{GRADER}:")


def with_units(values: dict[str, float]) -> dict[str, float]:
    """The values of a debate or round, unchanged; KeyError for one without a unit, which would be taken for a rate."""
    for name in values:
        if unit_of(name) is None:
            raise KeyError(f"the value {name!r} has no unit; add it to VALUE_UNITS in madke/scoring/value_units.py")
    return values
