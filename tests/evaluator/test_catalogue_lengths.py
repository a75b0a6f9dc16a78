"""Lengths of inference-perf's workload catalogue: means against closed forms, and what is said of others."""

from __future__ import annotations

import json

import pytest

from evaluator.inputs.workloads.lengths import load_distribution, mean_input_length, mean_output_length
from store.errors import InputError


def spread(least, most, mean, deviation, family):
    return {"min": least, "max": most, "mean": mean, "standard_deviation": deviation, "distribution_type": family}


def written(folder, **keys):
    """A file with the keys that entries of the catalogue have."""
    usual = {
        "input_sequence_length": spread(500, 15_000, 4_000, 2_500, "log_normal"),
        "output_sequence_length": spread(10, 1_000, 300, 150, "normal"),
        "number_of_turns": spread(1, 15, 4, 2.5, "log_normal"),
        "multi_turn": True,
        "metadata": {"slos": {"ttft_p99_ms": 500, "itl_p99_ms": 50}},
    }
    path = folder / "config.json"
    path.write_text(json.dumps({**usual, **keys}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("family", "least", "most", "mean"),
    [
        # What lies below `min` or above `max` becomes these; here next to nothing does.
        (spread(100, 9_000, 4_000, 800, "normal"), 100, 9_000, 4_000),
        (spread(500, 60_000, 4_000, 2_500, "log_normal"), 500, 60_000, 4_000),
        (
            spread(1_000, 3_000, 1_500, 1, "uniform"),
            1_000,
            3_000,
            2_000,
        ),  # the mean of a uniform one is that of its ends
        (spread(1_000, 3_000, 1_500, 0, "fixed"), 1_500, 1_500, 1_500),
        # Half of a normal one about its least: mean 1,000 + 500 / sqrt(2 pi) = 1,199.5.
        (spread(1_000, 9_000, 1_000, 500, "normal"), 1_000, 9_000, 1_199.5),
    ],
)
def test_bins_have_the_mean_that_is_drawn(tmp_path, family, least, most, mean):
    bins = load_distribution(written(tmp_path, input_sequence_length=family), output_length=None)
    assert mean_input_length(bins) == pytest.approx(mean, rel=0.003)
    assert mean_output_length(bins) == pytest.approx(301.4, rel=0.003)  # of 300, 2.6 % are below 10
    assert sum(one.weight for one in bins) == pytest.approx(1.0)
    assert least <= bins[0].min_input_length <= bins[-1].max_input_length <= most
    assert all(one.min_input_length <= one.input_length <= one.max_input_length for one in bins)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"input_sequence_length": spread(1_000, 80_000, 15_000, 22_000, "bimodal")},
            "not known by mean and deviation",
        ),
        ({"output_sequence_length": {"min": 1, "max": 5, "mean": 3, "standard_deviation": 1}}, "distribution_type"),
        ({"input_sequence_length": spread(900, 80, 500, 1, "normal")}, "min, mean and max must rise from 1 on"),
        ({"output_sequence_length": spread(1, 80, 5, -1, "normal")}, "standard_deviation must be at least 0"),
    ],
)
def test_a_spread_that_nobody_can_draw_from_is_one_sentence(tmp_path, keys, said):
    with pytest.raises(InputError) as caught:
        load_distribution(written(tmp_path, **keys), output_length=None)
    assert said in str(caught.value)
    assert "config.json" in str(caught.value)
    assert "\n" not in caught.value.message
