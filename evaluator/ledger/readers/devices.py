"""Names of devices as drivers and clusters write them, `NVIDIA-H100-80GB-HBM3`, in ours."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from evaluator.inputs.devices.device_profiles import resolve
from store.errors import InputError

_MAKERS = {"nvidia", "amd", "intel", "instinct", "tesla", "geforce", "accelerator", "gpu", "oam"}
_MEMORY = re.compile(r"hbm\d?[a-z]?$|\d+gb?$")


@functools.lru_cache(maxsize=4096)
def named_device(written: str) -> str:
    """Our name of a device; one that we do not know stays as it is written."""
    return next((name for tried in _tried(written) if (name := _known(tried)) is not None), written)


def device_or_nearest(written: str) -> str:
    """Our name of a device. Raises InputError, with the nearest names as hint, for one that nobody knows."""
    return resolve(named_device(written))


def _tried(written: str) -> Iterator[str]:
    yield written
    parts = [part for part in re.split(r"[\s_-]+", written.lower()) if part and part not in _MAKERS]
    yield "_".join(parts)
    form = [re.sub(r"^(sxm|oam)\d$", r"\1", part) for part in parts]
    yield "_".join(form)
    bare = [part for part in form if not _MEMORY.match(part)]
    yield "_".join(bare)


def _known(name: str) -> str | None:
    try:
        return resolve(name) if name else None
    except InputError:
        return None
