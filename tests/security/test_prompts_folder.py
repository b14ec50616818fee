"""A folder of prompts from a stranger: files outside it, files that never end, YAML and templates that explode.

Each is one line that names the file, and nothing hangs.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.engine.templates import MAX_BYTES
from madke.engine.variant import load_variant
from tests.support.cli import refused

PROTOCOL = "source: mine\nfunction: vote\ndebaters: 2\n"

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
        "fifo": "is a pipe; expected a regular file",
        "device": "is a link to",
        "folder": "cannot be read: Is a directory",
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
    assert "speak.j2: is a pipe; expected a regular file" in refused("protocols", "--prompts", folder.parent)


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


TEMPLATES = {
    "a long range": ("{% for x in range(1000000) %}{% endfor %}", "range too big"),
    "a recursive loop": (
        "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
        "cannot be rendered",
    ),
    "a text without an end": (loops(3, "range(1000)", "some text"), "makes more than 20,000,000 characters"),
    "a power": ("{{ 9 ** 9 ** 9 }}", "** is not available"),
    "a text times a number": ("{{ 'x' * 10000000000 }}", "* is not available"),
    "a list times a number": ("{{ [1] * 10000000000 }}", "* is not available"),
    "bytes of a number": ("{{ (1).__class__ }}", "is unsafe"),
    "lorem ipsum": ("{{ lipsum(100000000) }}", "unknown placeholder 'lipsum'"),
    "deep brackets": ("{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}", "cannot be rendered"),
    "a long chain": ("{{ question" + ".x" * 20000 + " }}", "cannot be rendered"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_explodes_is_refused(folder: Any, name: Any) -> None:
    text, said = TEMPLATES[name]
    (folder / "speak.j2").write_text(template(text))
    assert said in (found := why_not(folder).replace("Range", "range"))
    assert "speak.j2" in found
