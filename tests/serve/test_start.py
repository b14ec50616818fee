"""What ``madke serve`` says when it starts, and with what it does not start."""

from pathlib import Path

import pytest

from tests.serve.serving import Upstream, serving
from tests.support.cli import madke, refused, started


def test_the_start_names_the_models_the_knowledge_and_the_page(tmp_path: Path) -> None:
    protocols = ("--protocols", "madke,cot", "--set", "judge_asked=always")  # cot has no such setting
    cast = ("--cast", "judge=openai/m", "--base-url", "http://127.0.0.1:9/v1")
    with started("serve", "--out", tmp_path / "served", "--port", "0", *protocols, *cast) as process:
        assert process.stderr is not None
        first, *more = [process.stderr.readline().strip() for _ in range(4)]
    assert first.startswith("madke: serving madke, cot at http://127.0.0.1:")
    address = first.split(" at ")[1]
    assert more == [
        "Model: offline, openai/m (judge); offline is a built-in reader that quotes passages, not a language model",
        "Knowledge: wiki, google; wiki and google: the shipped sample, which covers only its own questions",
        f"Page: {address.removesuffix('v1')}",
    ]


THREE = "a=tests,b=docs,c=examples"
"""Three sources: more passages than ``per-document`` has debaters."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "set MADKE_SERVE_KEYS, or pass --no-auth"),
        (["--protocols", "madke,nothing"], "unknown protocol 'nothing'"),
        (["--protocols", "rerank"], "cannot be served: this protocol needs an answer scorer"),
        (["--protocols", "cot", "--cast", "judge=offline"], "no served protocol has this role"),
        (["--protocols", "madke,cot", "--set", "judge_askd=always"], "unknown parameter 'judge_askd'"),
        (["--protocols", "cot", "--alias", "gpt-4o=madk"], "--alias gpt-4o=madk: unknown protocol 'madk'"),
        (["--protocols", "cot,per-document", "--sources", THREE], "protocol 'per-document' cannot be served: --set"),
        (["--protocols", "per-document", "--sources", THREE], "needs a debater for each of up to 15 passages"),
    ],
)
def test_bad_options_end_before_anything_is_served(arguments: list[str], message: str, tmp_path: Path) -> None:
    ended = madke("serve", "--out", tmp_path / "out", *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_or_port_that_cannot_be_used_is_named(upstream: Upstream, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert refused("serve", "--out", file, "--port", "0") == f"madke: {file}: cannot be written: File exists\n"
    with serving(tmp_path / "out", upstream) as server:
        cot = ("--protocols", "cot")
        assert f"port {server.port}" in refused("serve", "--out", tmp_path / "other", "--port", server.port, *cot)
        taken = refused("serve", "--out", tmp_path / "out", "--port", 0, *cot)
    assert "another server is using it" in taken
