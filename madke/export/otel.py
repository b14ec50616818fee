"""Spans as OTLP JSON, sent to a collector or written to a file, after a run or while it goes on.

OTLP over HTTP with JSON is part of OpenTelemetry's protocol, so no package of OpenTelemetry is needed. A file has one
request per line: the form of the collector's file exporter.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from madke._util.files import atomic_write
from madke._util.http_session import keyed_session
from madke._version import __version__
from madke.core import events
from madke.core.addresses import public_url
from madke.core.chat import Purpose
from madke.core.errors import UserError
from madke.export.recorded_calls import debates_with_calls, first_start
from madke.export.spans import SpanValue, TimedCall, TraceSpan, debate_spans
from madke.scoring.arms import Results

_log = logging.getLogger(__name__)

_KINDS = {"internal": 1, "client": 3}
_ERROR = 2
_AT_A_TIME = 500
"""Spans per request."""
_TIMEOUT = 10.0
_TRIES = 3
_BUSY = (429, 502, 503, 504)
"""The answers after which the protocol allows another try."""
_MOST_WAITING = 1000
"""Debates that wait to be sent; a collector that is slower loses the spans of further ones."""


class NotSent(Exception):
    """A collector did not take a request; the reason is in madke's words, because a reply may repeat a header."""


def is_address(target: str) -> bool:
    """Whether a target is a collector's address, else a file."""
    return target.startswith(("http://", "https://"))


def write_spans(arms: Sequence[Results], target: str, *, text: bool = False) -> int:
    """Send the spans of finished debates to a collector's address, or write them to a file; returns their number.

    Times are laid out from each call's duration, from the first start of the run: runs do not record when a call began.

    Args:
        arms: The runs.
        target: ``http://HOST:4318`` or a file.
        text: Whether spans hold questions, prompts, replies and error messages.

    Raises:
        UserError: A file cannot be read or written, or the collector did not take the spans.
    """
    spans = (span for arm in arms for span in _spans_of(arm, text=text))
    if not is_address(target):
        count = 0
        with atomic_write(Path(target)) as file:
            for group in _groups(spans):
                file.write(_request(group) + b"\n")
                count += len(group)
        return count
    count = 0
    with Collector(target) as collector:
        for group in _groups(spans):
            try:
                collector.send(group)
            except NotSent as error:
                sent = f"{count:,} spans were sent; the same command sends all again, with the same ids"
                raise UserError(f"{public_url(target)} did not take spans: {error}; {sent}") from None
            count += len(group)
    return count


def _spans_of(arm: Results, *, text: bool) -> Iterator[TraceSpan]:
    name, began = arm.config.variant if arm.config is not None else arm.name, first_start(arm)
    for transcript, calls in debates_with_calls(arm, text=text):
        yield from debate_spans(transcript, calls, run=arm.name, name=name, began=began, text=text)


def _groups(spans: Iterable[TraceSpan]) -> Iterator[list[TraceSpan]]:
    waiting = iter(spans)
    while group := list(islice(waiting, _AT_A_TIME)):
        yield group


def _request(spans: Sequence[TraceSpan]) -> bytes:
    about = {"service.name": "madke", "service.version": __version__}
    scope = {"scope": {"name": "madke", "version": __version__}, "spans": [_encoded(span) for span in spans]}
    resource = {"resource": {"attributes": _attributes(about)}, "scopeSpans": [scope]}
    return json.dumps({"resourceSpans": [resource]}, separators=(",", ":")).encode("ascii")


def _encoded(span: TraceSpan) -> dict[str, Any]:
    return {
        "traceId": span.trace,
        "spanId": span.id,
        **({"parentSpanId": span.parent} if span.parent else {}),
        "name": span.name,
        "kind": _KINDS[span.kind],
        # 64-bit numbers are texts in this form of JSON.
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
        **({} if span.error is None else {"status": {"code": _ERROR, "message": span.error}}),
    }


def _attributes(values: Mapping[str, SpanValue]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: SpanValue) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [_value(each) for each in value]}}


class Collector(AbstractContextManager["Collector"]):
    """A collector that takes OTLP over HTTP at an address.

    Headers, such as a key, come from ``OTEL_EXPORTER_OTLP_HEADERS`` (``name=value,...``, percent-encoded).
    """

    def __init__(self, address: str, *, sleep: Callable[[float], None] = time.sleep) -> None:

        try:
            parts = urlsplit(address)
        except ValueError:
            parts = urlsplit("")
        if parts.username or parts.password or parts.query or parts.fragment or not parts.hostname:
            expected = "http://HOST:PORT; put keys into OTEL_EXPORTER_OTLP_HEADERS"
            raise UserError(f"{public_url(address)!r} is no collector's address; expected {expected}")
        path = parts.path.rstrip("/")
        self._url = address.rstrip("/") if path.endswith("/v1/traces") else f"{address.rstrip('/')}/v1/traces"
        self._headers = {"Content-Type": "application/json", **_headers()}
        self._sleep = sleep
        self._session = keyed_session()

    def send(self, spans: Sequence[TraceSpan]) -> None:
        """Send one request, again if the collector is busy; NotSent if it does not take it."""
        content, reason = _request(spans), ""
        for n in range(_TRIES):
            if n:
                self._sleep(float(n))
            status, reason = self._post(content)
            if status == 200:
                return
            if status not in (0, *_BUSY):
                break
        raise NotSent(reason)

    def _post(self, content: bytes) -> tuple[int, str]:
        """Status and reason; 0 for a connection that failed."""
        import requests

        try:
            # The body is not read: 200 is all that counts. A redirect would send the headers to another host.
            with self._session.post(
                self._url, data=content, headers=self._headers, timeout=_TIMEOUT, allow_redirects=False, stream=True
            ) as reply:
                return reply.status_code, f"HTTP {reply.status_code}"
        except requests.RequestException as error:
            return 0, type(error).__name__

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def _headers() -> dict[str, str]:
    pairs = [
        part.partition("=") for part in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if part.strip()
    ]
    if any(not (name.strip() and equals) for name, equals, _ in pairs):
        raise UserError("OTEL_EXPORTER_OTLP_HEADERS is not of the form name=value,name=value")
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    if not all(each.isascii() and each.isprintable() for header in headers.items() for each in header):
        raise UserError("OTEL_EXPORTER_OTLP_HEADERS contains characters that cannot be sent in a header")
    return headers


@dataclass(kw_only=True, slots=True)
class _Debate:
    began: int
    calls: list[TimedCall] = field(default_factory=list)
    open: dict[Purpose, events.CallStarted] = field(default_factory=dict)


class SpanListener(AbstractContextManager["SpanListener"]):
    """A listener that sends the spans of each debate when it ends; a thread sends, so that no debate waits.

    ``with SpanListener("http://127.0.0.1:4318") as spans: madke.run(..., listen=spans)``. Closing it sends what waits.
    Spans that the collector does not take are counted in ``lost`` and logged once; debates go on.

    Args:
        address: The collector's, ``http://HOST:4318``.
        name: Name of the workflow, such as that of the protocol.
        text: Whether spans hold questions, prompts, replies and error messages.
        clock: Returns nanoseconds of Unix time.
    """

    def __init__(
        self, address: str, *, name: str = "debate", text: bool = False, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self.lost = 0
        """Spans that were not taken."""
        self._name, self._text, self._clock = name, text, clock
        self._debates: dict[tuple[str, int], _Debate] = {}
        self._collector = Collector(address)
        self._waiting: queue.Queue[list[TraceSpan] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="madke-spans", daemon=True)
        self._thread.start()

    def __call__(self, event: events.Event) -> None:
        """Hear an event."""
        key = event.question, event.repeat
        if isinstance(event, events.DebateStarted):
            self._debates[key] = _Debate(began=self._clock())
        elif (debate := self._debates.get(key)) is None:
            return
        elif isinstance(event, events.CallStarted):
            debate.open[event.purpose] = event
        elif isinstance(event, events.CallFinished):
            asked = debate.open.pop(event.purpose, None)
            timed = TimedCall(
                purpose=event.purpose,
                completion=event.completion,
                model=asked.model if asked else "",
                messages=asked.request.messages if asked and self._text else (),
                start=asked.at if asked else event.at,
                end=event.at,
            )
            debate.calls.append(timed)
        elif isinstance(event, events.DebateFinished):
            del self._debates[key]
            spans = debate_spans(
                event.transcript, debate.calls, run="", name=self._name, began=debate.began, text=self._text
            )
            self._send_later(list(spans))

    def close(self) -> None:
        """Send what waits, and end the thread."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()
        self._collector.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _send_later(self, spans: list[TraceSpan]) -> None:
        try:
            self._waiting.put_nowait(spans)
        except queue.Full:
            self._lose(spans, "it is slower than the debates")

    def _work(self) -> None:
        while (spans := self._waiting.get()) is not None:
            for group in _groups(spans):
                try:
                    self._collector.send(group)
                except NotSent as error:
                    self._lose(group, str(error))

    def _lose(self, spans: Sequence[TraceSpan], reason: str) -> None:
        if not self.lost:
            _log.warning("the collector did not take spans: %s; the debates go on", reason)
        self.lost += len(spans)
