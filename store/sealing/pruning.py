"""Finds the parts that hold rows of some scenarios, by the store's own blocks: the others need not be opened.

What a part says of itself is not asked: a wrong manifest can make a question slower, never leave a row out. Not here:
whether a part may be read (store.sealing.snapshots)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from store.reading import ReadTransaction
from store.sealing.ranges import Ranges, meets, ranges_of, within
from store.sealing.unsealed import UnsealedBlock

if TYPE_CHECKING:
    from store.sealing.snapshots import Part

_HAS_PARTS = "SELECT CASE WHEN EXISTS (SELECT 1 FROM part_block) THEN 1 ELSE 0 END"
FEW_PARTS = 16  # opening as many takes 20 ms; a session that has them all never reads the store twice
MOST_SCENARIOS = 20_000  # looking their blocks up takes as long as opening a few hundred parts


def worth_pruning(transaction: ReadTransaction, parts: Sequence[Part], scenario_ids: Collection[int]) -> bool:
    """Whether leaving parts aside saves more than finding out which.

    Where parts stand in place of rows it always does: names are joined to every block of them that is read."""
    if len(scenario_ids) > MOST_SCENARIOS:
        return False
    return len(parts) > FEW_PARTS or next(transaction.values(int, _HAS_PARTS)) > 0


def blocks_of_scenarios(transaction: ReadTransaction, scenario_ids: Iterable[int]) -> list[UnsealedBlock]:
    """The committed blocks of scenarios, by id."""
    wanted = json.dumps([[0, low, high] for low, high in ranges_of(scenario_ids)])
    statement = (
        f"SELECT b.id, b.probe_count FROM {transaction.ranges} JOIN block b"  # noqa: S608 - our text
        " ON b.scenario_id BETWEEN r.lo AND r.hi ORDER BY b.id"
    )
    return list(transaction.rows(UnsealedBlock, statement, (wanted,)))


def parts_with(parts: Sequence[Part], blocks: Sequence[UnsealedBlock]) -> tuple[Part, ...]:
    """The parts that hold any of these blocks."""
    wanted = ranges_of(block.id for block in blocks)
    return tuple(part for part in parts if meets(part.contents.blocks, wanted))


def not_within(blocks: Sequence[UnsealedBlock], covered: Ranges) -> Ranges:
    """The blocks that ranges leave out, as ranges."""
    return ranges_of(block.id for block in blocks if not within(block.id, covered))
