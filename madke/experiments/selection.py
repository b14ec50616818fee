"""Questions that the results of another arm select."""

from collections.abc import Iterable

from madke.core.transcript import Transcript
from madke.scoring.metrics import question_of
from madke.tasks import get_task


def wrong_questions(transcripts: Iterable[Transcript]) -> set[str]:
    """The ids of the questions with references that no debate answered rightly.

    The task's matcher decides. No answer is wrong too.
    """
    right: dict[str, bool] = {}
    for transcript in transcripts:
        if transcript.answers:
            answer = transcript.answer
            found = answer is not None and get_task(transcript.task).accepts(answer, question_of(transcript))
            right[transcript.id] = right.get(transcript.id, False) or found
    return {id_ for id_, found in right.items() if not found}
