"""Models and devices by name, their figures, and searches of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.inputs import (
        DeviceProfile,
        PlanSearch,
        Sizes,
        add_device,
        effective_input_length,
        effective_rate,
        kernels_of,
        list_devices,
        list_models,
        load_device,
        load_model,
        parameter_count,
    )

__all__ = [
    "DeviceProfile",
    "PlanSearch",
    "Sizes",
    "add_device",
    "effective_input_length",
    "effective_rate",
    "kernels_of",
    "list_devices",
    "list_models",
    "load_device",
    "load_model",
    "parameter_count",
]

__getattr__, __dir__ = lazy_face(__name__)
