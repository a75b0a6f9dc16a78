"""Pages of metrics from an address, again and again, or from files."""

from __future__ import annotations

import gzip
import http.client
import io
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from store.errors import InputError
from store.schema import Phase
from sweepdb.watching.engines import Reading, reading_of
from sweepdb.watching.prometheus import parse_page

_TIMEOUT_S = 10.0
_MOST_BYTES = 64 << 20
_GZIP = b"\x1f\x8b"
_MOST_READS = 100_000
_WAIT: Callable[[float], None] = time.sleep


def readings_by_side(
    metrics: Mapping[Phase | None, Sequence[str]], *, every: float | None, during: float | None, served_as: str | None
) -> dict[Phase | None, list[Reading]]:
    """By pool, in order; addresses are read together.

    Files are `every` seconds apart, else by their time of writing."""
    addresses = {side: pages[0] for side, pages in metrics.items() if any("://" in one for one in pages)}
    if not all(metrics.values()) or any(len(metrics[side]) > 1 for side in addresses):
        raise InputError("`metrics` takes one address, or files in the order in which they were read")
    if addresses and len(addresses) < len(metrics):
        raise InputError("`metrics` takes addresses of both sides, or files of both")
    if addresses:
        return _read_again(addresses, every, during, served_as)
    if during is not None:
        raise InputError(
            "files were read already: `during` belongs to an address", hint="`every`: the seconds between them"
        )
    return {side: _of_files(list(map(Path, pages)), every, served_as) for side, pages in metrics.items()}


def _of_files(paths: Sequence[Path], every: float | None, served_as: str | None) -> list[Reading]:
    moments = [_written_at(path) if every is None else every * place for place, path in enumerate(paths)]
    if any(after <= before for before, after in pairwise(moments)):
        raise InputError("the pages were not written one after the other", hint="`every`: the seconds between them")
    pages = zip(paths, moments, strict=True)
    return [reading_of(parse_page(_of_file(path), str(path)), str(path), at, served_as) for path, at in pages]


def _read_again(
    addresses: Mapping[Phase | None, str], every: float | None, during: float | None, served_as: str | None
) -> dict[Phase | None, list[Reading]]:
    for address in addresses.values():
        if urlsplit(address).scheme not in {"http", "https"}:
            raise InputError(f"`metrics={address}` is no address of http or https")
    last = during if during is not None else every or 0.0
    step = every if every is not None else last
    if not (0 < step <= last if last else every is None) or last / (step or 1.0) > _MOST_READS:
        raise InputError("`every` and `during` must be above 0 seconds, and `during` the longer one")
    start, found = time.monotonic(), {side: list[Reading]() for side in addresses}
    for place in range(int(last / step) + 1 if last else 1):
        _WAIT(max(start + place * step - time.monotonic(), 0.0))
        for side, address in addresses.items():
            text = _of_address(address)
            found[side].append(reading_of(parse_page(text, address), address, time.monotonic(), served_as))
    return found


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _text(file.read(_MOST_BYTES + 1), str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _of_address(address: str) -> str:
    """Network errors are the user's to mend, as wrong files are."""
    parts = urlsplit(address)
    request = urllib.request.Request(  # noqa: S310  http or https, as checked
        address if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics",
        headers={"Accept": "text/plain", "Accept-Encoding": "gzip"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310  as above
            return _text(response.read(_MOST_BYTES + 1), address)
    except urllib.error.HTTPError as error:
        raise InputError(f"{address} answers {error.code} {error.reason}", hint="its metrics are at /metrics") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        said = getattr(reason, "strerror", None) or str(reason)
        raise InputError(f"{address} gives no page: {said}", hint="is the server up?") from None


def _text(content: bytes, where: str) -> str:
    if len(content) > _MOST_BYTES:
        raise InputError(f"{where} is larger than {_MOST_BYTES >> 20} MiB: no page of metrics is")
    try:
        if content.startswith(_GZIP):
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(_MOST_BYTES)
        return content.decode("utf-8")
    except (EOFError, OSError, zlib.error):
        raise InputError(f"{where} is packed, and its end is missing", hint="read the page again, whole") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{where} is no text", hint="take the address of the server's metrics, such as /metrics"
        ) from None
