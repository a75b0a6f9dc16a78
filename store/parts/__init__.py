"""Files of probes in place of rows, written by any worker, registered whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.parts.claiming import adopt_parts, part_shelf
    from store.parts.compacting import checked_path, compact_parts
    from store.parts.files import PartFile, ShardBlock, put_in_place, unfinished, write_part
    from store.parts.naming import ThinnedFile, register_thinned
    from store.parts.registering import Registered, fail_shard, put_shards, record_known, register_part

__getattr__, __dir__ = lazy_face(__name__)
