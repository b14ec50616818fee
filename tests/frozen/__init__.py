"""Frozen records of every shipped protocol: what each call asks, and what comes of the debate.

``pytest tests/frozen`` compares. After an intended change, ``MADKE_REFREEZE=NAME pytest tests/frozen`` records one
protocol again (``all``: every one) and prints the difference; commit it apart, with the reason.

Two commits are compared from outside: ``python -m tests.frozen --write FILE`` in a checkout of the old one, and
``python -m tests.frozen --compare FILE`` in one of the new. FILE holds the prompts too, so the differing ones are shown
whole. For a commit without this package, copy the folder into its checkout. Only ``adapter`` knows how madke is called.
"""
