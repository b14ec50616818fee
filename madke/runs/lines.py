"""The lines of ``transcripts.jsonl``: a JSON object each, whose last field is the checksum of all before it."""

from zlib import crc32

_SEAL = b',"checksum":"%08x"}\n'
_FIXED = [at for at, byte in enumerate(_SEAL % 0) if byte != ord("0")]
"""Positions in a seal whose bytes are the same in every line."""
_SIMILAR = 12
"""Fixed bytes of a damaged seal that are left at least. The end of a line without a seal has at most a few of them."""


def sealed(record: bytes) -> bytes:
    """The line of a record, a JSON object with at least one field."""
    body = record.removesuffix(b"}")
    return body + _SEAL % crc32(body)


def unsealed(line: bytes) -> bytes:
    """The record in a line; ValueError if the line was altered. Lines of older versions have no checksum."""
    expected = _SEAL % crc32(line[: -len(_SEAL % 0)])
    body, seal = line[: -len(expected)], line[-len(expected) :]
    if seal == expected:
        return body + b"}"
    if len(seal) == len(expected) and sum(seal[at] == expected[at] for at in _FIXED) >= _SIMILAR:
        raise ValueError("its checksum does not fit its text")
    return line
