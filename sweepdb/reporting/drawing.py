"""The package that draws pictures, where it is installed: its bundle of JavaScript, and SVG without a browser."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from store.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType


def drawing_engine() -> ModuleType:
    """The module vl_convert, or an error that says how to install it."""
    try:
        return import_module("vl_convert")
    except ImportError:
        raise InputError(
            "pictures need vl-convert, which is not installed",
            hint="pip install 'sweepdb[pictures]'; query `format=vl` needs nothing and opens in any Vega-Lite editor",
        ) from None
