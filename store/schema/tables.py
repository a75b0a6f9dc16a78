"""Every table of the store, together: databases, raw relations, stored rows and the reference page follow from here.

New stores are laid down from here; a migration repeats what it adds to those that are there, and a test compares the
two. Meanings end up as comments of the database."""

from __future__ import annotations

from typing import get_args

from store.schema.compared_tables import COMPARED_TABLES
from store.schema.declaring import (
    DIGEST,
    DOUBLE,
    FLAG,
    INTEGER,
    LONG,
    NAME,
    SHORT,
    TEXT,
    TIER_PLACES,
    Column,
    Status,
    SweepKind,
    SweepOutcome,
    Table,
    content_key,
    document,
    identifier,
    moment,
    optional,
    reference,
    text,
)
from store.schema.load_tables import LOAD_TABLES
from store.schema.measures import MEASURES
from store.schema.part_tables import PART_TABLES
from store.schema.plan_columns import OF_DEVICES, OF_PLANS, OF_SHARES
from store.schema.service_columns import OF_SERVICE

_STORE = (
    Table(
        "store_identity",
        "one row: which store this is",  # so that snapshots of another store are recognised
        (
            Column("id", INTEGER, "none", "always 1", primary=True),
            Column("store_id", text(32), "hex", "random identity of this store"),
            moment("created_at", "when the store was created"),
        ),
        checks=(("single_row", "id = 1"),),
    ),
)


def _format(part: str, meaning: str, *, nullable: bool = False) -> Column:
    name = f"{part}_quantization"
    return Column(name, text(32), "none", meaning, nullable=nullable, told=f"number {meaning}")


_DIMENSIONS = (  # what a scenario is made of
    Table(
        "model",
        "models, by normalised hyper-parameters",
        (
            identifier(),
            content_key("content key of the hyper-parameters"),
            Column("name", NAME, "none", "the name it was first asked by", index=True),
            Column("architecture", NAME, "none", "model_type of its config.json"),
            Column("parameters", LONG, "parameters", "all weights"),
            Column("active_parameters", LONG, "parameters", "weights a token visits"),
            document("spec", "canonical hyper-parameters"),
        ),
    ),
    Table(
        "model_alias",
        "names a model was asked by",
        (
            Column("alias", text(500), "none", "id or path", primary=True),
            reference("model_id", "model", "the model", primary=True, index=False),
        ),
    ),
    Table(
        "device",
        "device profile snapshots",
        (
            identifier(),
            content_key("content key of the profile, calibration included"),
            Column("name", NAME, "none", "profile name", index=True),
            Column("vendor", NAME, "none", "who makes it", told="who makes the device"),
            Column(
                "family",
                text(16),
                "none",
                "theoretical, calibrated or empirical",
                told="cost model: theoretical or calibrated",
            ),
            Column("matrix_flops_per_s", DOUBLE, "FLOP/s", "effective bf16 matrix rate"),
            Column("vector_flops_per_s", DOUBLE, "FLOP/s", "effective bf16 vector rate"),
            Column("memory_bytes", LONG, "bytes", "device memory", told="memory of one device"),
            Column("memory_bandwidth_bytes_per_s", DOUBLE, "bytes/s", "effective bandwidth"),
            Column("grid", NAME, "devices", "interconnect grid, outermost first"),
            Column("link_bandwidths", NAME, "bytes/s", "effective bandwidth of each grid level"),
            optional("calibration_key", DIGEST, "sha256", "calibration used"),
            document("spec", "canonical profile"),
        ),
    ),
    Table(
        "precision",
        "number formats",
        (
            identifier(),
            content_key(),
            _format("linear", "format of linears"),
            _format("experts", "format of experts"),
            _format("attention", "format of the KV cache"),
            Column(
                "mxfp4_group_size",
                INTEGER,
                "weights",
                "weights sharing one MXFP4 scale",
                told="weights that share one MXFP4 scale",
            ),
            document("spec", "canonical form"),
            _format("mixers", "format of what mixes tokens; NULL: as linears", nullable=True),
            _format("head", "format of the vocabulary head; NULL: 16 bits", nullable=True),
            _format("drafts", "format of layers that draft; NULL: as others", nullable=True),
        ),
        once=True,
    ),
    Table(
        "plan",
        "parallel splits of one instance",
        (
            identifier(),
            *OF_DEVICES,
            Column(
                "num_devices",
                INTEGER,
                "devices",
                "devices of one instance: tp x pp x dp x pcp, and those that encode for it",
            ),
            *OF_SHARES,
        ),
        unique=tuple(size.name for size in OF_PLANS),
    ),
    Table(
        "workload",
        "lengths, prefix cache, token budget and MTP",
        (
            identifier(),
            content_key(),
            Column("label", NAME, "tokens", "derived short form, such as 3500/1500"),
            optional("name", NAME, "none", "the name it was first stored by", index=True),
            optional("input_length", INTEGER, "tokens", "prompt length; NULL for distributions"),
            Column("input_length_mean", DOUBLE, "tokens", "mean prompt length"),
            Column("output_length", DOUBLE, "tokens", "generated length, the mean for distributions"),
            Column("prefix_cache_hit_rate", DOUBLE, "ratio", "share of a prompt found in cache"),
            Column(
                "max_batched_tokens",
                LONG,
                "tokens",
                "token budget of one step",
                told="tokens of one step at most, per replica",
                on_pairs="sides",
            ),
            Column("mtp_tokens", SHORT, "tokens", "tokens drafted a step", on_pairs="sides"),
            document("mtp_acceptance", "acceptance rate of each drafted token"),
            document("spec", "canonical form"),
            optional("images", INTEGER, "images", "images of a request; NULL: text alone"),
            optional("image_width", INTEGER, "pixels", "width of an image as it is sent"),
            optional("image_height", INTEGER, "pixels", "height of an image as it is sent"),
            optional("image_patches", INTEGER, "patches", "patches that the encoder computes for an image"),
            optional("image_tokens", INTEGER, "tokens", "prompt tokens of an image, inside the prompt length"),
            optional("encoder_split", text(16), "none", "what ranks of the image encoder share: weights or data"),
            *(
                Column(f"{tier}_hit_rate", DOUBLE, "ratio", f"share of a prompt found in {where}", default="0")
                for tier, where in TIER_PLACES.items()
            ),
        ),
        once=True,
    ),
    Table(
        "workload_bin",
        "bins of length distributions",
        (
            reference("workload_id", "workload", "its workload", primary=True, index=False),
            Column("bin_index", INTEGER, "none", "position, from 0", primary=True),
            Column("min_input_length", INTEGER, "tokens", "shortest prompt of the bin"),
            Column("max_input_length", INTEGER, "tokens", "longest prompt of the bin"),
            Column("input_length", DOUBLE, "tokens", "representative prompt length"),
            Column("output_length", DOUBLE, "tokens", "representative generated length"),
            Column("weight", DOUBLE, "ratio", "probability, summing to 1"),
            Column("prefix_cache_hit_rate", DOUBLE, "ratio", "share of the prompt found in cache"),
        ),
    ),
    Table(
        "workload_name",
        "names given to workloads",  # a name stays with its workload
        (
            Column("name", NAME, "none", "the user's name", primary=True),
            reference("workload_id", "workload", "the workload"),
            moment("created_at", "when it was named"),
        ),
    ),
)

_EVALUATED = (  # what an evaluation leaves
    Table(
        "subject",
        "what rows are about; sweeps are compared by subject",
        (
            identifier(),
            content_key(),
            reference("model_id", "model", "the model"),
            Column("device_name", NAME, "none", "device by name", index=True),
            reference("precision_id", "precision", "number formats", index=False),
            reference("plan_id", "plan", "parallel split", index=False),
            reference("workload_id", "workload", "what is served"),
            Column("phase", text(16), "none", "prefill, decode or aggregated", on_pairs="hidden"),
            Column("convention", text(16), "none", "physical or upstream", on_pairs="once"),
            Column(
                "compile",
                FLAG,
                "none",
                "compiled graph, not eager",
                told="compiled graph rather than eager",
                on_pairs="once",
            ),
            Column("serving_model", text(64), "none", "how step times become latencies", on_pairs="once"),
            Column("serving_cost_ms", DOUBLE, "ms", "fixed cost of delivery", on_pairs="once"),
            *OF_SERVICE,
            optional(
                "unusual_service",
                text(100),
                "none",
                "which of client, launch and routing were said, by column; NULL: not known",
            ),
        ),
    ),
    Table(
        "scenario",  # failures are rows
        "subject + device profile + formula version, with status and reason",
        (
            identifier(),
            content_key(),
            reference("subject_id", "subject", "what it is about"),
            reference("device_id", "device", "profile snapshot used"),
            Column("formula_version", INTEGER, "none", "raised when stored numbers change"),
            Column("status", text(16), "none", "ok, illegal, unsupported or error", one_of=get_args(Status)),
            optional("reason", TEXT, "none", "why it is not ok"),
            optional("assumptions", TEXT, "none", "what was assumed, one sentence a line"),
            moment("created_at", "when it was first stored"),
            optional(
                "launchable_by",
                NAME,
                "none",
                "engines that launch the plan as one server; NULL: not known",
                told="engines that can launch the plan as one server, separated by commas; empty: none, NULL: not"
                " known",
            ),
        ),
        checks=(("failure_has_reason", "status = 'ok' OR reason IS NOT NULL"),),
    ),
    Table(
        "sweep",
        "requests: arguments, program version, time, outcome",
        (
            identifier("integer key, ascending in time"),
            Column("key", text(32), "hex", "random public reference", unique=True),
            optional("label", NAME, "none", "the user's label", index=True),
            document("arguments", "what was asked, every default written out"),
            Column("program_version", DIGEST, "none", "version of sweepdb that ran"),
            moment("started_at", "start", index=True),
            moment("finished_at", "end", nullable=True),
            Column(
                "status",
                text(16),
                "none",
                "running, finished, interrupted or failed",
                one_of=("running", *get_args(SweepOutcome)),
            ),
            Column("probes_stored", LONG, "probes", "probes this sweep added"),
            Column("probes_known", LONG, "probes", "probes asked for and already stored"),
            Column("scenarios_failed", INTEGER, "scenarios", "scenarios that are not ok"),
            Column(
                "kind",
                text(16),
                "none",
                "request, validation or import",
                one_of=get_args(SweepKind),
                default="request",
            ),
        ),
    ),
    Table(
        "block",  # the unit that is committed together and never changes
        "probes of one scenario over one batch interval, committed together",
        (
            identifier("integer key, ascending in time of commit"),
            reference("scenario_id", "scenario", "whose probes", index=False),
            Column("first_batch_size", INTEGER, "requests", "smallest batch size"),
            Column("last_batch_size", INTEGER, "requests", "largest batch size"),
            Column("probe_count", INTEGER, "probes", "probes of the block"),
            reference("sweep_id", "sweep", "the sweep that added it"),
            moment("created_at", "when it was committed"),
            optional("digest", DIGEST, "sha256", "over every number of the block, as committed"),
        ),
        unique=("scenario_id", "first_batch_size"),
        checks=(("interval", "last_batch_size >= first_batch_size"),),
        committed_with="block",
    ),
    Table(
        "sweep_interval",  # new or already there
        "which sweep asked for which batch interval of which scenario",
        (
            reference("sweep_id", "sweep", "asker", primary=True, index=False),
            reference("scenario_id", "scenario", "asked for", primary=True),
            Column("first_batch_size", INTEGER, "requests", "from; 0 for failures", primary=True),
            Column("last_batch_size", INTEGER, "requests", "to; 0 for failures"),
        ),
    ),
    Table(
        "probe",
        "one scenario at one batch size",
        (
            reference("scenario_id", "scenario", "its scenario", primary=True, index=False),
            Column(
                "batch_size",
                INTEGER,
                "requests",
                "per data parallel replica and stage",
                primary=True,
                told="requests of one data parallel replica and pipeline stage",
            ),
            *MEASURES,
        ),
        checks=(("batch_size", "batch_size >= 1"),),
        by_key=True,
        committed_with="block",
    ),
    Table(
        "composition",  # only bins with samples
        "requests of each length bin in a probe's batch",
        (
            reference("scenario_id", "scenario", "its scenario", primary=True, index=False),
            Column("batch_size", INTEGER, "requests", "batch size of the probe", primary=True),
            Column("bin_index", INTEGER, "none", "bin of the workload", primary=True),
            Column("samples", INTEGER, "requests", "requests of the bin in one replica"),
        ),
        by_key=True,
        committed_with="block",
    ),
    Table(
        "operator_set",
        "captured operators, so that torch is needed once",
        (
            Column("key", DIGEST, "sha256", "content key of what was captured", primary=True),
            document("payload", "operators as closed forms"),
            Column("torch_version", DIGEST, "none", "torch that captured them"),
            moment("created_at", "when they were captured"),
        ),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table for table in (*_STORE, *_DIMENSIONS, *_EVALUATED, *COMPARED_TABLES, *LOAD_TABLES, *PART_TABLES)
}
