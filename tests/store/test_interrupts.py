"""^C and transactions: what was begun ends, and then the interrupt arrives."""

from __future__ import annotations

import signal
import threading

import pytest

from store.interrupts import interrupts_held
from store.opening import open_store


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
