"""Frozen records of every shipped protocol: what each call asks, and what comes of the debate.

``pytest tests/frozen`` compares. After an intended change, ``MADKE_REFREEZE=NAME pytest tests/frozen`` records one
protocol again (``all``: every one) and prints the difference; commit it apart, with the reason.
"""
