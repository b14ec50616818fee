"""With ``madke run --plan``: the vote over the same passages that costs as much as a debate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from madke.engine.protocol_parts import Knowledge
from madke.runs.request import RunRequest

if TYPE_CHECKING:
    from madke.experiments.load import Planned


def sample_of_vote(request: RunRequest, knowledge: Knowledge | None) -> RunRequest:
    """What one sample of a vote over the same passages would be asked for."""
    kept = {name: getattr(request, name) for name in ("questions", "dataset", "task", "ids", "limit", "sample_seed")}
    changes: dict[str, Any] = {"debaters": 1}
    if knowledge is not None:
        whole = {"select": "all", "allow_search": False, "per_debater_sources": None, "query": "none", "rerank": None}
        changes["knowledge"] = knowledge.model_copy(update=whole).model_dump()
    sources = ",".join(knowledge.sources) if knowledge else "none"
    return RunRequest(**kept, protocol="self-consistency", settings=changes, sources=sources)


def vote_of_equal_cost(plan: Planned, sample: Planned) -> str:
    """The votes that make as many calls, and use as many tokens, in words."""
    from madke.report.experiment_tables import planned_range

    def samples(unit: str) -> str:
        one = getattr(sample.most, unit)
        return planned_range(*(max(1, round(getattr(each, unit) / one)) for each in (plan.least, plan.most)))

    most = max(1, round(plan.most.calls / sample.most.calls))
    by_calls, by_tokens = samples("calls"), samples("all_tokens")
    return (
        f"A vote over the same passages costs as much with {by_calls} samples by calls, {by_tokens} by tokens: "
        f"--protocol self-consistency --set debaters={most}."
    )
