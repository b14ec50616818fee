"""Imports, beside the directions that ``make lint`` checks (import-linter, by the contracts in pyproject.toml)."""

import ast
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


def test_no_module_imports_itself_through_others() -> None:
    """Also not through the ``__init__`` of its package, which import-linter does not count."""
    graph = grimp.build_graph("madke", cache_dir=None)

    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


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
