"""``python -m docs.generate`` writes the pages, and tables in pages, that are made from the program.

They are committed, so that they can be read and searched without a build. A test compares them with the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs import (
    api_page,
    cli_page,
    metrics_table,
    printed_prompts_page,
    protocols_page,
    reproduction_page,
)

FOLDER = Path(__file__).parent

PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api_page.page,
    "cli.md": cli_page.page,
    "evaluation.md": metrics_table.page,
    "printed_prompts.md": printed_prompts_page.page,
    "protocols.md": protocols_page.page,
    "reproduction.md": reproduction_page.page,
}
"""Each generated page and the function that returns its text."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
