"""Which FAISS index fits: ``--faiss auto``."""

from __future__ import annotations

from typing import NamedTuple

_EXACT_SHARE = 1 / 4
_COMPRESSED_SHARE = 3 / 4
"""Shares of the memory that a flat, and any other, index may take. Both are mapped from disk, and quick only while the
system keeps them in memory; the rest is for whatever else a debate needs."""


class Choice(NamedTuple):
    """A factory string, and why it was chosen."""

    factory: str
    reason: str


def choose(count: int, dimension: int, memory: int) -> Choice:
    """The most exact index of so many vectors that the memory can hold.

    Flat (4 bytes a dimension) within a quarter of the memory, SQ8 (1 byte) within three quarters, else product
    quantization, with as many bytes a vector as fit, a quarter to a sixteenth of the dimensions (``np``: without
    training for Hamming distances, which nobody uses here and which takes most of the time).

    Args:
        count: Vectors.
        dimension: Their dimension.
        memory: Bytes of memory of the machine that searches.
    """
    flat = 4 * count * dimension
    if flat <= memory * _EXACT_SHARE:
        return Choice("Flat", f"exact; {_gb(flat)} of {_gb(memory)} memory")
    sq8 = count * dimension
    if sq8 <= memory * _COMPRESSED_SHARE:
        return Choice("SQ8", f"flat would take {_gb(flat)} of {_gb(memory)} memory, SQ8 takes {_gb(sq8)}")
    codes = [_divisor(dimension, dimension // part) for part in (4, 8, 16)]
    fitting = [code for code in codes if code * count <= memory * _COMPRESSED_SHARE]
    code = fitting[0] if fitting else codes[-1]
    takes = f"SQ8 would take {_gb(sq8)} of {_gb(memory)} memory, {code} bytes a vector take {_gb(code * count)}"
    return Choice(f"PQ{code}np", takes if fitting else f"{takes}, which is still too much: searches will read the disk")


def _divisor(number: int, most: int) -> int:
    """The largest divisor up to ``most``, at least 1: a byte of a product quantizer codes as many dimensions as any."""
    return next(divisor for divisor in range(max(most, 1), 0, -1) if number % divisor == 0)


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
