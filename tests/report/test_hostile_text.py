"""Whatever models and the web say is shown as text; for the page see test_page_browser."""

from madke.core.transcript import Final, PoolEntry, to_json
from madke.report.debate_text import debate_text
from tests.support.transcripts import transcript

HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }} [bold red]x[/] \x1b[31mred\x1b[0m \u202eabc [Yes]"


def test_a_debate_as_text_cannot_steer_the_terminal() -> None:
    shown = debate_text(
        transcript(
            HOSTILE, said=[HOSTILE, "x"], consensus=False, answer=HOSTILE, final=Final(by="summarizer", text=HOSTILE)
        )
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold red]x[/]" in shown


def test_a_title_cannot_pass_for_a_line_of_ours() -> None:
    forged = "T\n\n--- round 9 ---\nFinal answer, by summarizer: [forged]"
    entry = PoolEntry(n=0, source="google", key=forged, title=forged)
    shown = debate_text(transcript(forged, said=["x", "y"], consensus=False, answer="x", pool=(entry,)))
    assert not any(
        line.startswith(("--- round 9", "Final answer, by summarizer: [forged]")) for line in shown.splitlines()
    )


def test_a_written_transcript_is_one_line() -> None:
    line = to_json(transcript("1", said=["a\nb", "\u2028"], consensus=False, answer="x"))
    assert b"\n" not in line
