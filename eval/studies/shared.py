"""What the studies share: their models, the order of their questions, and helpers of their command lines."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path

from madke.core.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyModel:
    """A model file that anyone can get."""

    key: str
    """Its name on the command line, in folders, and at the endpoint (``openai/KEY``)."""
    name: str
    """Its public name."""
    sha256: str


MODELS = {
    model.key: model
    for model in (
        StudyModel(
            key="qwen-0.5b",
            name="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ),
        StudyModel(
            key="qwen-1.5b",
            name="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ),
    )
}


def check_file(model: StudyModel, file: Path) -> None:
    """UserError if ``file`` is not the model's file."""
    if not file.is_file():
        raise UserError(f"no such file; expected the GGUF file of {model.name}", file=file)
    with file.open("rb") as opened:
        found = file_digest(opened, "sha256").hexdigest()
    if found != model.sha256:
        raise UserError(f"SHA-256 is {found}, expected {model.sha256} for {model.name}", file=file)


DEVELOPMENT, HELD_OUT = 30, 50
"""Of each of two datasets, ordered by the SHA-256 of the question's id: the first questions, with which prompts were
written, and the next ones, which were reported before these studies."""
PASSAGES = 5


def ordered(ids: Sequence[str]) -> list[str]:
    """The ids in the order of the split."""
    return sorted(ids, key=lambda each: sha256(each.encode()).hexdigest())


def packed(lines: Iterable[bytes]) -> bytes:
    """The lines, compressed; the same bytes for the same lines."""
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)


def folder_of(variable: str) -> Path | None:
    """The folder that an environment variable names; None if it is not set."""
    return Path(os.environ[variable]) if os.environ.get(variable) else None


def tell(text: str) -> None:
    """Print to standard error, at once."""
    print(text, file=sys.stderr, flush=True)
