"""A ``sources.yaml``: its entries, what only the user may allow of them, and adding one."""

import re
from dataclasses import dataclass
from pathlib import Path

from madke._util.files import dir_lock, write_file
from madke._util.yaml_file import read_entries
from madke.core.errors import UserError
from madke.knowledge.source_spec import SourceSpec, parts_of, risk_of, spec_from_yaml

_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceEntry:
    """A source's specification and its position; relative paths are relative to the file."""

    spec: SourceSpec
    file: Path
    line: int


def read_sources(path: Path, *, named: bool = False) -> dict[str, SourceEntry]:
    """Name -> entry of a sources file; ``named``: entries may run code and send keys, because the user named it."""
    entries = {}
    for name, (line, content) in read_entries(path).items():
        if not _NAME.fullmatch(name) or name == "none":
            expected = "expected letters, digits, hyphens, dots and underscores, and not 'none'"
            raise UserError(f"{name!r} is not a valid source name; {expected}", file=path, line=line)
        spec = spec_from_yaml(content, file=f"{path}:{line}: source {name!r}")
        folder = path.absolute().parent
        risk = next(filter(None, (risk_of(part, folder) for part in parts_of(spec))), None)
        if risk and not named:
            remedy = f"use --sources-file {path} or MADKE_SOURCES={path}"
            why = f"source {name!r} {risk}, which is allowed only in a file that you name: {remedy}"
            raise UserError(why, file=path, line=line)
        entries[name] = SourceEntry(spec=spec, file=path, line=line)
    return entries


def add_source(path: Path, name: str, spec: SourceSpec) -> None:
    """Add a source to a file, or replace the one of the same name; concurrent calls wait for each other."""
    import yaml

    with dir_lock(path.parent):
        entries = {name: entry.spec for name, entry in read_sources(path).items()} if path.exists() else {}
        entries[name] = spec
        content = {name: entry.model_dump(mode="json", exclude_none=True) for name, entry in entries.items()}
        write_file(path, yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode())
