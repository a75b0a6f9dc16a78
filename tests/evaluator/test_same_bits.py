"""The numbers of a scenario are the same, bit for bit, whatever the processor rounds a BLAS or a logarithm to."""

import functools

import pytest
from evaluated_bits import bits
from processors import arithmetics, others, printed_by


@functools.cache
def here():
    """The numbers of this process, on this processor as it is."""
    return bits()


@pytest.mark.parametrize("arithmetic", others(rest=pytest.mark.survival))
def test_numbers_are_the_same_on_every_processor(arithmetic):
    there = printed_by("evaluated_bits.py", arithmetic=arithmetics()[arithmetic])
    assert there.keys() == here().keys()
    different = {
        (case, column): (there[case][column], values)
        for case, columns in here().items()
        for column, values in columns.items()
        if there[case][column] != values
    }
    assert not different, f"{len(different)} columns, first {next(iter(different.items()))}"
