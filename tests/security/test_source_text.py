"""What the source must not hold at all: each would open a door that nothing else here guards."""

import re
from pathlib import Path
from typing import Any

import pytest

import madke

SOURCE = {path: path.read_text(encoding="utf-8") for path in Path(madke.__file__).parent.rglob("*.py")}

FORBIDDEN = {
    "certificates unchecked": r"verify\s*=\s*False|CERT_NONE|_create_unverified_context|check_hostname\s*=\s*False"
    r"|ssl\s*=\s*False|disable_warnings|InsecureRequestWarning",
    "a shell": r"shell\s*=\s*True|os\.system|os\.popen|create_subprocess_shell|getoutput|commands\.get",
    "text that is run": r"(?<![\w.\"'])(eval|exec)\s*\(",
    "YAML that makes objects": r"yaml\.(load|load_all|unsafe_load|full_load|UnsafeLoader|FullLoader|Loader)\b"
    r"(?!\(text, Loader=_Loader\))",
    "files that are unpickled": r"pickle\.load\(|torch\.load\(|joblib|shelve|marshal|allow_pickle\s*=\s*True"
    r"|weights_only\s*=\s*False",
    "code of models": r"trust_remote_code\s*=\s*(?!False)",
    "archives unpacked without a filter": r"(\.extractall|tar\w*\.extract)\((?![^)]*filter=\"data\")|unpack_archive",
    "temporary names that can be guessed": r"tempfile\.mktemp\(|os\.tmpnam",
    "templates outside the sandbox": r"(?<!Sandboxed)\bTemplate\(|jinja2\.Template|from_string\(",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_source_holds_none_of(what: Any) -> None:
    found = [
        f"{path.name}: {match[0]}" for path, text in SOURCE.items() for match in re.finditer(FORBIDDEN[what], text)
    ]
    assert not found


def test_only_one_module_writes_to_the_terminal() -> None:
    writing = re.compile(
        r"(?<![\w.`])(print|pprint|rich\.print|os\.write)\(|sys\.(__)?std(out|err)(__)?[\w.]*\.write"
        r"|\b(echo|secho|Console|StreamHandler|print_exc|print_json|basicConfig)\("
    )
    found = {path.name: [match[0] for match in writing.finditer(text)] for path, text in SOURCE.items()}
    # basicConfig gets its handler from terminal.py, whose console is captured.
    assert {name: calls for name, calls in found.items() if calls} == {
        "app.py": ["basicConfig("],
        "terminal.py": ["Console(", "sys.stderr.write"],
    }
