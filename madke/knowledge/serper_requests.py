"""Asking Serper: several requests at once, repeated where that may help, none where it cannot."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import requests
import urllib3

from madke.core.addresses import retry_after
from madke.knowledge.serper_options import SerperReply, parse_reply

_CONCURRENCY = 8
_ATTEMPTS = 5
_TIMEOUT = 20.0
"""Seconds to connect, and between two pieces of data."""
_DEADLINE = 60.0
"""Seconds for one request and its whole reply, however it trickles in."""
_MOST = 5_000_000
"""Bytes of a reply; a hundred results take some 50,000."""
_BLOCK = 1 << 16
_LONGEST_WAIT = 30.0
"""Seconds; a server that asks for more has failed for this search."""

_PASSING = (requests.ConnectionError, requests.Timeout, urllib3.exceptions.TimeoutError)
"""What another attempt may mend."""

Parameters = Mapping[str, str | int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of one query: a reply, or the reason why there is none."""

    reply: SerperReply | None = None
    reason: str = ""
    requests: int
    """Requests that were sent for it."""
    refused: bool = False
    """Whether no other query will be answered either: the quota is used up, or the key is not accepted."""


def ask_all(
    asked: Mapping[str, Parameters],
    answered: Callable[[str, Answer], None],
    *,
    base_url: str,
    key: str,
    sleep: Callable[[float], object] | None,
) -> None:
    """Send ``POST {base_url}/search`` for each query (query -> its parameters), eight at once.

    No further request is sent once one is refused, asks to wait for too long, or has made all its attempts without
    reaching the server, where no other has reached it: each query that is left has that as its reason.

    ``answered`` is called with each query's answer as it comes, one at a time, before its thread asks for another: what
    has been paid for is stored then. ``sleep`` waits that many seconds between two attempts; None waits until then or
    until the search is over.
    """
    with _Session() as session:
        session.mount(base_url, requests.adapters.HTTPAdapter(pool_maxsize=_CONCURRENCY))
        search = _Search(session, f"{base_url}/search", key, sleep)
        one_at_a_time = threading.Lock()

        def ask(query: str, parameters: Parameters) -> None:
            answer = search.ask(parameters)
            with one_at_a_time:
                answered(query, answer)

        pool = ThreadPoolExecutor(_CONCURRENCY)
        try:
            for done in as_completed([pool.submit(ask, query, parameters) for query, parameters in asked.items()]):
                done.result()
        finally:
            search.end("stopped")
            pool.shutdown(cancel_futures=True)


class _Session(requests.Session):
    """Follows no redirect: one would carry the key's header to another host, and its body would be read whole."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reply:
    """What the server answered to one request."""

    status: int
    retry_after: float | None
    content: bytes

    @property
    def refusal(self) -> str:
        """Why no other query would be answered either, in our words (the body may hold the key); empty if one may."""
        if self.status in (401, 403):
            return "SERPER_API_KEY is not accepted"
        if self.status == 402 or (self.status == 400 and b"not enough credits" in self.content.lower()):
            return "no credits are left"
        return ""


class _Failed(Exception):
    """An attempt without a reply; it says why."""

    def __init__(self, reason: str, *, passing: bool, reached: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing
        self.reached = reached


class _Search:
    """What the workers of one search share."""

    def __init__(self, session: requests.Session, url: str, key: str, sleep: Callable[[float], object] | None) -> None:
        self._session = session
        self._url = url
        self._key = key
        self._over = threading.Event()
        self._why = ""
        self._reached = False
        """Whether the server has replied to any request."""
        self._sleep = sleep or self._over.wait

    def end(self, reason: str) -> None:
        """No further request is sent."""
        self._why = self._why or reason
        self._over.set()

    def ask(self, parameters: Parameters) -> Answer:
        """One query's answer, after every attempt that makes sense."""
        reason, wait = "", 0.0
        for sent in range(_ATTEMPTS):
            if sent:
                self._sleep(wait)
            if self._over.is_set():
                return Answer(reason=f"not asked{' again' if sent else ''}: {self._why}", requests=sent)
            wait = min(2.0**sent, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                reply = _in_time(lambda: self._post(parameters))
            except _Failed as error:
                self._reached = self._reached or error.reached
                reason = str(error)
                if not error.passing:
                    return Answer(reason=reason, requests=sent + 1)
                continue
            self._reached = True
            if answer := self._final(reply, parameters, sent + 1):
                return answer
            reason = f"HTTP {reply.status}"
            wait = wait if reply.retry_after is None else reply.retry_after
        reason = f"{reason} after {_ATTEMPTS} attempts"
        if not self._reached:
            self.end(reason)
        return Answer(reason=reason, requests=_ATTEMPTS)

    def _final(self, reply: _Reply, parameters: Parameters, sent: int) -> Answer | None:
        """The answer that a reply is; None where another attempt may bring one."""
        if reply.status == 200:
            parsed = parse_reply(reply.content, asked=int(parameters["num"]))
            reason = "" if parsed else "HTTP 200, but not the search result that was expected"
            return Answer(reply=parsed, reason=reason, requests=sent)
        reason = f"HTTP {reply.status}"
        if reply.refusal:
            self.end(f"{reason}, {reply.refusal}")
            return Answer(reason=f"{reason}, {reply.refusal}", requests=sent, refused=True)
        if reply.status != 429 and reply.status < 500:
            return Answer(reason=reason, requests=sent)
        if (reply.retry_after or 0) > _LONGEST_WAIT:
            self.end(reason := f"{reason}, and asked to wait {reply.retry_after:.0f} s")
            return Answer(reason=reason, requests=sent)
        return None

    def _post(self, parameters: Parameters) -> _Reply:
        # The body counts its bytes as they come: nothing is packed that could grow when it is unpacked.
        headers = {"X-API-KEY": self._key, "Accept-Encoding": "identity"}
        ends = time.monotonic() + _DEADLINE
        try:
            with self._session.post(
                self._url, json=dict(parameters), headers=headers, timeout=_TIMEOUT, allow_redirects=False, stream=True
            ) as reply:
                content = _body(reply, ends) if reply.status_code in (200, 400) else b""
                return _Reply(status=reply.status_code, retry_after=retry_after(reply.headers), content=content)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise _Failed(type(error).__name__, passing=isinstance(error, _PASSING)) from None


def _body(reply: requests.Response, ends: float) -> bytes:
    content = bytearray()
    while block := reply.raw.read1(_BLOCK, decode_content=False):
        content += block
        if len(content) > _MOST:
            reason = f"HTTP {reply.status_code}, and a reply of more than {_MOST:,} bytes"
            raise _Failed(reason, passing=False, reached=True)
        if time.monotonic() > ends:
            raise _too_slow()
    return bytes(content)


def _too_slow() -> _Failed:
    return _Failed(f"no whole reply within {_DEADLINE:g} s", passing=False, reached=True)


def _in_time(call: Callable[[], _Reply]) -> _Reply:
    """Its reply, or _Failed after ``_DEADLINE``: headers that trickle in byte by byte keep every timeout of a socket.

    Its thread is left behind then, and no process waits for it at its end.
    """
    future: Future[_Reply] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(_DEADLINE)
    except TimeoutError:
        raise _too_slow() from None
