"""Imports point inward, as in docs/architecture.md."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import madke

PACKAGE = Path(madke.__file__).parent
LAYERS = [
    {"core"},
    {"_util"},
    {"tasks"},
    {"engine"},
    {"endpoints"},
    {"encoding"},
    {"llm"},
    {"indexing"},
    {"knowledge", "data", "variants"},
    {"pools"},
    {"audit", "runs"},
    {"scoring"},
    {"experiments"},
    {"report", "lemmas"},
    {"adapters"},
    {"api"},
    {"serve"},
    {"cli"},
]
PURE_SCORING = ("debate_rows", "metrics", "paired", "rounds", "scores", "statistics")
LAYER_OF = {name: layer for layer, packages in enumerate(LAYERS) for name in packages}


def package_of(module: Any) -> Any:
    return module.split(".")[1] if "." in module else None


def imports(path: Any) -> Iterator[Any]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("madke"):
            yield from (
                [node.module] if "." in node.module else [f"{node.module}.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("madke."))


def test_every_import_points_to_a_lower_layer_or_stays_in_its_package() -> None:
    checked = 0
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if inside in ("__init__", "__main__"):
            continue
        for imported in imports(path):
            target = package_of(imported)
            if target in (inside, "__version__"):
                continue
            checked += 1
            assert LAYER_OF[target] < LAYER_OF[inside], (path, imported)
    assert checked > 100


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    longest = max(PACKAGE.rglob("*.py"), key=lambda path: len(path.read_text(encoding="utf-8").splitlines()))
    assert len(longest.read_text(encoding="utf-8").splitlines()) <= 400, longest


def test_the_engine_the_tasks_and_the_scores_reach_nothing_outside() -> None:
    """No network, no disk, no environment, no clock: those are arguments."""
    outside = {"asyncio", "datetime", "os", "pathlib", "shutil", "signal", "socket", "sqlite3", "subprocess", "time"}
    pure = [PACKAGE / "engine", PACKAGE / "tasks", *(PACKAGE / "scoring" / f"{name}.py" for name in PURE_SCORING)]
    for path in (path for each in pure for path in ([each] if each.suffix else each.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not outside & {name.split(".")[0] for name in names}, path
