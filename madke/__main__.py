"""``python -m madke`` is ``madke``."""

from madke.cli.app import main

main()
