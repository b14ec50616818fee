"""Text of others is inserted into prompts and never rendered; templates of others reach nothing but their values."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.models.scripted import ScriptedChat
from madke.tasks import TASKS
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
        "{{ question.__class__.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ self._TemplateReference__context }}",
        "{{ lipsum.__globals__ }}",
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
    question = Question(id="q", question="Which lake?", answers=("x",))
    with pytest.raises(UserError) as raised:
        _play_own(tmp_path / "own", question)
    assert "root:" not in str(raised.value)


def _play_own(prompts: Any, question: Any) -> Any:
    variant = load_variant("mad", prompts)
    model = ScriptedChat(lambda request: "[x]")
    cast = dict.fromkeys(variant.protocol.roles, model)
    pool = KnowledgePool()
    return asyncio.run(
        hold_debate(Scene(question, variant.protocol, cast, pool, task=TASKS["short_answer"], prompts=variant))
    )
