"""The inputs that a request names: models, devices, plans, formats, workloads. Read and checked here, never priced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.inputs.devices.calibration_record import Accuracy as Accuracy
    from evaluator.inputs.devices.calibration_record import Calibration as Calibration
    from evaluator.inputs.devices.calibration_record import calibration_from_json as calibration_from_json
    from evaluator.inputs.devices.calibration_record import calibration_to_json as calibration_to_json
    from evaluator.inputs.devices.calibration_record import calibration_to_mapping as calibration_to_mapping
    from evaluator.inputs.devices.calibration_record import carried_to as carried_to
    from evaluator.inputs.devices.device import DeviceProfile as DeviceProfile
    from evaluator.inputs.devices.device_profiles import WantedFamily as WantedFamily
    from evaluator.inputs.devices.device_profiles import add_device as add_device
    from evaluator.inputs.devices.device_profiles import effective_rate as effective_rate
    from evaluator.inputs.devices.device_profiles import list_devices as list_devices
    from evaluator.inputs.devices.device_profiles import list_shipped as list_shipped
    from evaluator.inputs.devices.device_profiles import load_device as load_device
    from evaluator.inputs.devices.device_profiles import resolve as resolve
    from evaluator.inputs.devices.shipped_calibrations import CALIBRATIONS_FOLDER as CALIBRATIONS_FOLDER
    from evaluator.inputs.devices.shipped_calibrations import FITTED as FITTED
    from evaluator.inputs.devices.shipped_calibrations import PARTLY_MEASURED as PARTLY_MEASURED
    from evaluator.inputs.devices.shipped_calibrations import kernels_of as kernels_of
    from evaluator.inputs.devices.shipped_calibrations import shipped_calibration as shipped_calibration
    from evaluator.inputs.devices.shipped_calibrations import with_kernels_of as with_kernels_of
    from evaluator.inputs.drafts.speculation import Speculation as Speculation
    from evaluator.inputs.drafts.speculation import acceptance_table as acceptance_table
    from evaluator.inputs.drafts.speculation import draft_checkpoint as draft_checkpoint
    from evaluator.inputs.drafts.speculation import list_acceptance as list_acceptance
    from evaluator.inputs.drafts.speculation import measured_for as measured_for
    from evaluator.inputs.drafts.speculation import missing_draft as missing_draft
    from evaluator.inputs.drafts.speculation import speculation as speculation
    from evaluator.inputs.drafts.speculation import with_draft as with_draft
    from evaluator.inputs.engines.engine_profiles import ENGINES_FOLDER as ENGINES_FOLDER
    from evaluator.inputs.engines.engine_profiles import HANDOVER_MS as HANDOVER_MS
    from evaluator.inputs.engines.engine_profiles import NUMBERS as NUMBERS
    from evaluator.inputs.engines.engine_profiles import EngineProfile as EngineProfile
    from evaluator.inputs.engines.engine_profiles import FittedEngine as FittedEngine
    from evaluator.inputs.engines.engine_profiles import as_yaml as as_yaml
    from evaluator.inputs.engines.engine_profiles import engine_from_file as engine_from_file
    from evaluator.inputs.engines.engine_profiles import engine_profile as engine_profile
    from evaluator.inputs.engines.engine_profiles import fitted_engine as fitted_engine
    from evaluator.inputs.engines.engine_profiles import key_of_engine as key_of_engine
    from evaluator.inputs.engines.engine_profiles import label_of_engine as label_of_engine
    from evaluator.inputs.engines.engine_profiles import list_engines as list_engines
    from evaluator.inputs.engines.engine_profiles import unfitted_engine as unfitted_engine
    from evaluator.inputs.engines.engine_profiles import with_client as with_client
    from evaluator.inputs.formats import ATTENTION_NAMES as ATTENTION_NAMES
    from evaluator.inputs.formats import LINEAR_NAMES as LINEAR_NAMES
    from evaluator.inputs.formats import check_precision as check_precision
    from evaluator.inputs.formats import slow_formats as slow_formats
    from evaluator.inputs.kept_parts import kept_parts as kept_parts
    from evaluator.inputs.kept_parts import stated_format as stated_format
    from evaluator.inputs.kept_parts import with_parts as with_parts
    from evaluator.inputs.launch import LOAD as LOAD
    from evaluator.inputs.launch import Client as Client
    from evaluator.inputs.launch import Launch as Launch
    from evaluator.inputs.launch import Routing as Routing
    from evaluator.inputs.launch import busiest_load as busiest_load
    from evaluator.inputs.launchable import LAUNCHERS as LAUNCHERS
    from evaluator.inputs.launchable import launchable_by as launchable_by
    from evaluator.inputs.launchable import rule_of as rule_of
    from evaluator.inputs.model import GroupedQueryAttention as GroupedQueryAttention
    from evaluator.inputs.model import LatentAttention as LatentAttention
    from evaluator.inputs.model import ModelSpec as ModelSpec
    from evaluator.inputs.model import MoeMlp as MoeMlp
    from evaluator.inputs.model_ids import catalogue_ids as catalogue_ids
    from evaluator.inputs.models import catalogued_model as catalogued_model
    from evaluator.inputs.models import list_models as list_models
    from evaluator.inputs.models import load_model as load_model
    from evaluator.inputs.native_formats import BY_NAME as BY_NAME
    from evaluator.inputs.parameters import parameter_count as parameter_count
    from evaluator.inputs.plan import Plan as Plan
    from evaluator.inputs.plan_search import PlanSearch as PlanSearch
    from evaluator.inputs.plan_search import SearchRule as SearchRule
    from evaluator.inputs.plan_search import Sizes as Sizes
    from evaluator.inputs.plan_search import choices_of_sizes as choices_of_sizes
    from evaluator.inputs.precision import Precision as Precision
    from evaluator.inputs.vision.images import ImageRequest as ImageRequest
    from evaluator.inputs.vision.images import Images as Images
    from evaluator.inputs.vision.images import check_images as check_images
    from evaluator.inputs.workloads.arrival_times import TracedArrivals as TracedArrivals
    from evaluator.inputs.workloads.arrival_times import read_arrivals as read_arrivals
    from evaluator.inputs.workloads.cache_tiers import TIERS as TIERS
    from evaluator.inputs.workloads.cache_tiers import CacheTier as CacheTier
    from evaluator.inputs.workloads.cache_tiers import cache_tiers as cache_tiers
    from evaluator.inputs.workloads.lengths import load_distribution as load_distribution
    from evaluator.inputs.workloads.lengths import mean_output_length as mean_output_length
    from evaluator.inputs.workloads.traces import read_trace as read_trace
    from evaluator.inputs.workloads.workload import LengthBin as LengthBin
    from evaluator.inputs.workloads.workload import Workload as Workload
    from evaluator.inputs.workloads.workload_labels import DEFAULT_TOKEN_BUDGET as DEFAULT_TOKEN_BUDGET
    from evaluator.inputs.workloads.workload_labels import effective_input_length as effective_input_length
    from evaluator.inputs.workloads.workload_labels import workload_of as workload_of
    from evaluator.inputs.yaml_checking import checked_yaml as checked_yaml
    from evaluator.inputs.yaml_file import parse_yaml as parse_yaml
    from evaluator.inputs.yaml_file import read_text as read_text
    from evaluator.inputs.yaml_file import shortened as shortened

__getattr__, __dir__ = lazy_face(__name__)
