"""The ``madke`` command, and ``python -m madke``: light enough that Ctrl-C finds it before anything is imported."""

import sys


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
