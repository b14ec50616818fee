"""A folder of prompts from a stranger: files outside it, files that never end, YAML and templates that explode.

Each is one line that names the file, and nothing hangs.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.variants import load_variant
from madke.variants.sandbox import MAX_BYTES
from tests.support.cli import refused

PROTOCOL = "source: mine\nknowledge: null\ndebaters: 2\nrounds: 1\nstop: never\nfinish: majority\n"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    folder = tmp_path / "prompts" / "mine"
    folder.mkdir(parents=True)
    (folder / "protocol.yaml").write_text(PROTOCOL)
    (folder / "speak.j2").write_text(template("Say it."))
    return folder


def template(user: Any, before: str = "") -> Any:
    return f"{before}{{% block system %}}s{{% endblock %}}\n{{% block user %}}{user}{{% endblock %}}"


def why_not(folder: Any) -> Any:
    with pytest.raises(UserError) as raised:
        load_variant("mine", folder.parent)
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 700
    return said


@pytest.mark.parametrize("name", ["protocol.yaml", "speak.j2", "part.j2", "notes.yaml"])
@pytest.mark.parametrize("kind", ["link", "fifo", "device", "folder", "large", "not UTF-8"])
def test_only_small_regular_files_inside_the_folder_are_read(folder: Any, tmp_path: Path, name: str, kind: str) -> None:
    (folder / "speak.j2").write_text(template('{% include "part.j2" %}'))
    (folder / "part.j2").write_text("part")
    path = folder / name
    path.unlink(missing_ok=True)
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    makers = {
        "link": lambda: path.symlink_to(secret),
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir,
        "large": lambda: path.write_text("#" * (MAX_BYTES + 1)),
        "not UTF-8": lambda: path.write_bytes(b"caf\xe9"),
    }
    makers[kind]()

    def use() -> None:
        load_variant("mine", folder.parent)

    if name == "protocol.yaml" and kind == "folder":
        pytest.skip("a folder of that name has no protocol, and is no variant")
    with pytest.raises(UserError) as raised:
        use()
    said = str(raised.value)
    assert "the secret" not in said
    assert name in said
    expected = {
        "link": "is a link to",
        "fifo": "is not a regular file",
        "device": "is a link to",
        "folder": "is not a regular file",
        "large": "is larger than 65,536 bytes",
        "not UTF-8": "is not UTF-8 text",
    }
    assert expected[kind] in said


def test_a_link_inside_the_folder_is_followed(folder: Any) -> None:
    (folder.parent / "shared.j2").write_text(template("shared"))
    (folder / "speak.j2").unlink()
    (folder / "speak.j2").symlink_to("../shared.j2")
    assert load_variant("mine", folder.parent).files


def test_the_command_says_it_in_one_line(folder: Any) -> None:
    (folder / "speak.j2").unlink()
    os.mkfifo(folder / "speak.j2")
    assert "speak.j2: is not a regular file" in refused("protocols", "--prompts", folder.parent)


LAUGHS = "a0: &a0 [lol]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGES = "m0: &m0 {a: 1, b: 2}\n" + "".join(
    f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)
YAML = {
    "aliases": (LAUGHS, "expand to more than 50,000 values"),
    "merges": (MERGES, "expand to more than 50,000 values"),
    "an alias in its own list": ("debaters: &d [*d]\n", "expand to more than 50,000 values"),
    "an alias in its own mapping": ("debaters: &d {a: *d}\n", "expand to more than 50,000 values"),
    "a merge of itself": ("debaters: &d {<<: *d}\n", "expand to more than 50,000 values"),
    "a long number": (f"rounds: {'9' * 5000}\n", "a number of 5,000 characters"),
    "a long hexadecimal number": (f"rounds: 0x{'f' * 5000}\n", "a number of 5,002 characters"),
    "a long sexagesimal number": (f"rounds: {'1:' * 5000}1\n", "a number of 10,001 characters"),
    "a long sexagesimal float": (f"rounds: {'1:' * 5000}1.5\n", "a number of 10,003 characters"),
    "deep": (f"debaters: {'[' * 20000}\n", "is not YAML"),
}


@pytest.mark.parametrize("name", YAML)
def test_yaml_that_is_larger_than_it_looks_is_refused(folder: Any, name: Any) -> None:
    text, said = YAML[name]
    (folder / "protocol.yaml").write_text("source: mine\n" + text)
    assert said in (found := why_not(folder))
    assert "protocol.yaml:" in found


def test_a_few_aliases_and_merges_are_fine(folder: Any) -> None:
    (folder / "protocol.yaml").write_text(
        PROTOCOL.replace("debaters: 2", "debaters: [&a {name: A, persona: p}, {<<: *a, name: B}]")
    )
    assert len(load_variant("mine", folder.parent).protocol.cast) == 2


def loops(depth: Any, over: Any, body: Any) -> Any:
    opened = "".join(f"{{% for i{n} in {over} %}}" for n in range(depth))
    return opened + body + "{% endfor %}" * depth


DOUBLED = "".join("{% set x = {} %}" for _ in range(40))
STEPS, TEXT = "takes more than 1,000,000 steps", "makes more than 20,000,000 characters"
TEMPLATES = {
    "loops in loops": (loops(6, "range(1000)", ""), STEPS),
    "loops in loops with a text": (loops(6, "range(1000)", "some text"), "more than"),
    "loops over a text": ("{% set x %}" + "y" * 1000 + "{% endset %}" + loops(4, "x", ""), STEPS),
    "a recursive loop": (
        "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
        "cannot be rendered",
    ),
    "a long range": ("{% for x in range(10 ** 9) %}{% endfor %}", "** is not available"),
    "a range of a million": ("{% for x in range(1000000) %}{% endfor %}", "range of 1,000,000 numbers"),
    "macros that call each other": (
        "".join(f"{{% macro m{n}() %}}{{{{ m{n + 1}() }}}}{{{{ m{n + 1}() }}}}{{% endmacro %}}" for n in range(40))
        + "{% macro m40() %}{% endmacro %}{{ m0() }}",
        STEPS,
    ),
    "a macro that calls itself twice": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        STEPS,
    ),
    "call blocks": (
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        + "{% call m() %}" * 15
        + "x"
        + "{% endcall %}" * 15,
        STEPS,
    ),
    "a text that doubles by ~": ("{% set x = 'ab' %}" + "{% set x = x ~ x %}" * 40, TEXT),
    "a text that doubles by +": ("{% set x = 'ab' %}" + "{% set x = x + x %}" * 40, TEXT),
    "a list that doubles by +": ("{% set x = [1] %}" + "{% set x = x + x %}" * 40, TEXT),
    "a text that doubles in a block": ("{% set x = 'ab' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40, TEXT),
    "a text that doubles in a filter block": (
        "{% set x = 'ab' %}" + "{% set x | upper %}{{ x }}{{ x }}{% endset %}" * 40,
        TEXT,
    ),
    "a text that doubles in a macro": (
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{{ " + "m(" * 40 + "'ab'" + ")" * 40 + " }}",
        TEXT,
    ),
    "a text that doubles by replace": ("{% set x = 'ab' %}" + "{% set x = x | replace('a', x) %}" * 60, TEXT),
    "a text that doubles by join": ("{% set x = 'ab' %}" + "{% set x = x | join(x) %}" * 60, TEXT),
    "a text that grows by indent": (
        "{% set x %}"
        + "\n" * 3000
        + "{% endset %}"
        + "{% set x = x | indent(100000, blank=true) | replace(' ', '\n ') %}" * 9,
        TEXT,
    ),
    "lists in lists": ("{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}", "a list inside a list"),
    "tuples in tuples": ("{% set x = (1, 2) %}" + "{% set x = (x, x) %}" * 60 + "{{ x }}", "a list inside a list"),
    "mappings in mappings": ("{% set x = {1: 2} %}" + "{% set x = {1: x, 2: x} %}" * 60 + "{{ x }}", "a list inside"),
    "tuples of arguments": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1, varargs, varargs) }}{% else %}{{ varargs }}{% endif %}{% endmacro %}"
        "{{ m(60, 1) }}",
        "varargs is not available",
    ),
    "a power": ("{{ 9 ** 9 ** 9 }}", "** is not available"),
    "a text times a number": ("{{ 'x' * 10000000000 }}", "* takes two numbers"),
    "a list times a number": ("{{ [1] * 10000000000 }}", "* takes two numbers"),
    "a number that squares itself": ("{% set x = 9 %}" + "{% set x = x * x %}" * 60, "* takes two numbers"),
    "a printed width": ("{{ '%10000000000d' % 1 }}", "% takes two numbers"),
    "a formatted width": ("{{ '{:>10000000000}'.format(1) }}", "is unsafe"),
    "a formatted width by its map": ("{{ '{:>10000000000}'.format_map({}) }}", "is unsafe"),
    "a padded text": ("{{ 'x'.ljust(10000000000) }}", "is unsafe"),
    "a padded text by its name": ("{{ 'x'['ljust'](10000000000) }}", "is unsafe"),
    "bytes of a number": ("{{ (1).to_bytes(10000000000) }}", "is unsafe"),
    "a centred text": ("{{ 'x' | center(10000000000) }}", "No filter named 'center'"),
    "a mapped filter": ("{{ ['x'] | map('center', 10000000000) | list }}", "No filter named 'center'"),
    "lorem ipsum": ("{{ lipsum(100000000) }}", "unknown placeholder 'lipsum'"),
    "a state between loops": ("{% set n = namespace(x='ab') %}", "unknown placeholder 'namespace'"),
    "deep brackets": ("{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}", "is not a template"),
    "deep loops": (loops(60, "[1]", "x"), "is not a template"),
    "a long chain": ("{{ question" + ".x" * 20000 + " }}", "is not a template"),
    "many branches": ("{% if 0 %}" + "{% elif 0 %}" * 4000 + "{% endif %}", None),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_explodes_is_refused(folder: Any, name: Any) -> None:
    text, said = TEMPLATES[name]
    (folder / "speak.j2").write_text(template(text))
    if said is None:
        try:
            load_variant("mine", folder.parent)
        except UserError as error:
            assert "speak.j2" in str(error)
        return
    assert said in (found := why_not(folder))
    assert "speak.j2" in found


def test_files_that_include_each_other_twice_are_refused(folder: Any) -> None:
    for n in range(60):
        text = f'{{% include "{n + 1}.j2" %}}' * 2
        (folder / f"{n}.j2").write_text(text)
    (folder / "60.j2").write_text("bottom")
    (folder / "speak.j2").write_text(template('{% include "0.j2" %}'))
    assert STEPS in why_not(folder)


def test_blocks_that_show_each_other_twice_are_refused(folder: Any) -> None:
    blocks = "".join(
        f"{{% block b{n} %}}{{{{ self.b{n + 1}() }}}}{{{{ self.b{n + 1}() }}}}{{% endblock %}}" for n in range(40)
    )
    (folder / "speak.j2").write_text(template("{{ self.b0() }}" + blocks + "{% block b40 %}{% endblock %}"))
    assert STEPS in why_not(folder)


def test_what_templates_need_is_there(folder: Any) -> None:
    (folder / "speak.j2").write_text(
        template(
            "{% for name in debaters if name != debater %}{{ loop.index }}. {{ name | upper }}"
            "{{ ', ' if not loop.last }}{% endfor %} {{ round + 1 }} of {{ 2 * rounds }}"
            " {{ question.question.strip() | replace('?', '!') | trim }} {{ ['a', 'b'] | join(' and ') }}"
            "{% set x %}{{ round }}{% endset %} {{ x ~ '/' ~ rounds }} {{ 'x\ny' | indent(2) }}"
            "{% macro m(x) %}<{{ x }}{{ caller() if caller is defined }}>{% endmacro %}"
            "{% call m(1) %}!{% endcall %}{{ m(2) }}"
            "{% for n in range(3) %}{{ n % 2 }}{% endfor %}{{ 'a' in ['a', 'b'] and round == 1 }}"
        )
    )
    variant = load_variant("mine", folder.parent)
    from madke.core.question import Question

    values = {
        "question": Question(id="q", question=" Which lake? "),
        "debater": "A",
        "debaters": ("A", "B", "C"),
        "round": 1,
        "rounds": 3,
    }
    (_, user) = variant.render("speak", "short_answer", values)
    assert user.content == "1. B, 2. C 2 of 6 Which lake! a and b 1/3 x\n  y<1!><2>010True"


def test_every_shipped_variant_takes_a_small_part_of_what_it_may() -> None:
    from madke.variants import sandbox as bounds
    from madke.variants import variant_folders

    for name in variant_folders():
        variant = load_variant(name)  # renders its templates with examples
        budget = variant.environment.budget
        assert budget.steps > bounds.MAX_STEPS * 0.99, name
        assert budget.characters > bounds.MAX_CHARACTERS * 0.99, name
    assert asset("prompts").is_dir()
