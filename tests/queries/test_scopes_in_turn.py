"""Questions of other scopes in one session: what was kept of the one before is given up, and nothing is planned over it."""

from __future__ import annotations

import pytest

import queries
from store.errors import InputError


def test_a_report_after_another_was_asked_again_answers_as_by_itself(stored):
    with queries.open(stored) as alone:
        expected = alone.capacity(target_rate=5.0).rows
    with queries.open(stored) as notebook:
        for kept in (1.0, 0.5):
            notebook.report("by-length", prefill_degradation=kept)
        assert notebook.capacity(target_rate=5.0).rows == expected


def test_a_rate_after_the_same_report_without_one_says_that_no_loads_are_stored(stored):
    with queries.open(stored) as notebook:
        notebook.capacity(num_devices=8)
        with pytest.raises(InputError, match=r"loads|arriv"):
            notebook.capacity(rate=5.0)
