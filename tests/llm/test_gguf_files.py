"""What is read of a GGUF file before a server loads it, and how a file is found."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.errors import UserError
from madke.llm.gguf.file import find_file, read_header
from tests.support.gguf_files import gguf, save_model, save_package, string

COUNT = struct.Struct("<Q")


def tokens(texts: Any, types: Any) -> bytes:
    """The header of a file with these tokens, which may be of another type than they should be."""
    values: dict[str, Any] = {"tokenizer.ggml.tokens": texts, "tokenizer.ggml.token_type": types}
    return gguf(**values)


def test_the_header_gives_the_context_and_the_tokens_that_control_the_chat(tmp_path: Path) -> None:
    header = read_header(save_model(tmp_path / "m.gguf"))
    assert header.context == 4_096
    assert header.control_tokens == {"<|im_start|>", "<|im_end|>", "<think>"}
    assert read_header(save_model(tmp_path / "old.gguf", version=2, context=None)).context is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a GGUF file: it starts with b''"),
        (b"<!DOCTYPE html>", "is not a GGUF file: it starts with b'<!DO', expected b'GGUF'"),
        (gguf(version=9), "has version 9 of the GGUF format; expected 2 or 3"),
        (gguf(version=3 << 24), "has version 50331648"),  # big-endian
        (gguf()[:-40], "ends within its header, after .* it is incomplete"),
        (gguf()[:20], "ends within its header, after 20 bytes"),
        (tokens(7, [3]), "is damaged: tokenizer.ggml.tokens is not a list of texts"),
        (tokens([1, 2], [3, 4]), "is not a list of texts"),
        (tokens(["<a>"], "3"), "is damaged: tokenizer.ggml.token_type is not a list of numbers"),
        (gguf(template=None), "has no chat template; choose a model that is tuned for chat"),
        (gguf()[:16] + COUNT.pack(2**63), "declares 9,223,372,036,854,775,808 entries"),
        (gguf()[:16] + COUNT.pack(1) + COUNT.pack(2**40), "a text of 1,099,511,627,776 bytes"),
        (gguf()[:16] + COUNT.pack(1) + string("k") + struct.pack("<I", 77), "a value of the unknown type 77"),
        (gguf()[:16] + COUNT.pack(1) + string("k") + struct.pack("<IIQ", 9, 4, 2**50), "a list of"),
        (gguf()[:16] + COUNT.pack(1) + string("k") + struct.pack("<IIQ", 9, 9, 2), "a list of the unknown type 9"),
    ],
)
def test_a_file_that_cannot_be_served_says_why(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"m\.gguf: .*{words}"):
        read_header(path)


@given(st.data())
def test_no_bytes_raise_anything_but_an_error_for_people(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    content = bytearray(gguf())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        read_header(path)
    except UserError as error:
        assert "damaged.gguf" in str(error)


def test_a_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_model(tmp_path / "m.gguf")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_file(str(path)) == find_file("~/m.gguf") == path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no/such.gguf", "there is no file 'no/such.gguf'"),
        ("such.gguf", "there is no file 'such.gguf'"),
        ("no-such-package", "no such file, and no installed package of this name; expected the path of a GGUF file"),
        ("pytest", "the package pytest ships no GGUF file"),
    ],
)
def test_a_name_without_a_model_says_what_was_looked_for(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        find_file(name)


def test_a_folder_names_its_files(tmp_path: Path) -> None:
    save_model(tmp_path / "b.gguf"), save_model(tmp_path / "a.gguf")
    with pytest.raises(UserError, match=r"is a folder; expected a GGUF file; it holds a\.gguf, b\.gguf"):
        find_file(str(tmp_path))


def test_a_package_gives_its_file_without_running_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = save_model(tmp_path / "one.gguf"), save_model(tmp_path / "two.gguf")
    parts = [save_model(tmp_path / f"m-0000{n}-of-00002.gguf") for n in (1, 2)]
    installed = tmp_path / "installed"
    installed.mkdir()
    save_package(installed, "with-one", one)
    save_package(installed, "in-parts", *parts)
    save_package(installed, "with-two", one, other)
    monkeypatch.syspath_prepend(installed)
    assert find_file("with-one") == installed / "with_one" / "one.gguf"
    assert find_file("in-parts").name == "m-00001-of-00002.gguf"
    with pytest.raises(UserError, match=r"ships several models; choose gguf/.*one\.gguf or gguf/.*two\.gguf"):
        find_file("with-two")
