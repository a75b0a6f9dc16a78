"""^C: held back in transactions, and noticed during calls that ignore signals.

A torn transaction keeps its lock until the process ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_NO_SIGNAL = b"\0"


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delivers an interrupt after the block. Only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived:
            signal.raise_signal(signal.SIGINT)


class InterruptBell:
    """Tells another thread of the main one's end, or of ^C."""

    def __init__(self, heard: socket.socket, ringer: socket.socket) -> None:
        self._heard, self._ringer = heard, ringer
        self.ended = False
        self.interrupted = False

    def wait(self, seconds: float) -> None:
        """Until there is something to tell."""
        self._heard.settimeout(seconds)
        with suppress(TimeoutError):
            self.interrupted |= signal.SIGINT in self._heard.recv(64)

    def end(self) -> None:
        self.ended = True
        with suppress(BlockingIOError):
            self._ringer.send(_NO_SIGNAL)


@contextmanager
def interrupts_noticed() -> Iterator[InterruptBell]:
    """Rings at ^C, for another waiting thread.

    One DuckDB call can keep the main thread from Python's handler for hours; the signal's number is written at once."""
    heard, ringer = socket.socketpair()
    ringer.setblocking(False)
    main = threading.current_thread() is threading.main_thread()
    usual = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    bell = InterruptBell(heard, ringer)
    with heard, ringer:
        before = signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False) if usual else -1
        try:
            yield bell
        finally:
            if usual:
                signal.set_wakeup_fd(before)
            if bell.interrupted and before != -1:
                with suppress(OSError):
                    os.write(before, bytes([signal.SIGINT]))
