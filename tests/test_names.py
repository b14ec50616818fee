"""A public name means one thing in the package, so a reader finds it at the first guess."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import madke

PACKAGE = Path(madke.__file__).parent
COMMAND_MODULE = {"EPILOG", "app", "command"}
"""What ``cli/app`` looks for in the module of each command."""


def public_names(path: Path) -> Iterator[str]:
    """The names that a module defines, without type variables and the functions that are commands."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = [] if any("app.command" in ast.unparse(each) for each in node.decorator_list) else [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            kind = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
            flat = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found = [] if kind in ("TypeVar", "ParamSpec") else [name.id for name in flat]
        else:
            continue
        yield from (name for name in found if not name.startswith("_"))


def defined_twice(package: Path) -> dict[str, list[str]]:
    where = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for name in set(public_names(path)) - (COMMAND_MODULE if path.parent.name == "cli" else set()):
            where[name].append(str(path.relative_to(package)))
    return {name: modules for name, modules in where.items() if len(modules) > 1}


def test_no_public_name_is_defined_in_two_modules() -> None:
    assert defined_twice(PACKAGE) == {}


def test_a_name_of_two_modules_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("LIMIT, _LIMIT = 1, 2\ndef read(): ...\nT = TypeVar('T')\n")
    (tmp_path / "other.py").write_text("LIMIT: int = 2\nclass read: ...\nT = TypeVar('T')\n_LIMIT = 3\n")
    (tmp_path / "third.py").write_text("@app.command()\ndef read(): ...\n")

    assert defined_twice(tmp_path) == {"LIMIT": ["one.py", "other.py"], "read": ["one.py", "other.py"]}
