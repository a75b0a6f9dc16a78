"""What is stored of a batch size is the same, bit for bit, whichever sizes were evaluated with it: sweeps are asked for
in pieces, shards cut intervals, and the same row must come out."""

import numpy as np
import pytest
from evaluated_bits import CASES, PHASES, columns_of
from evaluator_cases import DEEPSEEK_V3, TEST_DEVICE, captured

from evaluator.graph.sums import BatchSums
from evaluator.inputs.launch import Plan
from evaluator.pricing.cost_model import KINDS
from evaluator.pricing.theoretical import TheoreticalCost

TOGETHER = np.arange(1, 41)
APART = ([1], [2], [3, 4], [17], [25, 31, 40], [39])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("phase", PHASES)
def test_a_size_alone_has_the_numbers_it_has_among_others(case, phase):
    whole = columns_of(case, phase, TOGETHER)
    for sizes in APART:
        alone = columns_of(case, phase, np.asarray(sizes))
        different = [name for name, values in alone.items() if values != [whole[name][size - 1] for size in sizes]]
        assert not different, f"{sizes}: {different}"


def test_a_size_has_the_same_numbers_in_blocks_that_are_priced_in_parts():
    case = "waves, latent attention, drafts"  # a case with many distinct tokens of a step
    whole = columns_of(case, "decode", np.arange(1, 2201))
    alone = columns_of(case, "decode", np.asarray([1023, 1024, 1025, 2200]))
    for name, values in alone.items():
        assert values == [whole[name][size - 1] for size in (1023, 1024, 1025, 2200)], name


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [3.0, 17.0, 1024.0, 7777.0]])
def test_operators_priced_at_once_cost_to_the_bit_what_they_cost_one_by_one(values):
    extent = np.asarray(values)
    sums = BatchSums(tokens=extent, sequences=extent, pairs=extent, keys=extent)
    cost = TheoreticalCost(device=TEST_DEVICE)
    drivers = ("tokens", "constant")
    operators = [
        one
        for one in captured(DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16), "decode").operators
        if one.experts is None and one.collective is None and one.multiple == 1 and one.driver in drivers
    ]
    assert len(operators) > 5
    together = cost.plain_seconds(operators, extent)
    for index, operator in enumerate(operators):
        alone = cost.operator_seconds(operator, sums)
        for kind, part in enumerate(getattr(alone, name) for name in KINDS):
            expected = np.broadcast_to(0.0 if part is None else part, extent.shape)
            assert together[kind, index].tolist() == expected.tolist(), operator.label
