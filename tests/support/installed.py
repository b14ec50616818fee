"""Modules that are skipped where a package is not installed."""

from importlib.util import find_spec

import pytest


def needs(package: str, extra: str) -> None:
    """Skip the module that says this; unlike ``pytest.importorskip``, it does not import a large package to find it."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed; it needs the extra madke[{extra}]", allow_module_level=True)
