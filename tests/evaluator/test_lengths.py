"""Length distribution files: what is accepted, and the sentence for each thing that is not."""

from __future__ import annotations

import math

import pytest
from restated import length_file

from evaluator.inputs.workloads.lengths import load_distribution, mean_input_length, mean_output_length
from store.errors import InputError


def write(tmp_path, text):
    path = tmp_path / "lengths.yaml"
    path.write_text(text)
    return path


def test_weights_are_normalised_and_bins_are_represented_by_their_middle(tmp_path):
    path = write(
        tmp_path,
        "bins: [{min_tokens: 500, max_tokens: 1500, weight: 1}, {min_tokens: 0, max_tokens: 500, weight: 3}]",
    )
    bins = load_distribution(path, output_length=100)
    assert [(b.input_length, b.output_length, b.weight) for b in bins] == [(250, 100, 0.75), (1000, 100, 0.25)]
    assert mean_input_length(bins) == 437.5  # 0.75 x 250 + 0.25 x 1000


def test_independent_output_bins_multiply(tmp_path):
    path = write(
        tmp_path,
        """
        bins: [{min_tokens: 0, max_tokens: 100, weight: 1}, {min_tokens: 100, max_tokens: 300, weight: 1}]
        output_bins: [{min_tokens: 0, max_tokens: 20, weight: 1}, {min_tokens: 20, max_tokens: 40, weight: 3}]
        """,
    )
    bins = load_distribution(path, output_length=None)
    assert [(b.input_length, b.output_length, b.weight) for b in bins] == [
        (50, 10, 0.125),
        (50, 30, 0.375),
        (200, 10, 0.125),
        (200, 30, 0.375),
    ]
    assert mean_output_length(bins) == 25  # 0.25 x 10 + 0.75 x 30


def test_joint_bins_carry_their_own_output_and_hit_rate(tmp_path):
    path = write(
        tmp_path,
        """
        bins:
          - {min_tokens: 0, max_tokens: 100, weight: 1, output_min_tokens: 0, output_max_tokens: 10, prefix_cache_hit_rate: 0.5}
          - {min_tokens: 0, max_tokens: 100, weight: 1, output_min_tokens: 10, output_max_tokens: 30}
        """,
    )
    bins = load_distribution(path, output_length=None)
    assert [(b.output_length, b.prefix_cache_hit_rate) for b in bins] == [(5, 0.5), (20, None)]


@pytest.mark.parametrize(
    "text, complaint",
    [
        (
            "bins: [{min_tokens: -1, max_tokens: 5, weight: 1}]",
            r"line 1: bins\[0\]\.min_tokens must be at least 0, not -1",
        ),
        ("bins: [{min_tokens: 5, max_tokens: 5, weight: 1}]", r"bins\[0\]: max_tokens \(5\) must be above min_tokens"),
        ("bins: [{min_tokens: 0, max_tokens: 5, weight: 0}]", r"bins\[0\]\.weight must be above 0, not 0"),
        (
            "bins: [{min_tokens: 0, max_tokens: 9, weight: 1}, {min_tokens: 5, max_tokens: 12, weight: 1}]",
            r"bins\[1\] begins at 5, inside bins\[0\] which ends at 9; bins must not overlap",
        ),
        ("bins: []", "bins must be a list of at least 1"),
        ("bins: [{min_tokens: 0, max_tokens: 5}]", r"bins\[0\]: weight missing"),
        ("bins: [{min_tokens: 0, max_tokens: 5, weight: .nan}]", "weight must be a finite number, not nan"),
        ("bins: [{min_tokens: 0, max_tokens: 5.5, weight: 1}]", "max_tokens must be a whole number"),
        ("bins: [{min_tokens: 0, max_tokens: 5, weight: 1, wieght: 2}]", "unknown key 'wieght'"),
        ("bins: [{min_tokens: 0, max_tokens: 5, weight: 1, prefix_cache_hit_rate: 1}]", r"must lie in \[0, 1\)"),
        ("", "the file must be a mapping of keys to values, not None"),
        ("bins: [", "not a YAML file"),
    ],
)
def test_s29_a_bad_file_is_one_sentence_with_file_bin_and_rule(tmp_path, text, complaint):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=complaint) as caught:
        load_distribution(path, output_length=10)
    assert caught.value.message.startswith(str(path))


def test_a_huge_file_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(10 * 2**30)  # sparse: takes no disk
    with pytest.raises(InputError, match="too large for a length distribution"):
        load_distribution(path, output_length=10)


def test_no_output_length_anywhere_says_where_to_give_it(tmp_path):
    path = write(tmp_path, "bins: [{min_tokens: 0, max_tokens: 5, weight: 1}]")
    with pytest.raises(InputError, match="no output length") as caught:
        load_distribution(path, output_length=None)
    assert "`output_length`" in caught.value.hint


def test_the_example_distribution_loads(tmp_path):
    bins = load_distribution(length_file(tmp_path), output_length=1500)
    assert bins[0].input_length == 250
    assert math.isclose(sum(b.weight for b in bins), 1)
