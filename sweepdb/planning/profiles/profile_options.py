"""The options of a question that a profile takes: filters and limits. Read before anything is asked."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from queries.asking import PARTS, Declared, declared, option_table

ALSO_ASKED = ("price_date", "as_predicted")
_OF_ARRIVALS_ALONE = "tbt_limit"  # rows have no such time


@functools.cache
def profile_options() -> Mapping[str, Declared]:
    wanted = [item.keyword for part in ("scope", "limits") for item in declared(PARTS[part])]
    table = option_table()
    return {name: table[name] for name in (*wanted, *ALSO_ASKED) if name != _OF_ARRIVALS_ALONE}
