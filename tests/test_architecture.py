"""What docs/architecture.md promises about imports. The contracts are in pyproject.toml, for import-linter."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

import madke

PACKAGE = Path(madke.__file__).parent
ROOT = PACKAGE.parent
HEAVY = {
    *("datasets", "faiss", "ir_measures", "jnius", "jnius_config", "lxml", "math_verify", "matplotlib"),
    *("mwparserfromhell", "mwxml", "numpy", "pyarrow", "pypdfium2", "pyserini", "ray", "sacrebleu", "scipy", "sklearn"),
    *("sentence_transformers", "torch", "transformers", "xllamacpp"),
}


def test_the_contracts_of_import_linter_are_kept() -> None:
    """In a process of its own: import-linter configures logging."""
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


def test_no_module_imports_itself_through_others() -> None:
    """Also not through the ``__init__`` of its package, which import-linter does not count."""
    graph = grimp.build_graph("madke", cache_dir=None)

    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


def test_the_drawing_shows_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = re.search(r"Imports point inward only.*?```text\n(.*?)```", page, re.DOTALL)[1]

    assert [re.split(r"  +", line)[0] for line in drawing.splitlines()] == layers


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    longest = max(PACKAGE.rglob("*.py"), key=lambda path: len(path.read_text(encoding="utf-8").splitlines()))

    assert len(longest.read_text(encoding="utf-8").splitlines()) <= 400, longest


def loaded_at_once(path: Path) -> Iterator[str]:
    """The packages that a module imports outside functions, and not only for the type checker."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
        waiting += ast.iter_child_nodes(node)


def test_heavy_packages_are_imported_inside_functions() -> None:
    wrong = {str(path.relative_to(ROOT)): HEAVY & set(loaded_at_once(path)) for path in PACKAGE.rglob("*.py")}

    assert {path: packages for path, packages in wrong.items() if packages} == {}
