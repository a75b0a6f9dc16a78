"""The error where no device is named: none is invented, and those that are likely are listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evaluator.inputs import FITTED, load_device, load_model, published_bytes
from store.errors import InputError, StoreError
from store.location import parse_url
from store.reading import stored_names

_FILLED = 0.75  # of memory by weights at most: the rest is for keys, values and activations


def no_device(models: Sequence[str], store_url: str | None) -> InputError:
    """The error that lists a store's devices, and measured ones that the first model fits on."""
    name, _ = load_model(models[0])
    stored, fitting = _stored(store_url), [f"{count} x {device}" for device, count in _fitting(name)]
    said = [f"this store has {', '.join(stored)}"] if stored else []
    said.append(f"{name} fits on {', '.join(fitting)}" if fitting else f"{name} fits on one host of no measured device")
    return InputError("`device` is missing", hint=f"{'; '.join(said)}; sweepdb devices lists all")


def _stored(store_url: str | None) -> list[str]:
    location = parse_url(store_url)
    if location.path is not None and not location.path.exists():
        return []
    try:
        return [one.name for one in stored_names(location, "device", "")]
    except StoreError:  # what is wrong with it is said when it is written to
        return []


def _fitting(model: str) -> Iterator[tuple[str, int]]:
    """Measured devices, and the fewest of one host that hold the weights as published."""
    weights = published_bytes(load_model(model)[1])
    for name in FITTED:
        device = load_device(name)
        counts = (2**power for power in range(int(device.grid[-1]).bit_length()))
        room = _FILLED * device.memory_bytes
        count = None if weights is None else next((one for one in counts if weights <= one * room), None)
        if count is not None:
            yield name, count
