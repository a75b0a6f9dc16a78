"""Argument lists: several values, none, numbers that end a list."""

from __future__ import annotations

import pytest

from cli.joined_arguments import joined


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("evaluate M --tp-sizes 1 2 4 --num-devices 8", "evaluate M --tp-sizes=1,2,4 --num-devices=8"),
        ("evaluate M --num-devices 4 8 16 --jobs 2", "evaluate M --num-devices=4,8,16 --jobs 2"),
        ("evaluate --tp-sizes --ep-sizes 8 M", "evaluate --tp-sizes= --ep-sizes=8 M"),
        ("evaluate --tp-sizes=1,2 M", "evaluate --tp-sizes=1,2 M"),
        ("evaluate M --batch-range 1 256", "evaluate M --batch-range=1,256"),
        ("evaluate M --device A B --compile", "evaluate M --device=A,B --compile"),
        ("query --device A --device B", "query --device=A,B"),
        ("evaluate M --mtp-acceptance-rate 0.9 0.6", "evaluate M --mtp-acceptance-rate=0.9,0.6"),
        ("sql -- --device A", "sql -- --device A"),
    ],
)
def test_lists_are_joined(given, expected):
    assert joined(given.split()) == expected.split()
