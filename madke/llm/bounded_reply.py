"""Replies that cannot fill the memory: the body of a response, read up to a bound.

Imported only where a client is made: httpx2 is heavy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from madke.core.errors import CallError

MAX_REPLY = 16 << 20
"""Bytes of a reply that are read at most; the text of a whole context window is far below."""

MAX_PACKED_REPLY = 16 << 10
"""The same for a compressed one, which nobody asked for: deflate makes it 1,032 times as long at most."""


class BoundedReply(httpx2.AsyncByteStream):
    """The stream of a response that raises CallError, not retryable, at the bound; closing it drops the connection.

    Args:
        response: Its headers tell whether it is compressed, and how.
    """

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._stream = response.stream
        self._packing = response.headers.get("content-encoding", "identity").strip().lower()
        self._bound = MAX_REPLY if self._packing == "identity" else MAX_PACKED_REPLY

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packing not in ("identity", "gzip", "deflate"):
            raise CallError(f"the reply is compressed ({self._packing}), which was not asked for", retryable=False)
        read = 0
        async for piece in self._stream:
            read += len(piece)
            if read > self._bound:
                raise CallError(f"the reply is longer than {self._bound:,} bytes", retryable=False)
            yield piece

    async def aclose(self) -> None:
        """Close the stream under it."""
        await self._stream.aclose()
