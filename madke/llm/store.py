"""The call store: cache, resume and replay in one SQLite file, to which every finished call is appended.

A damaged file (an unreadable page, or a wrong checksum) is renamed when it is opened, or at the end of the command that
noticed the damage. Its readable calls are kept; the others are made again.
"""

import asyncio
import os
import sqlite3
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from madke._util.files import disk_full
from madke.core.chat import ChatModel, ChatRequest, Completion, Usage, takes_schemas
from madke.core.errors import UserError
from madke.endpoints.prices import billed_as
from madke.llm.call_key import call_key
from madke.llm.store_file import (
    COUNTS,
    FAILURES,
    INSERT,
    INSERT_TEXT,
    SELECT,
    UNWRITABLE,
    Damage,
    Recorded,
    call_row,
    error_code,
    exported,
    is_damage,
    open_store,
    read_call,
    restore,
    set_aside,
    stored_completion,
    stored_record,
    text_hash,
)


class Paid(NamedTuple):
    """Number and usage of paid calls."""

    calls: int
    usage: Usage


class CallStore(AbstractContextManager["CallStore"]):
    """An open call store, created if missing; processes may share it. UserError if the file cannot be used as one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_flight: dict[str, asyncio.Future[Completion]] = {}
        """Calls in flight of the :class:`Stored` models of this process, by key."""
        self._waiting: list[tuple[tuple[Any, ...], dict[bytes, bytes], asyncio.Future[None]]] = []
        self._damaged = False
        with self._errors():
            try:
                self._db = open_store(path)
            except FAILURES as error:
                if not is_damage(error):
                    raise
                if path.suffix != ".sqlite":  # call stores have it; the user named this one by mistake
                    raise UserError("is not a call store of madke; name another file", file=path) from error
                set_aside(path)
                self._db = open_store(path)
        self._file = path.stat()

    def find(self, key: str, *, payer: str = "", only_ok: bool = True) -> Completion | None:
        """The last completion stored under a :func:`call_key`, or None. It is ``paid`` if ``payer`` made the call."""
        column = text_hash(key.encode())
        with self._errors():
            which = "WHERE key = ? AND (? OR outcome = 'ok') ORDER BY id DESC LIMIT 1"
            row = self._db.execute(f"{SELECT} {which}", (column, not only_ok)).fetchone()
            if row is None:
                return None
            if row[0] != column:
                raise Damage("its index names another call")
            return replace(stored_completion(stored_record(row)), paid=row[2] == payer)

    async def write(
        self, key: str, model: str, request: ChatRequest, completion: Completion, *, payer: str = ""
    ) -> None:
        """Add a finished call; it survives a kill once this returns. Calls of one event-loop step share a commit."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._waiting.append((*call_row(key, payer, model, request, completion), written))
        loop.call_soon(self._commit_waiting)
        await written

    def recorded(self, *, payer: str | None = None) -> Iterator[Recorded]:
        """All stored calls, or those of one run, in the order of writing."""
        with self._errors():
            for row in self._db.execute(f"{SELECT} WHERE ? IS NULL OR payer = ? ORDER BY id", (payer, payer)):
                yield read_call(row, self._db)

    def exported(self) -> Iterator[dict[str, Any]]:
        """All texts and calls as JSON objects, for :meth:`restore`."""
        with self._errors():
            yield from exported(self._db)

    def restore(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Add what another store exported."""
        with self._errors(), self._db:
            restore(self._db, entries)

    def paid(self, *, without: Collection[str] = ()) -> dict[tuple[str, str], Paid]:
        """(Payer, model name) -> all calls made, including failed ones, except those of the stages in ``without``.

        Calls at a service tier are apart, under the name of :func:`madke.endpoints.prices.billed_as`.
        """
        sums = ", ".join(f"sum({name})" for name in COUNTS)
        which = f"stage NOT IN ({', '.join('?' * len(without))})"
        query = f"SELECT payer, model, count(*), {sums} FROM calls WHERE {which} GROUP BY 1, 2 ORDER BY min(id)"
        with self._errors():
            # The columns have no searches, and only this stage makes any.
            searches: Counter[tuple[str, str]] = Counter()
            for row in self._db.execute(f"{SELECT} WHERE stage = 'rerank'"):
                searches[row[2], row[3]] += stored_completion(stored_record(row)).usage.searches
            return {
                (payer, model): Paid(
                    calls, Usage(**dict(zip(COUNTS, counts, strict=True)), searches=searches[payer, model])
                )
                for payer, model, calls, *counts in self._db.execute(query, tuple(without))
            }

    def close(self) -> None:
        """Close the file; rename it if damage was noticed."""
        try:
            self._commit_waiting()
        finally:
            self._db.close()
            if self._damaged and self._is_there():
                with self._errors():
                    set_aside(self.path)

    def __exit__(self, *error: object) -> None:
        self.close()

    def _commit_waiting(self) -> None:
        group, self._waiting = self._waiting, []
        failure = None
        try:
            if group:
                self._commit([row for row, _, _ in group], ChainMap(*(texts for _, texts, _ in group)))
        except UserError as error:
            failure = error
        for written in (each for _, _, each in group if not each.done()):  # done ones were cancelled
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

    def _commit(self, rows: Sequence[tuple[Any, ...]], texts: Mapping[bytes, bytes]) -> None:
        if not self._is_there():  # SQLite would keep writing to a deleted file, and the calls would be lost
            why = "was removed or replaced while it was in use; run the command again to continue with the present file"
            raise UserError(why, file=self.path)
        with self._errors(), self._db:
            self._db.executemany(INSERT_TEXT, texts.items())
            self._db.executemany(INSERT, rows)

    def _is_there(self) -> bool:
        return self.path.exists() and os.path.samestat(self._file, self.path.stat())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn exceptions of the file into UserErrors."""
        try:
            yield
        except FAILURES as error:
            if is_damage(error):
                self._damaged = True
                why = f"is damaged ({error}); run the command again to continue with the calls that can be read"
            elif error_code(error) == sqlite3.SQLITE_FULL:
                raise disk_full(self.path) from error
            else:
                hint = "; the file and its folder must exist and be writable" if error_code(error) in UNWRITABLE else ""
                why = f"cannot be used as a call store: {error}{hint}"
            raise UserError(why, file=self.path) from error


class Stored:
    """A model whose calls go through a call store.

    A stored completion with outcome ``ok`` answers; any other call is made again. Under ``replay`` the last stored
    completion answers, errors included. A completion is ``paid`` if ``payer``, this run among those that share the
    store, made the call. Concurrent calls with equal keys become one.

    A request with a bound form is looked up in this form first, then in the free one, in which its call was stored if
    the endpoint takes no schema. Another run's free call does not answer it: that run may not have wanted a schema.
    """

    def __init__(self, model: ChatModel, store: CallStore, *, replay: bool = False, payer: str = "") -> None:
        self.name = model.name
        self.takes_schemas = takes_schemas(model)
        self._model = model
        self._store = store
        self._replay = replay
        self._payer = payer

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer from the store, or call the model and store its completion."""
        key, in_flight = call_key(self.name, request), self._store.in_flight
        while True:
            known = self._known(request, key)
            if known is not None:
                return known
            if self._replay:
                return Completion(outcome="failed", error="not in the call store", attempts=0, paid=False)
            if key not in in_flight:
                break
            running = in_flight[key]
            await asyncio.wait([running])
            if not running.cancelled():
                return replace(running.result(), paid=False)
        running = in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            completion = await self._model.complete(request)
            sent = request.in_form(bound=bool(completion.bound))
            billed = billed_as(self.name, completion.tier)
            await self._store.write(call_key(self.name, sent), billed, sent, completion, payer=self._payer)
            running.set_result(completion)
            return completion
        finally:
            del in_flight[key]
            # Without a result (Ctrl-C, a bug) the waiting tasks must call the model themselves.
            running.cancel()

    def _known(self, request: ChatRequest, key: str) -> Completion | None:
        found = self._store.find(key, payer=self._payer, only_ok=not self._replay)
        if found is not None or request.bound is None:
            return found
        free = call_key(self.name, request.in_form(bound=False))
        found = self._store.find(free, payer=self._payer, only_ok=not self._replay)
        return found if found is not None and (found.paid or found.bound is not None) else None
