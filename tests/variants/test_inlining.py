"""What a template includes is made part of it, and no text changes by that."""

import pytest
from jinja2 import StrictUndefined
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.view import Spoken
from madke.variants import load_variant
from madke.variants.sandbox import Sandbox

VALUES = {"x": "X", "items": ("a", "b"), "name": "part.j2"}

FILES = {
    "blanks": {"main.j2": '{% if x %}\n  {% include "part.j2" %}\n\n{% endif %}\nend\n', "part.j2": "\n {{ x }}\n\n"},
    "two deep": {"main.j2": '{% include "a.j2" %}', "a.j2": '[{% include "part.j2" %}]', "part.j2": "{{ x }}"},
    "in a loop": {"main.j2": '{% for i in items %}{% include "part.j2" %}{% endfor %}', "part.j2": "{{ i }}{{ x }} "},
    "what it sets is its own": {
        "main.j2": '{% include "part.j2" %}{{ x }}{% include "part.j2" %}{{ x }}',
        "part.j2": '{{ x }}{% set x = "mine" %}{{ x }}',
    },
    "set before": {"main.j2": '{% set x = "new" %}{% include "part.j2" %}', "part.j2": "{{ x }}"},
    "set on a way not gone": {
        "main.j2": '{% if not x %}{% set x = "new" %}{% endif %}{% include "part.j2" %}',
        "part.j2": "{{ x }}",
    },
    "set behind": {"main.j2": '{% include "part.j2" %}{% set x = "new" %}{{ x }}', "part.j2": "{{ x }}"},
    "macro behind": {"main.j2": '{% include "part.j2" %}{% macro x() %}m{% endmacro %}{{ x() }}', "part.j2": "{{ x }}"},
    "import behind": {
        "main.j2": '{% include "part.j2" %}{% from "m.j2" import y as x %}{{ x() }}',
        "part.j2": "{{ x }}",
        "m.j2": "{% macro y() %}m{% endmacro %}",
    },
    "module behind": {
        "main.j2": '{% include "part.j2" %}{% import "m.j2" as x %}{{ x.y() }}',
        "part.j2": "{{ x }}",
        "m.j2": "{% macro y() %}m{% endmacro %}",
    },
    "set further down in a loop": {
        "main.j2": '{% for i in items %}{% include "part.j2" %}{% set x = "new" %}{{ x }}{% endfor %}',
        "part.j2": "{{ x }}",
    },
    "imports": {
        "main.j2": '{% block b %}{% include "part.j2" %}{% include "part.j2" %}{% endblock %}',
        "part.j2": '{% from "m.j2" import y %}{% macro z(i) %}{{ y(i) }}{{ x }}{% endmacro %}{{ z("1") }}',
        "m.j2": "{% macro y(i) %}<{{ i }}>{% endmacro %}",
    },
    "in a macro": {
        "main.j2": '{% macro m(x) %}{% include "part.j2" %}{% endmacro %}{{ m("arg") }}{{ x }}',
        "part.j2": "{{ x }}",
    },
    "with blocks": {
        "main.j2": '{% extends "base.j2" %}{% block b %}mine{% endblock %}',
        "base.j2": '{% include "part.j2" %}',
        "part.j2": "{% block b %}{{ x }}{% endblock %}",
    },
    "that extends": {
        "main.j2": '{% include "part.j2" %}',
        "part.j2": '{% extends "base.j2" %}{% block b %}mine{% endblock %}',
        "base.j2": "<{% block b %}{% endblock %}>",
    },
    "by a value": {"main.j2": "{% include name %}", "part.j2": "{{ x }}"},
    "one of several": {"main.j2": '{% include ["no.j2", "part.j2"] %}', "part.j2": "{{ x }}"},
    "perhaps missing": {"main.j2": '{% include "no.j2" ignore missing %}{{ x }}'},
    "missing on a way not gone": {"main.j2": '{% if not x %}{% include "no.j2" %}{% endif %}{{ x }}'},
    "faulty on a way not gone": {
        "main.j2": '{% if not x %}{% include "part.j2" %}{% endif %}{{ x }}',
        "part.j2": "{{ x | nothing }}",
    },
    "without context": {"main.j2": '{% include "part.j2" without context %}', "part.j2": "{{ x is defined }}"},
    "in a circle that ends": {
        "main.j2": '{% set x = x ~ "." %}{{ x }}{% if x | length < 6 %}{% include "part.j2" %}{% endif %}',
        "part.j2": '<{% include "main.j2" %}>',
    },
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_a_template_renders_to_what_jinja_makes_of_it(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sandbox = Sandbox(tmp_path)
    plain = ImmutableSandboxedEnvironment(
        loader=sandbox.loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    assert sandbox.get_template("main.j2").render(VALUES) == plain.get_template("main.j2").render(VALUES)


def test_a_prompt_takes_one_context(monkeypatch):
    opened = []

    class Counted(Context):
        def __init__(self, *parts, **named):
            opened.append(parts[2])
            super().__init__(*parts, **named)

    variant = load_variant("madke")
    question = Question(id="q", question="?", task="claim")
    values = {"question": question, "round": 1, "rounds": 3, "stances": (Spoken(agent="A", text="t", answer="a"),)}
    once = variant.render("judge", "claim", values)
    monkeypatch.setattr(Sandbox, "context_class", Counted)
    assert variant.render("judge", "claim", values) == once
    assert opened == ["judge.j2"]


def test_loops_in_each_other_may_be_more_than_python_nests(tmp_path):
    for n in range(5):
        loops = "".join(f"{{% for i{n}{m} in items[:1] %}}" for m in range(6))
        include = f'{{% include "{n + 1}.j2" %}}'
        (tmp_path / f"{n}.j2").write_text(loops + include + "{% endfor %}" * 6)
    (tmp_path / "5.j2").write_text("bottom")
    assert Sandbox(tmp_path).get_template("0.j2").render(VALUES) == "bottom"


def test_files_that_include_each_other_twice_stay_small(tmp_path):
    for n in range(40):
        (tmp_path / f"{n}.j2").write_text(
            f'{{% if deep %}}{{% include "{n + 1}.j2" %}}{{% include "{n + 1}.j2" %}}{{% endif %}}'
        )
    (tmp_path / "40.j2").write_text("bottom")
    assert Sandbox(tmp_path).get_template("0.j2").render(deep=False) == ""


def test_a_fault_of_an_included_file_is_one_line(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "protocol.yaml").write_text(
        "source: mine\nknowledge: null\ndebaters: 1\nrounds: 1\nstop: never\nfinish: only\n"
    )
    (folder / "part.j2").write_text("\n{{ round | nothing }}")
    (folder / "speak.j2").write_text(
        '{% block system %}{% endblock %}\n{% block user %}\n{% include "part.j2" %}{% endblock %}'
    )
    with pytest.raises(UserError, match=r"speak\.j2:2: is not a template: part\.j2: No filter named 'nothing'"):
        load_variant("mine", tmp_path)
