"""What a call asks for, in values: for stand-ins of a language model, which read no prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from madke.core.question import Question


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """One stance as it is shown to a reader."""

    agent: str
    """Empty if the protocol is anonymous."""
    text: str
    """Empty if only answers are shown."""
    answer: str | None = None
    confidence: float | None = None
    round: int = 1
    own: bool = False


class ShownPassage(NamedTuple):
    """One passage with the number under which it is shown, without line breaks."""

    number: int
    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The stage of a call and the values that its prompt shows.

    The offline reader, the person at the terminal or the page, and doubles in tests read these values; a language model
    gets the rendered messages. So prompts can be reworded freely.
    """

    name: str
    """``select``, ``speak``, ``reply``, ``judge``, ...: the name of the template; or of a call outside a debate."""
    question: Question
    """Without golds and metadata."""
    task: Any = None
    """The answer format, a :class:`madke.tasks.base.Task`; None outside debates."""
    marker: Any = "plain"
    """How an answer is stated: :data:`madke.engine.parse.Marker`."""
    persona: str = ""
    """The debater's own, from the protocol."""
    passages: tuple[ShownPassage, ...] = ()
    """The pool (to select from or to rank), or the reader's own selection."""
    own: str | None = None
    """The reader's own newest stance, if it is shown."""
    others: tuple[Spoken, ...] = ()
    """The stances of others in the order in which they are shown; for a judge or summarizer, of all debaters."""
    max_selected: int = 0
    """``select``: the largest number of passages."""
    allow_search: bool = False
    """``select``: whether a search may be asked for."""
    asks_confidence: bool = False
    """Whether a stance also states a confidence."""
    decides: bool = False
    """``judge``, ``extract``: whether the judge also names the debater who is right and its answer."""

    @property
    def form(self) -> Literal["choice", "claim", "span"]:
        """What an answer is: the letter of an option, the label of a claim, or a short text."""
        if self.question.choices:
            return "choice"
        return "claim" if getattr(self.task, "name", "") == "claim" else "span"

    @property
    def newest(self) -> Sequence[Spoken]:
        """The last stance of each of the others with a name, then all of those without."""
        named = {spoken.agent: spoken for spoken in self.others if spoken.agent}
        return (*named.values(), *(spoken for spoken in self.others if not spoken.agent))
