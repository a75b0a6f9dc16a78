"""The option `workers`."""

from __future__ import annotations

import re
from typing import Literal

from store.errors import InputError
from store.light_dataclass import dataclass

FORMS = "dask://HOST:PORT, dask:N, processes:N or shard:I/M"
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """A Dask scheduler, N workers here, or a share of an array."""

    kind: Literal["scheduler", "dask", "processes", "share"]
    address: str = ""
    count: int = 1
    share: int = 0  # from 0, of `count`


def parse_workers(text: str) -> Workers:
    if re.fullmatch(r"dask://[^/\s]+:\d+", text):
        return Workers(kind="scheduler", address=f"tcp://{text.removeprefix('dask://')}")
    if (match := re.fullmatch(r"(dask|processes):(\d+)", text)) and 1 <= int(match[2]) <= _MOST:
        return Workers(kind="dask" if match[1] == "dask" else "processes", count=int(match[2]))
    if (match := re.fullmatch(r"shard:(\d+)/(\d+)", text)) and 1 <= int(match[1]) <= int(match[2]):
        return Workers(kind="share", share=int(match[1]) - 1, count=int(match[2]))
    raise InputError(
        f"`workers` must be {FORMS}, not {text!r}", hint="such as `workers=dask:4`, or `workers=shard:1/8`"
    )
