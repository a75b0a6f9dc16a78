"""A small request that workers share, and the rows that stores hold of it."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from evaluator_cases import OPT_125M, TEST_DEVICE

from evaluator.inputs.formats import Precision
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.request import NamedModel, SweepRequest
from queries.connect import connect
from store.parts import compact_parts, part_shelf
from store.schema.tables import MEASURES
from store.upkeep import check_store
from sweepdb.working.tasks import Workers

NAMES = ", ".join(["scenario", "model", "workload", "phase", "batch_size", *(column.name for column in MEASURES)])
ROWS = f"SELECT {NAMES} FROM raw.stored_probe ORDER BY scenario, batch_size"
ALONE = Workers(kind="share")


def request_of(**options) -> SweepRequest:
    return SweepRequest(**{
        "models": (NamedModel(name="a/model", spec=OPT_125M),),
        "devices": (TEST_DEVICE,),
        "workloads": (workload_of(input_length=100, output_length=20), workload_of(input_length=50, output_length=9)),
        "precisions": (Precision(linear="W8A8_DYNAMIC", experts="W8A8_DYNAMIC"),),
        "num_devices": 4,
        "batch_range": (1, 6),
        **options,
    })  # fmt: skip


def shard_states(store):
    with store.engine.connect() as connection:
        return Counter(state for (state,) in connection.exec_driver_sql("SELECT state FROM shard"))


def rows(url):
    with connect(url) as connection:
        return connection.execute(ROWS).fetchall()


def whole_after(store, expected, *, orphans=None):
    """After an accident: the rows of an undisturbed sweep, no fault; compaction removes what was left behind a day ago."""
    assert rows(store.url) == expected
    found = check_store(store.location)
    assert found.faults == ()
    assert orphans is None or len(found.orphans) == orphans
    folder = Path(part_shelf(store).address)
    left = set(map(str, found.orphans))
    for path in folder.iterdir():
        if str(path) in left or path.name in left:
            os.utime(path, (time.time() - 90_000,) * 2)
    compact_parts(store.location)
    assert rows(store.url) == expected
    again = check_store(store.location)
    assert (again.faults, again.orphans) == ((), ())
