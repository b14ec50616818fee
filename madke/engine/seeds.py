"""A sampling seed for every call, so that equal prompts make different samples and a run can be repeated."""

from __future__ import annotations

from dataclasses import astuple
from hashlib import sha256

from madke.core.chat import Purpose


def call_seed(seed: int | None, purpose: Purpose) -> int | None:
    """The seed of one call: a hash of the run's seed and what the call is for, in 0 .. 2**31 - 1.

    None stays None: then the server draws its own.
    """
    if seed is None:
        return None
    digest = sha256(repr((seed, *astuple(purpose))).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
