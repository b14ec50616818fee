"""The ``madke`` command, and ``python -m madke``: light enough that Ctrl-C finds it before anything is imported."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # Python looks first in the working directory, and a ``yaml.py`` there would run. A checkout is found there itself.
    _here = sys.path.pop(0)
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) == _here:
        sys.path.append(_here)


def main() -> None:
    """Run the command line; see :func:`madke.cli.app.main`."""
    try:
        from madke.cli.app import main as run

        run()
    except KeyboardInterrupt:
        from madke.terminal import say

        say("madke: interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
