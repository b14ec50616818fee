"""A folder of prompts from a stranger: files outside it, files that never end, YAML and templates that explode.

Each is one line that names the file, and nothing hangs.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.engine.templates import MAX_BYTES
from madke.engine.variant import load_variant

PROTOCOL = "source: mine\nfunction: vote\ndebaters: 2\n"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts" / "mine"
    folder.mkdir(parents=True)
    (folder / "protocol.yaml").write_text(PROTOCOL)
    (folder / "speak.j2").write_text(template("Say it."))
    return folder


def template(user: str) -> str:
    return f"{{% block system %}}s{{% endblock %}}\n{{% block user %}}{user}{{% endblock %}}"


def why_not(folder: Path) -> str:
    """The one line that says why the folder is refused."""
    with pytest.raises(UserError) as raised:
        load_variant("mine", folder.parent)
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 700
    return said


def link(path: Path) -> None:
    secret = path.parents[2] / "secret"
    secret.write_text("the secret")
    path.symlink_to(secret)


FILES: dict[str, Callable[[Path], object]] = {
    "is a link to": link,
    "is a pipe; expected a regular file": os.mkfifo,
    "cannot be read: Is a directory": Path.mkdir,
    "is larger than 65,536 bytes": lambda path: path.write_text("#" * (MAX_BYTES + 1)),
    "is not UTF-8 text": lambda path: path.write_bytes(b"caf\xe9"),
}
"""What is wrong with a file -> what makes it."""


@pytest.mark.parametrize("name", ["protocol.yaml", "speak.j2", "part.j2", "notes.yaml"])
@pytest.mark.parametrize("wrong", FILES)
def test_only_small_regular_files_inside_the_folder_are_read(folder: Path, name: str, wrong: str) -> None:
    if name == "protocol.yaml" and "directory" in wrong:
        pytest.skip("a folder of that name has no protocol, and is no variant")
    (folder / "speak.j2").write_text(template('{% include "part.j2" %}'))
    (folder / "part.j2").write_text("part")
    (folder / name).unlink(missing_ok=True)
    FILES[wrong](folder / name)
    said = why_not(folder)
    assert wrong in said
    assert name in said
    assert "the secret" not in said


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder.parent / "shared.j2").write_text(template("shared"))
    (folder / "speak.j2").unlink()
    (folder / "speak.j2").symlink_to("../shared.j2")
    assert load_variant("mine", folder.parent).files


def grown(first: str, of_previous: str) -> str:
    """Twelve lines of YAML, each of which holds the line before nine times."""
    lines = (of_previous.format(n=n, nine=", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 12))
    return "\n".join((first, *lines)) + "\n"


YAML = {
    "aliases": (grown("a0: &a0 [lol]", "a{n}: &a{n} [{nine}]"), "expand to more than 50,000 values"),
    "merges": (grown("a0: &a0 {a: 1, b: 2}", "a{n}: &a{n} {{<<: [{nine}]}}"), "expand to more than 50,000 values"),
    "an alias in its own list": ("debaters: &d [*d]\n", "expand to more than 50,000 values"),
    "a long number": (f"rounds: {'9' * 5000}\n", "a number of 5,000 characters"),
    "deep": (f"debaters: {'[' * 2000}\n", "is not YAML"),
}


@pytest.mark.parametrize("name", YAML)
def test_yaml_that_is_larger_than_it_looks_is_refused(folder: Path, name: str) -> None:
    text, said = YAML[name]
    (folder / "protocol.yaml").write_text("source: mine\n" + text)
    found = why_not(folder)
    assert said in found
    assert "protocol.yaml:" in found


ENDLESS = "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}some text" + "{% endfor %}" * 3
RECURSIVE = "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}"
TEMPLATES = {
    "a long range": ("{% for x in range(1000000) %}{% endfor %}", "range too big"),
    "a recursive loop": (RECURSIVE, "cannot be rendered"),
    "a text without an end": (ENDLESS, "makes more than 20,000,000 characters"),
    "a power": ("{{ 9 ** 9 ** 9 }}", "** is not available"),
    "a text times a number": ("{{ 'x' * 10000000000 }}", "* is not available"),
    "lorem ipsum": ("{{ lipsum(100000000) }}", "unknown placeholder 'lipsum'"),
    "deep brackets": ("{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}", "cannot be rendered"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_explodes_is_refused(folder: Path, name: str) -> None:
    text, said = TEMPLATES[name]
    (folder / "speak.j2").write_text(template(text))
    found = why_not(folder).replace("Range", "range")
    assert said in found
    assert "speak.j2" in found
