"""Values for trial renders of templates."""

from typing import Any

from madke.core.question import Question
from madke.core.stage import Spoken
from madke.engine.reading import Group

_SPOKEN = Spoken(agent="name", text="text", answer="A", confidence=0.5)
_FULL: dict[str, Any] = {
    "question": Question(id="q", question="?", task="choice", choices=("yes", "no"), instructions="text"),
    "round": 1,
    "rounds": 1,
    "debaters": ("name",),
    "debater": "name",
    "persona": "p",
    "knowledge": [(0, "title", "text")],
    "max_selected": 1,
    "allow_search": True,
    "own": "text",
    "peers": (_SPOKEN,),
    "history": (_SPOKEN,),
    "groups": (Group(answer="A", members=(_SPOKEN,)),),
    "digest": "text",
    "critique": "text",
    "cite": True,
    "stances": (_SPOKEN,),
}
_BARE: dict[str, Any] = {
    **_FULL,
    "question": Question(id="q", question="?"),
    "persona": "",
    **dict.fromkeys(("own", "digest", "critique")),
    **dict.fromkeys(("knowledge", "peers", "history", "groups", "stances"), ()),
}
_EMPTY_STANCES = dict.fromkeys(("peers", "history", "stances"), (Spoken(agent="", text=""),))
EXAMPLES = (_FULL, {**_FULL, "bound": True}, _BARE, {**_BARE, **_EMPTY_STANCES})
"""Values for trial renders, so that mistakes show when a variant is loaded and not during a run."""
