"""A server's sessions, one a scope and moment, so that new limits read memory.

A caller with an earlier answer's state gets that moment's rows while its session is kept."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from queries.asking import Answer, Question
from queries.session import Session
from store.errors import InputError, NothingFits, StoreBusyError, SweepdbError
from store.location import StoreLocation
from store.reading import duckdb, read_state
from store.texts import escaped
from sweepdb.sessions import session_at


class UnknownPathError(InputError):
    """Nothing is at this address."""


class ServerBusyError(SweepdbError): ...


class TooSlowError(SweepdbError): ...


_STATUS: tuple[tuple[type[SweepdbError], int], ...] = (
    (UnknownPathError, 404),
    (InputError, 400),
    (NothingFits, 400),
    (ServerBusyError, 503),
    (StoreBusyError, 503),
    (TooSlowError, 504),
)


def told(error: SweepdbError) -> dict[str, str | None]:
    """Stored names in it steer no reader."""
    return {"error": escaped(error.message), "hint": None if error.hint is None else escaped(error.hint)}


def status_of(error: SweepdbError) -> int:
    """An unreadable store is the server's fault."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


SESSIONS = 8
_STATE_HOLDS_S = 2.0
_FRESH_S = 5.0  # while a sweep is written, whoever names no moment shares one that is as old
_AGAIN_S = 0.05
_MOST_ASKED = 1_000  # of a session: what DuckDB keeps of each question goes with it
_MEMORY_SHARE = 2 / SESSIONS  # all keep at most twice as many probes as a session by itself may
_Result = TypeVar("_Result")
_Key = tuple[object, str]


@dataclass(slots=True)
class _Held:
    """With its store's state, and questions waiting."""

    session: Session
    state: str
    opened: float
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    asked: int = 0
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """With state and duration."""

    answer: Answer
    state: str
    took_ms: float


class SessionPool:
    """Questions of one scope wait in turn; `most_waiting` in all."""

    def __init__(
        self, location: StoreLocation, *, timeout_s: float = 30.0, threads: int = 2, most_waiting: int = 64
    ) -> None:
        self.location = location
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sweepdb-answer")
        self._most = threads + most_waiting
        self._under_way = 0
        self._held: OrderedDict[_Key, _Held] = OrderedDict()
        self._state: tuple[float, str] | None = None

    async def ask(self, question: Question, state: str | None = None) -> Told:
        """At `state`, or now where that session is closed."""
        self._enter()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):  # for waiting; a question that runs is interrupted
                answer, found = await self._asked(question, state)
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self._under_way -= 1
        return Told(answer=answer, state=found, took_ms=1000 * (time.perf_counter() - started))

    async def run(self, work: Callable[[], _Result]) -> _Result:
        self._enter()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self._under_way -= 1

    async def state(self) -> str:
        """At most two seconds old."""
        if self._state is None or time.monotonic() - self._state[0] > _STATE_HOLDS_S:
            found = await asyncio.to_thread(read_state, self.location)
            self._state = (time.monotonic(), found)
        return self._state[1]

    def close(self) -> None:
        for one in self._held.values():
            with suppress(duckdb.Error):
                one.session.interrupt()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for one in self._held.values():
            one.session.close()
        self._held.clear()

    def _enter(self) -> None:
        if self._under_way >= self._most:
            raise ServerBusyError(f"{self._under_way} questions wait already", hint="ask again in a second")
        self._under_way += 1

    async def _asked(self, question: Question, state: str | None) -> tuple[Answer, str]:
        for last in (False, True):
            key, one = await self._session(question, state)
            one.users += 1
            one.asked += 1
            try:
                async with one.turn:
                    read = one.session.times_read
                    answer = await self._on_thread(key, one, question)
                    if read and one.session.times_read > read:
                        await self._moved(key, one)
                    return answer, one.state
            except duckdb.IOException:
                self._drop(key)
                if last:
                    raise
            finally:
                one.users -= 1
                if one.asked >= _MOST_ASKED and self._held.get(key) is one:
                    self._drop(key)
                else:
                    self._release(one)
        raise AssertionError

    async def _on_thread(self, key: _Key, one: _Held, question: Question) -> Answer:
        """Beyond the time DuckDB is interrupted until the thread ends."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, one.session.ask, question)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._drop(key)  # of no more use
            while not running.done():  # between two statements there is nothing to interrupt
                one.session.interrupt()
                await asyncio.wait({running}, timeout=_AGAIN_S)
            running.exception()
            raise

    async def _session(self, question: Question, wanted: str | None) -> tuple[_Key, _Held]:
        scope = question.scope
        if wanted is not None and (scope, wanted) in self._held:
            return self._used((scope, wanted))
        now = await self.state()
        mine = [key for key, one in self._held.items() if key[0] == scope]
        if mine:
            newest = max(mine, key=lambda key: self._held[key].opened)
            young = time.monotonic() - self._held[newest].opened < _FRESH_S
            if newest[1] == now or (young and wanted is None):
                return self._used(newest)
        now = await asyncio.to_thread(read_state, self.location)
        if (scope, now) not in self._held:
            session = session_at(self.location, memory_share=_MEMORY_SHARE)
            self._held[scope, now] = _Held(session=session, state=now, opened=time.monotonic())
            while len(self._held) > SESSIONS:
                self._drop(next(iter(self._held)))
        return self._used((scope, now))

    async def _moved(self, key: _Key, one: _Held) -> None:
        """Under the moment of its new reading."""
        state = await asyncio.to_thread(read_state, self.location)
        if state != one.state and self._held.get(key) is one:
            del self._held[key]
            one.state = state
            if (key[0], state) in self._held:
                one.dropped = True
            else:
                self._held[key[0], state] = one

    def _used(self, key: _Key) -> tuple[_Key, _Held]:
        self._held.move_to_end(key)
        return key, self._held[key]

    def _drop(self, key: _Key) -> None:
        one = self._held.pop(key, None)
        if one is not None:
            one.dropped = True
            self._release(one)

    def _release(self, one: _Held) -> None:
        if one.dropped and one.users == 0:
            one.session.close()

    def _too_slow(self) -> TooSlowError:
        return TooSlowError(
            f"the answer took more than {self._timeout_s:g} s", hint="narrow the question down, or serve with more"
        )
