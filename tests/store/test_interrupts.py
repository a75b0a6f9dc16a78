"""^C and transactions: what was begun ends, and then the interrupt arrives."""

from __future__ import annotations

import signal
import threading

import pytest

from store.opening import open_store
from store.reading.interrupts import interrupts_held, interrupts_noticed


@pytest.fixture(autouse=True)
def heard():
    """A shell starts what runs in the background deaf to ^C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_arrives_when_the_block_has_ended():
    done = []

    def work() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            done.append("the rest of the block")
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the rest of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_whoever_handles_interrupts_still_does():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    try:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_write_as_ever():
    done = []

    def write() -> None:
        with interrupts_held():
            done.append(1)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert done == [1]


def interrupted_writing(store) -> None:
    with store.writing() as connection:
        signal.raise_signal(signal.SIGINT)
        connection.exec_driver_sql("CREATE TABLE kept (x INTEGER)")


def test_a_transaction_that_is_interrupted_is_kept_and_leaves_no_lock(sqlite_url):
    with open_store(sqlite_url, create=True) as store:
        with pytest.raises(KeyboardInterrupt):
            interrupted_writing(store)
        with store.writing() as connection:  # a lock that was left would make this wait, and fail
            connection.exec_driver_sql("INSERT INTO kept VALUES (1)")


def test_a_bell_rings_in_another_thread_while_the_main_one_hears_nothing():
    heard = []

    def listen(bell) -> None:
        bell.wait(10)
        heard.append((bell.interrupted, bell.ended))

    with pytest.raises(KeyboardInterrupt), interrupts_noticed() as bell:  # noqa: PT012  what it rings in
        thread = threading.Thread(target=listen, args=(bell,))
        thread.start()
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            thread.join()
    assert heard == [(True, False)]
    assert signal.set_wakeup_fd(-1) == -1  # nothing is left behind


def test_a_bell_tells_that_there_is_nothing_left_to_interrupt():
    with interrupts_noticed() as bell:
        bell.end()
        bell.wait(10)
    assert (bell.ended, bell.interrupted) == (True, False)


def test_whoever_waited_for_signals_before_is_told_too():
    import socket

    heard, ringer = socket.socketpair()
    with heard, ringer:
        ringer.setblocking(False)
        signal.set_wakeup_fd(ringer.fileno())
        try:
            with pytest.raises(KeyboardInterrupt), interrupts_noticed() as bell:
                bell_rung(bell)
        finally:
            assert signal.set_wakeup_fd(-1) == ringer.fileno()
        heard.settimeout(5)
        assert heard.recv(8) == bytes([signal.SIGINT])


def bell_rung(bell) -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        bell.wait(10)
