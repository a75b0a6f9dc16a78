"""Formula versions: raised by hand when stored numbers change."""

from __future__ import annotations

from store.schema import Convention

FORMULA_VERSION = 13
UPSTREAM_FORMULA_VERSION = 4  # of rows under upstream, whose formulas follow that program
PLAY_VERSION = 1  # of requests that arrive: raised when loads change meaning or value and probes do not

IMAGES_VERSION = 1  # of loads whose requests have images, which others have not in their keys
SHARES_VERSION = 1  # the same, of logs whose prompts are cached by the shares of a workload


def formula_version(convention: Convention) -> int:
    return UPSTREAM_FORMULA_VERSION if convention == "upstream" else FORMULA_VERSION
