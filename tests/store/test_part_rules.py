"""Blocks of a part are checked and digested together, and refused, named and digested as each would be alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from generator import block, scenarios
from hypothesis import given
from hypothesis import strategies as st

from store.digests import DigestedRows, rows_digest
from store.errors import InputError
from store.parts import ShardBlock, write_part
from store.placing import shelf_at
from store.writing.arrays import check_block
from store.writing.plausible import refuse_impossible

RECORDS = [record for record in islice(scenarios(), 60) if record.status == "ok"][:12]


def made(number: int, length: int = 8, first: int = 1) -> ShardBlock:
    record = RECORDS[number]
    plan = record.subject.plan
    return ShardBlock(
        scenario_id=number + 1, scenario_key=record.key, replicas=plan.dp * plan.pp,
        record=block(record, first, first + length - 1),
    )  # fmt: skip


def changed(one: ShardBlock, **columns) -> ShardBlock:
    return replace(one, record=replace(one.record, columns={**one.record.columns, **columns}))


def alone(one: ShardBlock) -> tuple[int, int, int, str]:
    first, last = check_block(one.record)
    refuse_impossible(one.scenario_key, one.record, one.replicas)
    rows = DigestedRows.of_columns(one.record.batch_sizes, one.record.columns)
    return one.scenario_id, first, last, rows_digest(one.scenario_key, rows, one.record.composition)


@given(st.lists(st.tuples(st.integers(0, len(RECORDS) - 1), st.integers(1, 9), st.integers(1, 40)), min_size=1,
                max_size=8, unique_by=lambda one: one[0]))  # fmt: skip
def test_a_part_describes_each_block_as_it_would_be_alone(tmp_path_factory, some):
    blocks = [made(number, length, first) for number, length, first in some]
    written = write_part(shelf_at(str(tmp_path_factory.mktemp("parts"))), "a" * 64, blocks)
    found = [(one.scenario_id, one.first, one.last, one.digest) for one in written.blocks]
    assert found == sorted(map(alone, blocks))


def infinite(one):
    return changed(one, weight_bytes=np.full(8, np.inf))


def below_zero(one):
    return changed(one, weight_bytes=np.asarray([5, 5, 5, -1, 5, 5, 5, 5]))


def of_other_shape(one):
    return changed(one, weight_bytes=np.ones(9))


def lacking(one):
    return changed(one, weight_bytes=None)


def with_a_hole(one):
    sizes = np.asarray(one.record.batch_sizes).copy()
    sizes[-1] += 1
    return replace(one, record=replace(one.record, batch_sizes=sizes))


def unknown(one):
    return changed(one, nonsense=np.ones(8))


def other_concurrency(one):
    return changed(one, concurrency=np.asarray(one.record.columns["concurrency"]) + 1)


def composed_wrong(one):
    return replace(one, record=replace(one.record, composition=(np.asarray([1]), np.asarray([0]), np.asarray([2]))))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (infinite, "weight_bytes of a block holds an infinite number"),
        (below_zero, f"{RECORDS[1].key[:12]} at batch size 4: weight_bytes is below zero"),
        (of_other_shape, "weight_bytes has shape"),
        (lacking, "lacks the column weight_bytes"),
        (with_a_hole, "the one before plus one"),
        (unknown, "not stored: nonsense"),
        (other_concurrency, f"{RECORDS[1].key[:12]} at batch size 1: concurrency is not"),
        (composed_wrong, "does not add up to its batches"),
    ],
)
def test_one_bad_block_among_good_ones_is_named_and_nothing_is_written(tmp_path, damage, said):
    bad = damage(made(1))
    with pytest.raises(InputError, match=said) as together:
        write_part(shelf_at(str(tmp_path)), "b" * 64, [made(0), bad, made(2)])
    with pytest.raises(InputError) as by_itself:
        alone(bad)
    assert together.value.message == by_itself.value.message
    assert list(tmp_path.iterdir()) == []


def test_shapes_that_make_up_for_each_other_are_refused(tmp_path):
    longer = changed(made(0), weight_bytes=np.ones(9))
    shorter = changed(made(1), weight_bytes=np.ones(7))
    with pytest.raises(InputError, match="weight_bytes has shape"):
        write_part(shelf_at(str(tmp_path)), "c" * 64, [longer, shorter])
