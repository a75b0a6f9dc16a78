"""Models, devices, plans, formats and workloads of a request: read and checked here, never priced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.inputs.cache_parts import kept_parts, stated_format, with_parts
    from evaluator.inputs.devices.calibration_record import (
        Accuracy,
        Calibration,
        calibration_from_json,
        calibration_to_json,
        calibration_to_mapping,
        carried_to,
    )
    from evaluator.inputs.devices.device import DeviceProfile
    from evaluator.inputs.devices.device_profiles import (
        WantedFamily,
        add_device,
        effective_rate,
        list_devices,
        list_shipped,
        load_device,
        resolve,
    )
    from evaluator.inputs.devices.shipped_calibrations import (
        CALIBRATIONS_FOLDER,
        FITTED,
        PARTLY_MEASURED,
        kernels_of,
        shipped_calibration,
        with_any_kernels_of,
        with_kernels_of,
    )
    from evaluator.inputs.drafts.speculation import (
        Speculation,
        draft_checkpoint,
        measured_for,
        missing_draft,
        speculation,
        with_draft,
    )
    from evaluator.inputs.engines.engine_profiles import (
        ENGINES_FOLDER,
        HANDOVER_MS,
        NUMBERS,
        EngineProfile,
        FittedEngine,
        as_yaml,
        engine_from_file,
        engine_profile,
        fitted_engine,
        key_of_engine,
        label_of_engine,
        list_engines,
        unfitted_engine,
        with_client,
    )
    from evaluator.inputs.formats import (
        ATTENTION_NAMES,
        LINEAR_NAMES,
        Precision,
        check_precision,
        linear_format,
        slow_formats,
        widened_formats,
    )
    from evaluator.inputs.images import ImageRequest, Images, check_images
    from evaluator.inputs.launch import LOAD, Client, Launch, Plan, Routing, busiest_load
    from evaluator.inputs.launchable import LAUNCHERS, launchable_by, launcher_of, rule_of, slices_blocks
    from evaluator.inputs.model import GroupedQueryAttention, LatentAttention, ModelSpec
    from evaluator.inputs.models import (
        catalogued_model,
        checkpoints_of,
        list_models,
        load_model,
        published_as,
        published_bytes,
    )
    from evaluator.inputs.native_formats import BY_NAME
    from evaluator.inputs.parameters import bytes_of_weights, parameter_count
    from evaluator.inputs.plan_search import PlanSearch, SearchRule, Sizes, choices_of_sizes
    from evaluator.inputs.workloads.arrival_times import TracedArrivals, read_arrivals
    from evaluator.inputs.workloads.day_rates import Day, read_day
    from evaluator.inputs.workloads.lengths import load_distribution, mean_output_length
    from evaluator.inputs.workloads.traces import read_trace
    from evaluator.inputs.workloads.workload import TIERS, LengthBin, Workload, cache_tiers
    from evaluator.inputs.workloads.workload_labels import DEFAULT_TOKEN_BUDGET, effective_input_length, workload_of
    from evaluator.inputs.yaml_checking import checked_yaml
    from evaluator.inputs.yaml_file import catalogue_ids, read_text, shortened

__getattr__, __dir__ = lazy_face(__name__)
