"""Models, devices, figures, and searches of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.inputs import (
        ATTENTION_NAMES,
        LAUNCHERS,
        LINEAR_NAMES,
        DeviceProfile,
        PlanSearch,
        Sizes,
        add_device,
        catalogue_ids,
        effective_input_length,
        effective_rate,
        kernels_of,
        list_devices,
        list_engines,
        list_models,
        load_device,
        load_model,
        parameter_count,
    )
    from evaluator.support import support_table, supported_words
    from store.schema import FORMULA_MODELS

__getattr__, __dir__ = lazy_face(__name__)
