"""``python python_blocks.py``: run the Python blocks of a page, which share their names, in one process.

Reads a JSON object a line, ``{"name", "source"}``, and answers each with ``{"printed", "error"}``.
"""

import contextlib
import io
import json
import linecache
import sys
import traceback


def main() -> None:
    answers = sys.stdout
    sys.path[0] = ""
    names = {"__name__": "__main__"}
    for line in sys.stdin:
        asked = json.loads(line)
        source, name = asked["source"], asked["name"]
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        printed, error = io.StringIO(), ""
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(source, name, "exec"), names)
            except BaseException:
                error = traceback.format_exc()
        print(json.dumps({"printed": printed.getvalue(), "error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()
