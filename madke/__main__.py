"""The ``madke`` command and ``python -m madke``. Imports little, so that Ctrl-C is caught from the start."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # Python searches the working directory first, where a file such as ``yaml.py`` would run. Move it to the end for a
    # checkout, which is imported from there, and drop it otherwise.
    _here = sys.path.pop(0)
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) == _here:
        sys.path.append(_here)


def main() -> None:
    """Run the command line; see :func:`madke.cli.app.run_command_line`."""
    try:
        from madke.cli.app import run_command_line as run

        run()
    except KeyboardInterrupt:
        from madke._util.terminal import say

        say("madke: interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
