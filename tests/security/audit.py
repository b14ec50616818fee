"""``make audit``: known vulnerabilities of the versions in constraints.txt, by pip-audit.

pip-audit ends well, with "No known vulnerabilities found", where it could look up nothing at all. Here a look-up that
did not happen is no result. Exit status: 0 nothing is known against any of them, 1 something is, 2 not run, or not run
for all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = (*(sys.executable, "-m", "pip_audit"), "--no-deps", "--disable-pip", "--progress-spinner", "off")


def verdict(report: dict[str, Any]) -> tuple[int, list[str]]:
    """Exit status, and what is said of pip-audit's report: findings, or what could not be looked up and why."""
    packages = report["dependencies"]
    skipped = [f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package]
    audited = len(packages) - len(skipped)
    found = [
        f"{package['name']} {package['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'none'}"
        for package in packages
        for known in package.get("vulns", ())
    ]
    if not audited:
        return 2, [f"audit: not run: no package could be looked up ({skipped[0] if skipped else 'there are none'})"]
    if found:
        return 1, [*found, f"audit: {len(found)} known vulnerabilities in {audited} packages"]
    if skipped:
        rest = f"audit: not run for {len(skipped)} packages; nothing is known against the other {audited}"
        return 2, [*skipped, rest]
    return 0, [f"audit: nothing is known against any of {audited} packages"]


def main() -> None:
    """Audit constraints.txt."""
    constraints = Path(__file__).parents[2] / "constraints.txt"
    done = subprocess.run([*COMMAND, "--format", "json", "-r", constraints], capture_output=True, text=True)
    try:
        status, lines = verdict(json.loads(done.stdout))
    except ValueError:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        status, lines = 2, [f"audit: not run: {said[-1]}"]
    print("\n".join(lines), file=sys.stderr if status else sys.stdout)
    sys.exit(status)


if __name__ == "__main__":
    main()
