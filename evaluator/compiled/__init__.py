"""C, built once by the machine's compiler into the user's cache.

Without a compiler or a writable cache, twins in Python do the same."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

_COMPILERS = ("cc", "gcc", "clang")
# Every operation rounds by itself, in the order that it is written in: the twins round so, too.
_OPTIONS = ("-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-fast-math")
_PATIENCE_S = 60.0


def may_compile() -> bool:
    return os.environ.get("SWEEPDB_COMPILED_PLAY") != "0"


@functools.cache
def built_library(place: str) -> ctypes.CDLL | None:
    if not may_compile():
        return None
    source = (resources.files("evaluator") / place).read_bytes()
    built_from = source + " ".join((*_OPTIONS, platform.machine(), platform.system())).encode()
    path = _cache() / f"{Path(place).stem}-{hashlib.sha256(built_from).hexdigest()[:16]}.so"
    try:
        if not path.exists():
            _build(source, path)
        if path.stat().st_uid != os.getuid():  # somebody else's program is not run
            return None
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError):
        return None


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweepdb"


def _build(source: bytes, path: Path) -> None:
    """Renamed into place, so that two builders both end with a whole file."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        written, made = Path(folder) / "source.c", Path(folder) / "library.so"
        written.write_bytes(source)
        command = [compiler, *_OPTIONS, "-o", str(made), str(written), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_S)  # noqa: S603  our own arguments
        made.replace(path)
