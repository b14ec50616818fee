"""Debian's Chromium for tests of pages. A module or test that imports this is skipped where there is no playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
_CHROMIUM = shutil.which("chromium")
_MISSING = "there is no chromium: apt-get install chromium"
needs_browser = [pytest.mark.slow, pytest.mark.skipif(_CHROMIUM is None, reason=_MISSING)]
"""The marks of tests that open a page."""


@contextmanager
def browser() -> Iterator[Any]:
    """A browser without a window; the test is skipped where there is none."""
    if _CHROMIUM is None:
        pytest.skip(_MISSING)
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def one_page() -> Iterator[tuple[Any, list[str]]]:
    """One page without a network for many tests, and its troubles: errors, and requests that it must not make."""
    troubles: list[str] = []
    with browser() as launched:
        context = launched.new_context(offline=True)
        context.set_default_timeout(5000)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "about:")) or troubles.append(request.url))
        yield page, troubles
