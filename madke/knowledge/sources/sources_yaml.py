"""Files that give sources names: ``name: specification`` in YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from madke.core.errors import UserError
from madke.files import alone_in, replacing
from madke.knowledge.sources.spec import SourceSpec, spec_from_yaml
from madke.yaml_file import read_entries

_NAME = re.compile(r"[\w.-]+")
"""What ``--sources`` and ``A+B`` can name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A source's specification and where it stands."""

    spec: SourceSpec
    """As written: relative paths are relative to the file."""
    file: Path
    line: int


def read_sources(path: Path) -> dict[str, Entry]:
    """The sources that a file names; none if it is empty.

    Raises:
        UserError: The file cannot be read, or an entry is no specification; the message says on which line.
    """
    entries = {}
    for name, (line, content) in read_entries(path).items():
        if not _NAME.fullmatch(name) or name == "none":
            expected = "expected letters, digits, hyphens, dots and underscores, and not 'none'"
            raise UserError(f"{name!r} cannot name a source; {expected}", file=path, line=line)
        spec = spec_from_yaml(content, file=f"{path}:{line}: source {name!r}")
        entries[name] = Entry(spec=spec, file=path, line=line)
    return entries


def add_source(path: Path, name: str, spec: SourceSpec) -> None:
    """Write a source into a file, in place of one of the same name; the others stay. Two at once wait for each other.

    Raises:
        UserError: The file is there and is none of sources, or it cannot be written.
    """
    import yaml

    with alone_in(path.parent):
        entries = {name: entry.spec for name, entry in read_sources(path).items()} if path.exists() else {}
        entries[name] = spec
        content = {name: entry.model_dump(mode="json", exclude_none=True) for name, entry in entries.items()}
        with replacing(path) as file:
            file.write(yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode())
