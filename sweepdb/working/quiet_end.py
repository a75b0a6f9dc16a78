"""^C in a worker: it ends without words. The coordinator, which heard it as well, says what became of the sweep.

Dask imports this module in its workers and calls `dask_setup`. Not here: engines."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

PRELOADED = __name__
_INTERRUPTED = 130


def end_quietly() -> None:
    """End this process at ^C, with what it has begun undone, and without a traceback."""
    with suppress(ValueError):  # not in the main thread: whoever has that hears ^C
        signal.signal(signal.SIGINT, lambda *_: sys.exit(_INTERRUPTED))


def dask_setup(_worker: object) -> None:
    """Dask's name for what a worker does first."""
    end_quietly()
