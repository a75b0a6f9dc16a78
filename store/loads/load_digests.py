"""The digest of loads that were committed together: one sha256 over their scenario, stream and every number.

The same on both databases and in every bundle. Not here: probes (store.digests), comparing (store.upkeep)."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from store.errors import StoreError

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedLoad:
    """A load as the store has it: its columns by name, without those of one store, and packed distributions."""

    values: Mapping[str, object]
    cells: bytes
    gaps: bytes
    requests: bytes | None = None
    requests_digest: str | None = None  # as stored; that of `requests` unless something changed them


def loads_digest(scenario_key: str, arrival_key: str, loads: Iterable[PackedLoad]) -> str:
    """Digest loads in the order of their keys. A number that is missing counts as not there, so that a column added
    later changes no digest; distributions count as they are before compression. Requests that are kept have a digest
    of their own: they may come later, and go."""
    head = {"format": _FORMAT, "scenario": scenario_key, "arrival": arrival_key}
    digest = hashlib.sha256(json.dumps(head).encode())
    for load in sorted(loads, key=lambda one: str(one.values["key"])):
        values = {name: value for name, value in load.values.items() if value is not None}
        digest.update(json.dumps(values, sort_keys=True, allow_nan=False).encode())
        for packed in (load.cells, load.gaps):
            digest.update(hashlib.sha256(_plain(packed)).digest())
    return digest.hexdigest()


def _plain(packed: bytes) -> bytes:
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise StoreError(f"A load of this store cannot be read: {error}.", hint="Run: sweepdb db check") from error
