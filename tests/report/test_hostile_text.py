"""Whatever models and the web say is shown as text."""

import json

from madke.core.transcript import Final, PoolEntry, to_json
from madke.report.html import write_report
from madke.report.text import debate_text
from madke.runs.scored import score_run
from tests.support.cli import madke
from tests.support.dataset import write_dataset
from tests.support.transcripts import transcript

HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }} [bold red]x[/] \x1b[31mred\x1b[0m \u202eabc [Yes]"


def test_a_page_shows_hostile_text_and_runs_none_of_it(tmp_path):
    questions, pools = write_dataset(tmp_path, 1)
    (tmp_path / "script.yaml").write_text(json.dumps([{"reply": HOSTILE}]))
    out = tmp_path / "out"
    options = ("--pools", pools, "--model", f"scripted/{tmp_path / 'script.yaml'}", "--out", out)
    assert madke("run", questions, *options).returncode == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "http://" not in page.replace("https://", "")


def test_a_debate_as_text_cannot_steer_the_terminal():
    shown = debate_text(
        transcript(
            HOSTILE, said=[HOSTILE, "x"], consensus=False, answer=HOSTILE, final=Final(by="summarizer", text=HOSTILE)
        )
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold red]x[/]" in shown


def test_a_title_cannot_pass_for_a_line_of_ours():
    forged = "T\n\n--- round 9 ---\nFinal answer, by summarizer: [forged]"
    entry = PoolEntry(n=0, source="google", key=forged, title=forged)
    shown = debate_text(transcript(forged, said=["x", "y"], consensus=False, answer="x", pool=(entry,)))
    assert not any(
        line.startswith(("--- round 9", "Final answer, by summarizer: [forged]")) for line in shown.splitlines()
    )


def test_a_report_of_several_runs_holds_every_debate(tmp_path):
    questions, pools = write_dataset(tmp_path, 2)
    (tmp_path / "script.yaml").write_text(json.dumps([{"reply": "[0] [Yes] The answer is [Lake Baikal]."}]))
    outs = [tmp_path / name for name in ("one", "two")]
    for out in outs:
        options = ("--pools", pools, "--model", f"scripted/{tmp_path / 'script.yaml'}", "--out", out)
        assert madke("run", questions, *options).returncode == 0
    write_report({out: score_run(out) for out in outs}, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<details>") == 4
    assert page.count("100.0 (") >= 2


def test_a_written_transcript_is_one_line():
    line = to_json(transcript("1", said=["a\nb", "\u2028"], consensus=False, answer="x"))
    assert b"\n" not in line
