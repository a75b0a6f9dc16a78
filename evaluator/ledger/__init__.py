"""Measured points of serving: what deployment each is, what we predict for it, and how far off that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.inputs.engines.engine_profiles import Nearby as Nearby
    from evaluator.ledger.deployments import Deployment as Deployment
    from evaluator.ledger.deployments import deployment_of as deployment_of
    from evaluator.ledger.fitting.engine_fit import fit_engine as fit_engine
    from evaluator.ledger.fitting.fit_points import LATENCIES as LATENCIES
    from evaluator.ledger.fitting.fit_points import FitPoint as FitPoint
    from evaluator.ledger.fitting.fit_points import fit_points as fit_points
    from evaluator.ledger.fitting.near_fit import MOST_PLACES as MOST_PLACES
    from evaluator.ledger.fitting.near_fit import worth_measuring as worth_measuring
    from evaluator.ledger.fitting.user_points import OwnFit as OwnFit
    from evaluator.ledger.fitting.user_points import fit_own as fit_own
    from evaluator.ledger.fitting.user_points import fitted_to as fitted_to
    from evaluator.ledger.fitting.user_points import own_points as own_points
    from evaluator.ledger.fitting.user_points import served_points as served_points
    from evaluator.ledger.matching import Unmatched as Unmatched
    from evaluator.ledger.metrics import central_metrics as central_metrics
    from evaluator.ledger.predicting import Asked as Asked
    from evaluator.ledger.predicting import Evaluate as Evaluate
    from evaluator.ledger.predicting import Evaluated as Evaluated
    from evaluator.ledger.predicting import Evaluations as Evaluations
    from evaluator.ledger.predicting import Failures as Failures
    from evaluator.ledger.predicting import LookUp as LookUp
    from evaluator.ledger.predicting import asked_of as asked_of
    from evaluator.ledger.predicting import batch_size_of as batch_size_of
    from evaluator.ledger.predicting import evaluated as evaluated
    from evaluator.ledger.predicting import evaluated_or_why as evaluated_or_why
    from evaluator.ledger.predicting import metrics_of as metrics_of
    from evaluator.ledger.predicting import operators_of as operators_of
    from evaluator.ledger.predicting import predicted as predicted
    from evaluator.ledger.predicting import sides_of as sides_of
    from evaluator.ledger.predicting import sizes_of as sizes_of
    from evaluator.ledger.predicting import values_of as values_of
    from evaluator.ledger.rankings import Choices as Choices
    from evaluator.ledger.rankings import Standing as Standing
    from evaluator.ledger.rankings import ranking_agreement as ranking_agreement
    from evaluator.ledger.rankings import standing_of as standing_of
    from evaluator.ledger.readers.building import Problem as Problem
    from evaluator.ledger.readers.building import ReadResult as ReadResult
    from evaluator.ledger.readers.reading import read_measurements as read_measurements
    from evaluator.ledger.readers.stated import Stated as Stated
    from evaluator.ledger.readers.stated import corrected as corrected
    from evaluator.ledger.readers.stated import parse_stated as parse_stated
    from evaluator.ledger.readers.stated import rekeyed as rekeyed
    from evaluator.ledger.readers.stated import with_launched as with_launched
    from evaluator.ledger.readers.stated import with_stated as with_stated
    from evaluator.ledger.replaying import MeasuredLog as MeasuredLog
    from evaluator.ledger.replaying import PlayedLog as PlayedLog
    from evaluator.ledger.replaying import played_or_why as played_or_why
    from evaluator.ledger.replaying import replayed_all as replayed_all
    from evaluator.ledger.replaying import replayed_log as replayed_log
    from evaluator.ledger.replaying import replayed_scenario as replayed_scenario
    from evaluator.ledger.scenarios import KNOWLEDGE as KNOWLEDGE
    from evaluator.ledger.scenarios import PHASES as PHASES
    from evaluator.ledger.scenarios import Knowledge as Knowledge
    from evaluator.ledger.scenarios import lengths_of as lengths_of
    from evaluator.ledger.scenarios import scenario_of as scenario_of
    from evaluator.ledger.scoring import Comparison as Comparison
    from evaluator.ledger.scoring import Exclusion as Exclusion
    from evaluator.ledger.scoring import Figures as Figures
    from evaluator.ledger.scoring import Usable as Usable
    from evaluator.ledger.scoring import figures as figures
    from evaluator.ledger.scoring import plan_label as plan_label
    from evaluator.ledger.scoring import usable as usable
    from evaluator.ledger.sides import Probe as Probe
    from evaluator.ledger.sides import Values as Values
    from evaluator.ledger.sides import values_of_sides as values_of_sides

__getattr__, __dir__ = lazy_face(__name__)
