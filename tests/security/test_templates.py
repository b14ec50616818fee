"""Text of others is inserted into prompts and never rendered; templates of others reach nothing but their values."""

import shutil
from pathlib import Path

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.engine.variant import load_variant
from tests.conftest import passage
from tests.support.debates import play, shown

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
