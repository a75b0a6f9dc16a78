"""The value that an answer says to relax a limit to admits the row, whatever its digits."""

from decimal import Decimal

import pytest
from conftest_cli import sweepdb
from hypothesis import given
from hypothesis import strategies as st

from queries.asking import relaxed_to
from queries.asking.options import Limits


@pytest.mark.parametrize(
    ("binding", "limits", "value", "shown"),
    [
        # Missed by 0.0004: the fourth decimal and one more, upwards.
        ("tpot", Limits(tpot_ms=50), 50.00037, "50.00037"),
        ("tpot", Limits(tpot_ms=50), 50.0004123, "50.00042"),
        ("ttft", Limits(ttft_ms=1000), 1200.123, "1200.13"),
        ("e2e", Limits(e2e_ms=9), 9.5, "9.50"),
        # These are relaxed downwards.
        ("tokens_per_s_per_user", Limits(min_tokens_per_s_per_user=20), 19.99951, "19.99951"),
        ("memory", Limits(reserved_gib=10), 8.987, "8.98"),
        ("memory", Limits(reserved_gib=10), -0.5, None),
    ],
)
def test_the_digits_reach_as_far_as_the_miss(binding, limits, value, shown):
    assert relaxed_to({"binding_limit": binding, "relax_to": value}, limits) == shown


@given(st.floats(0.001, 1e6), st.floats(1e-9, 10))
def test_what_is_shown_admits_the_row_and_stays_near_it(limit, miss):
    value = limit * (1 + miss)
    shown = relaxed_to({"binding_limit": "ttft", "relax_to": value}, Limits(ttft_ms=limit))
    assert Decimal(shown) >= Decimal(str(value))
    assert Decimal(shown) - Decimal(str(value)) <= max(Decimal("0.01"), Decimal(str(value)) - Decimal(str(limit)))


def test_typing_the_value_of_a_near_miss_admits_it(example_store):
    # The lowest latency of all, limited to 0.0004 ms less: nothing fits, by a hair.
    query = "SELECT min(tpot_inclusive_ms) FROM aggregated WHERE batch_size = 1"
    lowest = float(sweepdb(["sql", query, "--format", "csv"], example_store).out.splitlines()[1])
    table = sweepdb(f"query best --tpot-limit {lowest - 0.0004:.9f}", example_store).out
    nearest = next(line for line in table.splitlines() if line.split()[:2] == ["1", "aggregated"])
    (relaxed,) = [word for word in nearest.split() if word.startswith(f"{lowest:.3f}")]
    assert len(sweepdb(f"query best --tpot-limit {relaxed} --format csv", example_store).out.splitlines()) == 2
