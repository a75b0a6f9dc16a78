"""Reading a store through its plain driver: connections, transactions of one moment with typed rows, lists of sweeps.

Imports no SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.reading.connecting import read_store_id
    from store.reading.interrupts import InterruptBell, interrupts_held, interrupts_noticed
    from store.reading.known_names import NameKind, stored_names
    from store.reading.load_blocks import LOAD_VALUES, stored_loads
    from store.reading.silent_duckdb import duckdb, in_memory, machine_memory
    from store.reading.store_state import Recalled, Version, read_measured, read_moment, read_state, version_of
    from store.reading.transactions import ReadTransaction, connections_kept, read_transaction
    from store.reading.typed_rows import Cells, flat_names

__getattr__, __dir__ = lazy_face(__name__)
