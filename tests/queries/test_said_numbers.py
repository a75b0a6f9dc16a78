"""Numbers in sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries.judging import four_figures


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.12345, "0.1235"), (671.04, "671"), (1044.2, "1,044"), (30528.2, "30,528"), (5e6, "5,000,000")],
)
def test_a_number_in_a_sentence(value, said):
    assert four_figures(value) == said


@given(st.floats(1e-3, 1e9))
def test_no_sentence_has_an_exponent_and_each_is_near(value):
    said = four_figures(value)
    assert "e" not in said
    assert float(said.replace(",", "")) == pytest.approx(value, rel=6e-4)
