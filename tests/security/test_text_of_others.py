"""Text of others is no path, no formula and no template; and templates of others reach nothing but their values."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.engine.variant import load_variant
from madke.report.tables import csv_cell
from tests.conftest import passage
from tests.support.cli import madke, refused
from tests.support.debates import play, shown

NAMES = ["../../escaped", "/tmp/escaped", "a/b", "..", "~/escaped", "$HOME/escaped", "escaped\\..\\x", "%2e%2e%2fx"]


def test_ids_sources_titles_and_arms_of_data_are_no_paths(tmp_path: Path) -> None:
    work = tmp_path / "deep" / "work"
    work.mkdir(parents=True)
    rows = [{"id": name, "question": f"Which, {name}?", "golden_answers": ["x"]} for name in NAMES]
    (work / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    passages = [{"source": "wiki", "key": name, "title": name, "text": "t", "url": f"file://{name}"} for name in NAMES]
    other = [{"source": "../../escaped", "key": "k", "title": "t", "text": "t"}]
    pools = [{"id": row["id"], "question": row["question"], "passages": [*passages, *other]} for row in rows]
    (work / "p.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    (work / "s.yaml").write_text(json.dumps([{"reply": "[0] [Yes] the answer is [../../escaped]"}]))
    before = set(tmp_path.rglob("*"))

    out = work / "out"
    command = ("run", "q.jsonl", "--pools", "p.jsonl", "--sources", "wiki", "--model", "scripted/s.yaml", "--out", out)
    done = madke(*command, cwd=work)
    assert (done.returncode, len((out / "transcripts.jsonl").read_text().splitlines())) == (0, len(NAMES)), done.stderr
    made = madke("report", out, "--tables", "csv", "--answers", out / "answers.jsonl", cwd=work)
    assert made.returncode == 0, made.stderr

    assert all(path.is_relative_to(out) for path in set(tmp_path.rglob("*")) - before)
    assert not [path for path in out.rglob("*") if "escaped" in path.name]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "q", "--protocol", "../../etc"),
        ("ask", "q", "--protocol", "/etc"),
        ("protocols", "show", "../mad"),
        ("datasets", "show", "../nq"),
        ("index", "fetch", "../../x"),
    ],
    ids=" ".join,
)
def test_a_name_of_ours_is_no_path(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert "Traceback" not in refused(*arguments, cwd=tmp_path)


FORMULAS = [
    "=cmd|'/c calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    *(f"{before}=1" for before in "\t\n\r\x00\u200b"),
    *(f"{sign}1+1" for sign in "\uff1d\uff0b\uff0d\uff20"),
    '","=1',
]
"""Signs, also after what is not seen, in full width, and after the end of a cell."""


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_begins_as_a_formula(text: str) -> None:
    line = io.StringIO(newline="")
    csv.writer(line).writerow([csv_cell(text), csv_cell("1")])
    first, second = next(csv.reader([line.getvalue()]))
    assert first[0] not in "=+-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20"
    assert second == "1"


@pytest.mark.parametrize("text", ["-1.5", "+3e-4", "Lake Baikal", "a=b", "1-2", "", 'ja, "so"', "日本"])
def test_figures_and_words_stay_as_they_are(text: str) -> None:
    assert csv_cell(text) == text


HOSTILE = (
    "{{ 7 * 7 }}{% for x in [1] %}loop{% endfor %}{# gone #}{{ cycler.__init__.__globals__ }}"
    "%(x)s{0.__class__}$HOME`id`"
)


@pytest.mark.parametrize(
    "name", ["madke", "madke-reference", "mad", "madc", "liang", "chateval", "per-document", "rag"]
)
def test_no_text_is_rendered(name: str) -> None:
    pool = KnowledgePool(passages=(passage(HOSTILE, HOSTILE, HOSTILE, HOSTILE),))
    question = Question(id=HOSTILE, question=HOSTILE, answers=(HOSTILE,))
    _, model = play(name, lambda request: f"[0] [No] [{HOSTILE}]", question=question, pool=pool)
    prompts = "\n".join(shown(request) for request in model.requests)
    assert HOSTILE in prompts
    rest = prompts.replace(HOSTILE, "")
    assert "49" not in rest
    assert "{%" not in rest


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ self._TemplateReference__context }}",
        "{% include '../../../../etc/passwd' %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
    ],
)
def test_a_template_of_somebody_reaches_nothing(tmp_path: Path, template: str) -> None:
    folder = tmp_path / "own" / "mad"
    shutil.copytree(Path(asset("prompts", "mad")), folder)
    for file in folder.glob("*.j2"):
        file.write_text(template, encoding="utf-8")
    with pytest.raises(UserError) as raised:
        play(load_variant("mad", tmp_path / "own"), lambda request: "[x]")
    assert "root:" not in str(raised.value)
