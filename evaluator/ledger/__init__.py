"""Measured points of serving: their deployments, predictions, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.inputs.engines.engine_profiles import Nearby
    from evaluator.ledger.deployments import (
        FEWEST_PROMPTS,
        OPEN_LOOP,
        Deployment,
        asks_seldom,
        central_metrics,
        deployment_of,
        engine_of,
        measured_device,
        plan_of,
        prompts_per_user,
        requests_running,
    )
    from evaluator.ledger.fitting.engine_fit import fit_engine, huber
    from evaluator.ledger.fitting.fit_points import LATENCIES, FitPoint, fit_points
    from evaluator.ledger.fitting.near_fit import MOST_PLACES, worth_measuring
    from evaluator.ledger.fitting.user_points import OwnFit, fit_own, served_points
    from evaluator.ledger.matching import Unmatched, format_in_name, measured_model, measured_precision
    from evaluator.ledger.predicting import (
        Asked,
        Evaluate,
        Evaluated,
        Evaluations,
        Failures,
        LookUp,
        asked_of,
        batch_size_of,
        evaluated,
        evaluated_or_why,
        operators_of,
        predicted,
        sides_of,
        sizes_of,
        steady_share,
        values_of,
        whole_run_rate,
    )
    from evaluator.ledger.rankings import Choices, Standing, ranking_agreement, standing_of
    from evaluator.ledger.readers.building import SERVER_FAILED, FileRead, Problem, ReadResult, circumstances_of
    from evaluator.ledger.readers.declared import device_or_nearest
    from evaluator.ledger.readers.documents import failure_of
    from evaluator.ledger.readers.reading import read_measurements
    from evaluator.ledger.readers.stated import (
        Stated,
        corrected,
        corrected_again,
        parse_stated,
        rekeyed,
        tagged,
        teaches,
        teaching,
        with_launched,
        with_stated,
    )
    from evaluator.ledger.regressions import Change, changes_of, is_rate
    from evaluator.ledger.replaying import (
        MeasuredLog,
        PlayedLog,
        played_or_why,
        replayed_all,
        replayed_log,
        replayed_scenario,
    )
    from evaluator.ledger.scenarios import KNOWLEDGE, PHASES, Knowledge, lengths_of, mean_output_of, scenario_of
    from evaluator.ledger.scoring import (
        LARGEST_TTFT_SHARE,
        Comparison,
        Exclusion,
        Figures,
        Usable,
        figures,
        plan_label,
        usable,
    )
    from evaluator.ledger.sides import Probe, Sides, Values, prefill_side_of, values_of_sides
    from evaluator.ledger.steps import level_steps
    from evaluator.ledger.writers.carrying_facts import point_of_prediction, rows_of_kind
    from evaluator.ledger.writers.guidellm_writer import cells_of_guidellm, headers_of_guidellm
    from evaluator.ledger.writers.inferencex_writer import row_of_inferencex
    from evaluator.ledger.writers.report_writer import report_of

__getattr__, __dir__ = lazy_face(__name__)
