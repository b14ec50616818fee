"""What we depend on is pinned by hashes; an audit that looked up nothing is not taken for a clean one."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.security.audit import verdict

ROOT = Path(__file__).parents[2]
CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
SKIPPED = {"name": "c", "skip_reason": "cannot be reached"}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([CLEAN], 0, "audit: nothing is known against any of 1 packages"),
        ([CLEAN, BAD], 1, "b 2: CVE-1, mended in 2.1"),
        ([BAD, SKIPPED], 1, "b 2: CVE-1, mended in 2.1"),
        ([CLEAN, SKIPPED], 2, "c: cannot be reached"),
        ([SKIPPED, SKIPPED], 2, "audit: not run: no package could be looked up (c: cannot be reached)"),
        ([], 2, "audit: not run: no package could be looked up (there are none)"),
    ],
)
def test_only_what_was_looked_up_counts(packages: Any, status: int, said: str) -> None:
    found, lines = verdict({"dependencies": packages})
    assert (found, lines[0]) == (status, said)


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
