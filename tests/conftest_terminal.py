"""Running the command in this process on a terminal of a chosen width, as a person sees what it prints."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from contextlib import contextmanager

from cli.main import run

STYLED = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@contextmanager
def terminal(width):
    """A terminal in place of standard output; yields a list that holds what was written, once it is closed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    shown, before = [], sys.stdout
    reader = threading.Thread(target=_read, args=(master, shown))
    reader.start()
    kept = {name: os.environ.get(name) for name in ("COLUMNS", "TERM")}
    os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(width)})  # this process has another terminal, or none
    try:
        with os.fdopen(slave, "w", encoding="utf-8") as sys.stdout:
            yield shown
            sys.stdout.flush()
    finally:
        sys.stdout = before
        reader.join()
        os.close(master)
        for name, value in kept.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def _read(master, shown):
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            return
        if not part:
            return
        shown.append(part)


def on_terminal(arguments, width, *, styled=False):
    with terminal(width) as shown:
        code = run(arguments)
    text = b"".join(shown).decode().replace("\r\n", "\n")
    assert code == 0, text
    return text if styled else STYLED.sub("", text)
