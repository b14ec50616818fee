"""A sampling seed for every call, so that equal prompts make different samples and a run can be repeated."""

from __future__ import annotations

from hashlib import sha256

from madke.core.chat import Purpose


def call_seed(seed: int | None, purpose: Purpose) -> int | None:
    """The seed of one call: a hash of the run's seed and what the call is for, in 0 .. 2**31 - 1.

    None stays None: then the server draws its own.
    """
    if seed is None:
        return None
    p = purpose
    return _hashed((seed, p.question, p.stage, p.agent, p.round, p.sample, p.repeat))


def retry_seed(seed: int | None, attempt: int) -> int | None:
    """The seed of a further attempt of one call, derived from the call's own; None stays None.

    Args:
        seed: The call's seed.
        attempt: Which attempt, from 2: the first one takes the call's own seed.
    """
    if seed is None:
        return None
    return _hashed((seed, attempt))


def _hashed(parts: tuple[object, ...]) -> int:
    return int.from_bytes(sha256(repr(parts).encode()).digest()[:4], "big") >> 1
