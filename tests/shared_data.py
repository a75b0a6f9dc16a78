"""Where the comparison data lies. It is not part of the project: tests that need it skip where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("SWEEPDB_SHARED_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))


def shared_data(*parts: str) -> Path:
    """The path of one shared file or folder, or a skip that says what is missing."""
    path = ROOT.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"comparison data not found: {path} (set SWEEPDB_SHARED_DATA to its folder)")
    return path
