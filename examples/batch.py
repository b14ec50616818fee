"""A dataset, its scores with intervals, its transcripts and a report. The same call again resumes it."""

import tempfile
from pathlib import Path

import madke

QUESTIONS = [
    {"question": "Which planet is the largest of the solar system?", "answers": ["Jupiter"]},
    {"question": "Who painted the Mona Lisa?", "answers": ["Leonardo da Vinci", "Leonardo"]},
    {"question": "What is the chemical symbol of gold?", "answers": ["Au"]},
]


def student(messages: list[dict[str, str]]) -> str:
    """A model that knows two of the three."""
    asked = messages[1]["content"]  # after the system text: the question
    known = {"planet": "Jupiter", "Mona Lisa": "Leonardo da Vinci", "gold": "Go"}
    answer = next(answer for word, answer in known.items() if word in asked)
    return f"I remember this from school. The answer is {answer}."


if __name__ == "__main__":
    out = Path(tempfile.mkdtemp()) / "run"
    run = madke.run(QUESTIONS, protocol="mad", model=student, out=out, options=madke.RunOptions(concurrency=8))
    correct = run.scores["correct"]
    print(f"correct: {correct.value:.2f} ({correct.low:.2f} to {correct.high:.2f}, {correct.n} questions)")
    for transcript in run.transcripts():
        print(f"  {transcript.question} {transcript.answer}")
    print("report:", run.report(out / "report.html"))
