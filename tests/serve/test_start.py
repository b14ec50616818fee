"""What ``madke serve`` says when it starts: its address once it can serve, who answers, and from what."""

from pathlib import Path

from tests.support.cli import refused, started


def test_the_start_names_the_model_the_knowledge_and_the_page(tmp_path: Path) -> None:
    with started("serve", "--out", tmp_path / "served", "--port", "0", "--protocols", "madke,cot") as process:
        assert process.stderr is not None
        first, *more = [process.stderr.readline().strip() for _ in range(4)]
    assert first.startswith("madke: serving madke, cot at http://127.0.0.1:")
    address = first.split(" at ")[1]
    assert more == [
        "Model: offline, a built-in reader that quotes passages, not a language model",
        "Knowledge: wiki, google; wiki and google: the shipped sample, which covers only its own questions",
        f"Page: {address.removesuffix('v1')}",
    ]


def test_models_are_named_with_their_roles_and_own_documents_are_no_sample(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The Angara flows out of Lake Baikal.")
    cast = ("--protocols", "madke", "--cast", "judge=openai/m", "--base-url", "http://127.0.0.1:9/v1")
    out = ("--out", tmp_path / "served", "--port", "0")
    with started("serve", *out, *cast, "--sources", f"notes={tmp_path / 'notes.txt'}") as process:
        assert process.stderr is not None
        _, model, knowledge, _ = [process.stderr.readline().strip() for _ in range(4)]
    offline = "offline is a built-in reader that quotes passages, not a language model"
    assert (model, knowledge) == (f"Model: offline, openai/m (judge); {offline}", "Knowledge: notes")


def test_no_address_is_printed_where_nothing_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert refused("serve", "--out", file, "--port", "0") == f"madke: {file}: cannot be written: File exists\n"
    assert refused("serve", "--out", file / "served", "--port", "0").endswith("cannot be written: Not a directory\n")


def test_a_setting_is_set_in_the_protocols_that_have_it(tmp_path: Path) -> None:
    both = (
        "serve",
        "--out",
        tmp_path / "served",
        "--port",
        "0",
        "--protocols",
        "madke,cot",
        "--set",
        "judge_asked=always",
    )
    with started(*both) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("madke: serving madke, cot at ")
    assert "unknown parameter 'judge_askd'" in refused(*both[:-1], "judge_askd=always")
