"""Tables of parts: Parquet files that hold the probes of blocks in place of rows, and the shards that wrote them."""

from __future__ import annotations

from typing import get_args

from store.schema.declaring import (
    DIGEST,
    INTEGER,
    KEY,
    LONG,
    NAME,
    TEXT,
    Column,
    ShardState,
    Table,
    identifier,
    moment,
    optional,
    reference,
    text,
)

PART_TABLES = (
    Table(
        "part",
        "files that hold the probes of blocks; what no row here names is no part of the store",
        (
            identifier(),
            Column("name", NAME, "none", "file name, of its own for each attempt", unique=True),
            Column("folder", TEXT, "none", "where it was written"),
            Column("bytes", LONG, "bytes", "size of the file"),
            Column("sha256", DIGEST, "sha256", "digest of the file"),
            Column("row_count", LONG, "probes", "probes of the blocks that it holds"),
            moment("created_at", "when it was registered"),
            moment("retired_at", "when a compaction replaced it; NULL: in use", nullable=True),
        ),
    ),
    Table(
        "part_block",  # disjoint: a block has one place
        "which part holds which blocks; the probes of other blocks are rows",
        (
            Column("first_block", KEY, "none", "from this block on", primary=True),
            Column("last_block", LONG, "none", "to this one"),
            reference("part_id", "part", "the part"),
        ),
        checks=(("interval", "last_block >= first_block"),),
    ),
    Table(
        "part_subject",
        "what a part is about, for its compaction",
        (
            reference("part_id", "part", "the part", primary=True, index=False),
            reference("model_id", "model", "the model", primary=True),
            reference("workload_id", "workload", "what is served", primary=True, index=False),
            Column("phase", text(16), "none", "prefill, decode or aggregated", primary=True),
            Column("probes", LONG, "probes", "how many of it"),
        ),
    ),
    Table(
        "part_thinned",
        "files beside parts with those of their rows alone that can win; what they lack is in the part",
        (
            reference("part_id", "part", "the part", primary=True, index=False),
            Column("name", NAME, "none", "file name, of its own for each attempt", unique=True),
            Column("folder", TEXT, "none", "where it was written"),
            Column("bytes", LONG, "bytes", "size of the file"),
            Column("sha256", DIGEST, "sha256", "digest of the file"),
            Column("row_count", LONG, "probes", "probes that it holds"),
            Column("rules", INTEGER, "none", "version of the rules by which others were left out"),
            moment("created_at", "when it was registered"),
        ),
    ),
    Table(
        "part_file",
        "how files of parts, thinned ones too, were when they were named; where none is known the digest tells",
        (
            Column("name", NAME, "none", "file name", primary=True),
            Column("footer", DIGEST, "sha256", "digest of the footer, which says where every column lies"),
            optional("mtime_ns", LONG, "ns", "when the content changed; NULL: the place keeps no such times"),
            optional("ctime_ns", LONG, "ns", "when anything of the file changed, which nobody can set back"),
            optional("inode", LONG, "none", "number of the file on its disk"),
        ),
    ),
    Table(
        "part_claim",
        "folders of parts that this database may change, by the database that said so: a copy is another",
        (
            Column("home", text(60), "none", "name of the folder below the place of parts, or . for it", primary=True),
            Column("token", text(32), "hex", "secret that the folder names, too, while it belongs to this database"),
            Column("database", TEXT, "none", "the database that said so: its file, or its server"),
            moment("claimed_at", "when"),
        ),
    ),
    Table(
        "shard",
        "pieces of sweeps that workers evaluate, each a part",
        (
            reference("sweep_id", "sweep", "the sweep", primary=True, index=False),
            Column("key", DIGEST, "sha256", "content key of its scenarios and batch intervals", primary=True),
            Column("scenarios", INTEGER, "scenarios", "how many scenarios"),
            Column("probes", LONG, "probes", "how many probes"),
            Column("state", text(16), "none", "waiting, stored or failed", one_of=get_args(ShardState)),
            optional("reason", TEXT, "none", "why it failed"),
            moment("changed_at", "when its state changed"),
        ),
    ),
)
