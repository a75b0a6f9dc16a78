"""Tables of what is compared with evaluations or said about them: fits, measured points, validations, prices, voids."""

from __future__ import annotations

from store.schema.declaring import (
    BYTES,
    DIGEST,
    DOUBLE,
    INTEGER,
    NAME,
    TEXT,
    Column,
    Table,
    content_key,
    document,
    identifier,
    moment,
    optional,
    reference,
    text,
)
from store.schema.plan_columns import MEASURED_SHARES, OF_DEVICES

_SIDE = (  # of a measured deployment
    Column("instances", INTEGER, "instances", "instances of this side"),
    *OF_DEVICES,
    Column("batch_size", DOUBLE, "requests", "batch size"),
)


def _of_side(side: str, column: Column) -> Column:
    shared = "" if column.name == "batch_size" else " (aggregated: the same on both)"
    meaning = f"{side} side{shared}: {column.meaning}"
    return optional(f"{side}_{column.name}", column.type, column.unit, meaning)


COMPARED_TABLES = (  # what is compared with evaluations or said about them
    Table(
        "calibration",
        "fitted device coefficients",
        (
            identifier(),
            content_key("content key of the coefficients"),
            Column("device_name", NAME, "none", "device it describes"),
            Column("version", INTEGER, "none", "counts up for a device"),
            document("spec", "coefficients with units in their names"),
            document("errors", "held-out error per kind, in percent"),
            optional("kernels", BYTES, "Parquet", "measured kernel table"),
            Column("source", TEXT, "none", "where the measurements come from"),
            moment("created_at", "when it was stored"),
        ),
        unique=("device_name", "version"),
    ),
    Table(
        "measurement",  # two sides for disaggregated deployments
        "measured serving points with their configuration",
        (
            identifier(),
            content_key(),
            Column("source", TEXT, "none", "file and line or id it came from"),
            Column("source_format", DIGEST, "none", "reader that understood it"),
            optional("model", text(500), "none", "model as the source names it", index=True),
            optional("device", NAME, "none", "device, our name where known", index=True),
            optional("engine", DIGEST, "none", "serving engine"),
            optional("engine_version", DIGEST, "none", "its version"),
            optional("mode", text(32), "none", "aggregated, disaggregated, prefill, decode"),
            optional("precision", DIGEST, "none", "weights, as the source names them"),
            optional("kv_precision", DIGEST, "none", "KV cache, as the source names it"),
            optional("num_devices", INTEGER, "devices", "devices of everything that served it"),
            optional("input_length", DOUBLE, "tokens", "prompt length"),
            optional("output_length", DOUBLE, "tokens", "generated length"),
            optional("concurrency", DOUBLE, "requests", "requests in flight"),
            optional("request_rate", DOUBLE, "requests/s", "offered rate"),
            document("metrics", "measured values by our names with units"),
            document("definitions", "how the source defines each metric"),
            document("extra", "fields of the source we do not interpret"),
            moment("measured_at", "when measured", nullable=True),
            optional("measured_by", NAME, "none", "who ran it"),
            optional("engine_commit", DIGEST, "none", "commit of the engine"),
            optional("image", text(500), "none", "container image of the server"),
            optional("host", NAME, "none", "machine it ran on"),
            optional("driver", DIGEST, "none", "version of the device's driver"),
            optional("flags", TEXT, "none", "flags the server was started with"),
            optional("git_revision", DIGEST, "none", "revision of the user's own project"),
            optional("tags", text(500), "none", "tags in the order of the alphabet, parted by commas"),
            optional("completed_requests", INTEGER, "requests", "requests that got their whole answer"),
            optional("failed_requests", INTEGER, "requests", "requests that got none; no value counts them"),
            optional("accept_length", DOUBLE, "tokens", "tokens a step, where drafts are accepted"),
            optional("cached_share", DOUBLE, "ratio", "prompt tokens that a prefix cache held"),
            optional("file", DIGEST, "none", "digest of the path it was read from", index=True),
            optional("read_as", DIGEST, "sha256", "content key of what its file alone says; NULL: its own", index=True),
            moment("imported_at", "when imported"),
            *(
                _of_side(side, column)
                for part in (_SIDE, MEASURED_SHARES)
                for side in ("prefill", "decode")
                for column in part
            ),
        ),
    ),
    Table(
        "validation",
        "predicted against measured",
        (
            reference("measurement_id", "measurement", "measured point", primary=True, index=False),
            Column("metric", DIGEST, "none", "which metric", primary=True),
            reference("scenario_id", "scenario", "what predicted it", primary=True, index=False),
            Column("batch_size", INTEGER, "requests", "batch size of the prediction"),
            Column("measured", DOUBLE, "metric", "measured value, in the metric's unit"),
            Column("predicted", DOUBLE, "metric", "predicted value, in the metric's unit"),
            Column("signed_error", DOUBLE, "ratio", "(predicted - measured) / measured"),
            optional("device", NAME, "none", "device that was measured, our name", index=True),
            optional("kind", text(8), "none", "dense or moe"),
            optional("engine", DIGEST, "none", "serving engine as we name it; unstated where the source does not say"),
            optional("mode", text(32), "none", "aggregated, disaggregated, prefill, decode"),
            optional("batch_region", text(32), "none", "range of the users of the whole deployment"),
            optional("length_region", text(32), "none", "range of the prompt length"),
            moment("created_at", "when it was matched"),
            optional(
                "knowledge",
                text(8),
                "none",
                "evaluated as asked, as known, or both where they are one; NULL: not known",
            ),
        ),
    ),
    Table(
        "price",
        "dated device prices and power; joined when asked, never stored in a probe",
        (
            Column("device_name", NAME, "none", "device by name", primary=True),
            Column("effective_from", text(10), "ISO date", "valid from", primary=True),
            optional("usd_per_device_hour", DOUBLE, "USD/h", "price"),
            optional("watts_per_device", DOUBLE, "W", "power draw"),
            Column("source", TEXT, "none", "where the figures come from"),
        ),
    ),
    Table(
        "tombstone",
        "voided sweeps and scenarios: reason, when, lifted when",
        (
            identifier(),
            reference("sweep_id", "sweep", "voided sweep", nullable=True),
            reference("scenario_id", "scenario", "voided scenario", nullable=True),
            Column("reason", TEXT, "none", "why"),
            moment("voided_at", "when voided"),
            moment("lifted_at", "when unvoided; NULL: still void", nullable=True),
        ),
        checks=(("one_target", "(sweep_id IS NULL) <> (scenario_id IS NULL)"),),
        indexes=(("active", "lifted_at"),),
    ),
)
