"""The models of the studies."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import file_digest
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
    questions: int
    """How many held-out questions it answers by default."""


MODELS = {
    model.key: model
    for model in (
        StudyModel(
            key="qwen-0.5b",
            name="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            questions=100,
        ),
        StudyModel(
            key="qwen-1.5b",
            name="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            questions=60,
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
