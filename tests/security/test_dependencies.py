"""What we depend on is pinned by hashes."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_lock_file_has_the_versions_of_the_constraints_with_hashes_and_no_addresses() -> None:
    constraints, lock = (ROOT.joinpath(name).read_text() for name in ("constraints.txt", "requirements.lock"))
    assert pinned(lock) == pinned(constraints)
    assert "://" not in lock
    for entry in re.split(r"\n(?=\w)", lock)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}$", entry.strip()), entry


def pinned(text: str) -> set[tuple[str, str]]:
    """(Name, version) of each line."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in found}
