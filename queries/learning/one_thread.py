"""Products of a few hundred rows: threads wait for each other, on every core, longer than one of them takes."""

from __future__ import annotations

import ctypes
from contextlib import ContextDecorator, suppress
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np

_LIBRARIES = ("../numpy.libs/libscipy_openblas64_*", ".dylibs/libscipy_openblas64_*")  # of NumPy's own packages
_SET, _GET = "scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"


@cache
def openblas() -> ctypes.CDLL | None:
    """None where NumPy has another library."""
    numpy = Path(np.__file__).parent
    for path in (path for pattern in _LIBRARIES for path in numpy.glob(pattern)):
        with suppress(OSError):
            library = ctypes.CDLL(str(path))
            if hasattr(library, _SET) and hasattr(library, _GET):
                return library
    return None


class _OneThread(ContextDecorator):
    """Sessions of a server share a process: the last to leave gives the threads back."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if (library := openblas()) is not None and not self._inside:
                self._before = library[_GET]()
                library[_SET](1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if (library := openblas()) is not None and not self._inside:
                library[_SET](self._before)


one_thread = _OneThread()
