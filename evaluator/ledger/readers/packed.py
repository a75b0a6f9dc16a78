"""Text of a result file, gzip and zstd too, within bounds."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from store.errors import InputError
from store.reading import in_memory

LARGEST_FILE_BYTES = 1 << 28  # unpacked
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED = {".gz", ".gzip", ".zst", ".zstd"}


def plain_suffix(path: Path) -> str:
    """.json of run.json.gz."""
    suffixes = [one.lower() for one in path.suffixes]
    return next((one for one in reversed(suffixes) if one not in _PACKED), "")


def opened_text(path: Path, *, errors: str = "strict") -> str:
    """UTF-8, unpacked; `surrogateescape` keeps other bytes."""
    try:
        content = _unpacked(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or 'it is damaged'}") from error
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path}: the packed file is cut or damaged") from error
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\0" in content[:4096]:
        raise InputError(f"{path}: not UTF-8 text", hint="save it as UTF-8")
    try:
        return content.decode("utf-8-sig", errors=errors)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8 text", hint="save it as UTF-8") from error


def _unpacked(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(4)
        if start[:2] == _GZIP:
            file.seek(0)
            with gzip.GzipFile(fileobj=file) as unpacked:
                content = unpacked.read(LARGEST_FILE_BYTES + 1)
        elif start == _ZSTD:
            content = _of_zstd(path)
        else:
            content = start + file.read(LARGEST_FILE_BYTES + 1 - len(start))
    refuse_large(path, len(content))
    return content


def refuse_large(path: Path, size_bytes: int) -> None:
    if size_bytes > LARGEST_FILE_BYTES:
        raise InputError(f"{path}: more than {LARGEST_FILE_BYTES} bytes", hint="import parts of it")


def _of_zstd(path: Path) -> bytes:
    """DuckDB unpacks it: Python has no zstd before 3.14."""
    import duckdb

    lines: list[bytes] = []
    size = 0
    with in_memory() as connection:
        try:
            rows = connection.execute(
                "SELECT line FROM read_csv(?, compression = 'zstd', columns = {'line': 'VARCHAR'}, delim = '\x01',"
                " quote = '', escape = '', header = false, auto_detect = false, max_line_size = 268435456,"
                " null_padding = false, strict_mode = false, parallel = false)",
                [str(path)],
            )
            while chunk := rows.fetchmany(10_000):
                lines += [(line or "").encode() for (line,) in chunk]
                size = sum(map(len, lines[-len(chunk) :])) + size
                if size > LARGEST_FILE_BYTES:
                    break
        except duckdb.Error as error:
            raise InputError(f"{path}: the packed file is cut or damaged", hint="unpack it first: zstd -d") from error
    if not lines:
        raise InputError(f"{path}: the packed file is cut or damaged", hint="unpack it first: zstd -d")
    return b"\n".join(lines)
