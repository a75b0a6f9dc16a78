"""The schema, declared once: tables and columns with name, type, unit and meaning.

Databases, records, snapshots, raw relations and the reference page all follow from `store.schema.tables`. Limits are
never stored; the database is the only truth. Light: only `store.schema.sql_tables` imports SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.schema.declaring import (
        FLAG,
        FORMULA_MODELS,
        FORMULAS,
        PHASES,
        STEP_KINDS,
        TIER_PLACES,
        USUAL_CONVENTION,
        Convention,
        Family,
        Phase,
        Status,
        SweepOutcome,
        TierName,
    )
    from store.schema.plan_columns import (
        OF_PLANS,
        OF_SHARES,
        SHARES,
        PlanRecord,
        label_sql,
        read_label,
        short_plan,
        words_sql,
    )
    from store.schema.probe_columns import (
        MEASURED_COLUMNS,
        NAMED_COLUMNS,
        OLD_COLUMNS,
        PROBE_COLUMNS,
        VIEW_COLUMNS,
        WHOLE_MS,
        ReadColumn,
        filled,
        measured_select,
        probe_select,
        read_column,
        shown_columns,
        words_of,
    )
    from store.schema.raw_relations import RAW_NAMES, SCENARIO, STORED_PROBE, raw_table, raw_tables, store_views
    from store.schema.service_columns import SERVICE, TITLES, Served
    from store.schema.sql_tables import DEVICE, METADATA, SWEEP, create_views
    from store.schema.tables import (
        ALIASES,
        MADE_OF_TABLES,
        MEASURES,
        SCENARIO_REFERENCES,
        SCENARIO_TABLES,
        TABLES,
        VOIDED_SWEEPS,
        scenario_tables,
        with_scenarios,
    )

__getattr__, __dir__ = lazy_face(__name__)
