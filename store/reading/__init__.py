"""Reading a store through its plain driver: connections, transactions of one moment with typed rows, lists of sweeps.

Imports no SQLAlchemy. Not here: writing, and questions about probes (queries)."""

from store.reading.connecting import read_store_id
from store.reading.transactions import ReadTransaction, read_transaction
from store.reading.typed_rows import Cells

__all__ = ["Cells", "ReadTransaction", "read_store_id", "read_transaction"]
