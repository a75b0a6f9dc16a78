"""`plan`: what a question about a model and devices lacks is evaluated, and answered as whole deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.schema import short_plan
    from sweepdb.planning.answering import asked_plan, plan
    from sweepdb.planning.arriving import RatePlan
    from sweepdb.planning.deployment_plan import DeploymentPlan, NextCommand, carrying_order
    from sweepdb.planning.held_back import holds_of
    from sweepdb.planning.labels import deployment_label, readable_row
    from sweepdb.planning.planning_options import HEADINGS_OF_ASKED, PlanOptions, decide_options, plan_options
    from sweepdb.planning.profiles.exporting import ExportedProfile, export_profile
    from sweepdb.planning.profiles.planner import profile_options
    from sweepdb.planning.ranking import subjects
    from sweepdb.planning.server_answering import plan_server
    from sweepdb.planning.server_plan import STARTED, ServerPlan

__getattr__, __dir__ = lazy_face(__name__)
