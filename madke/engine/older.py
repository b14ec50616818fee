"""The settings of 0.4.0: their names today, and what its run directories hold."""

from collections.abc import Mapping
from typing import Any

RENAMED: Mapping[str, str] = {
    "knowledge": "sources",
    "talk": "talk (simultaneous, sequential or sequential_later)",
    "talk.first": "talk (simultaneous, sequential or sequential_later)",
    "talk.later": "talk (sequential_later: one after another from round 2 on), or summarized",
    "talk.groups": "layers",
    "sees": "reads",
    "sees.form": "reads.chat",
    "stop": "early_stop, or the function's own rule",
    "finish": "function: that of the protocol, vote, ...; for lemmas end",
    "judge_sees": "a value in the protocol's function",
}
"""Former name of a setting -> what is set instead."""


def present_name(name: str) -> str | None:
    """What is set instead of a setting of 0.4.0; None if the name was none."""
    if name in RENAMED:
        return RENAMED[name]
    section, _, field = name.partition(".")
    return {"knowledge": field, "sees": f"reads.{field}"}.get(section) if field else None


def settings_of_0_4(old: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a protocol that 0.4.0 wrote, with the function that does most of what it did.

    They serve scores and reports. Settings that the function does not have are among them.
    """
    knowledge, talk, sees = old.get("knowledge") or {}, old.get("talk") or {}, dict(old.get("sees") or {})
    first, later = talk.get("first", "simultaneous"), talk.get("later", "simultaneous")
    if later == "simultaneous_with_summary":
        later, sees["peers"] = first, "last_round"
    sees["chat"] = sees.pop("form", "text") == "chat"
    stop = old.get("stop", "judge")
    return {
        **{name: value for name, value in old.items() if name not in RENAMED},
        **knowledge,
        "function": _function(old),
        "reads": sees,
        "talk": first if first == later else "sequential_later" if later == "sequential" else "simultaneous",
        "layers": talk.get("groups"),
        "summarized": talk.get("later") == "simultaneous_with_summary",
        "end": "pick" if old.get("finish") == "judge_pick" else "overlap",
        "early_stop": stop if stop == "budget" else None,
    }


def _function(old: Mapping[str, Any]) -> str:
    sees, finish = old.get("sees") or {}, old.get("finish", "summarizer")
    reads_nothing = (sees.get("peers"), sees.get("own")) == ("none", "none")
    if (old.get("talk") or {}).get("groups"):
        return "vote" if reads_nothing else "moa"
    if finish == "only":
        return "self_reflect" if old.get("stop") == "satisfied" else "alone"
    if finish == "majority":
        return "vote" if reads_nothing else "chateval" if sees.get("peers") == "history" else "mad"
    by_finish = {
        "agreed_or_summarizer": "gated",
        "judge_extract": "liang",
        "judge_pick": "lemmas",
        "convergence": "lemmas",
        "rerank": "best_of",
        "weighted": "reconcile",
    }
    stable = old.get("stop") == "stability"
    return by_finish.get(finish, "per_document" if stable else "madke")
