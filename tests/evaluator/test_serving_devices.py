"""Devices that are fitted to serving points: which points count, what is written, and what is said of them."""

from dataclasses import replace

import pytest
from shared_data import shared_data

from evaluator.inputs import kernels_of, load_device
from evaluator.ledger import read_measurements
from queries.errors.expected import Subject
from queries.errors.spreads import basis_of, kernels_lack
from sweepdb.measuring.validating import SHORT_RUN, compare
from tools.serving_devices import MADE_LIKE, _growing, _once, fitted, points_of, with_fitted, written

SUBJECT = Subject(
    device="mi300x", kind="dense", phase="decode", family="theoretical", convention="physical", serving_model="vllm"
)


@pytest.fixture(scope="module")
def records():
    return read_measurements(shared_data("fresh") / "closed.csv").records


def test_a_ladder_ends_where_more_users_get_no_more_tokens(records):
    # Four MI300X, prompts of 32,784: 51.80, 62.43, 62.55 ... tokens/s; 62.55 is less than 1.05 x 62.43.
    ladder = [
        one
        for one in records
        if one.device == "mi300x" and one.num_devices == 4 and one.input_length == 32784 and one.engine == "vllm"
    ]
    assert len(ladder) == 5
    assert [one.concurrency for one in _growing(ladder)] == [4.0, 8.0]


def test_one_measurement_under_two_models_counts_once(records):
    """A page shows the values of Qwen3-8B under MindIE as those of Qwen3-30B-A3B on two devices, too."""
    some = [one for one in records if one.device == "ascend_910b" and one.engine == "MindIE"]
    assert (len(some), len(_once(some))) == (10, 5)
    assert all(one.num_devices == 1 for one in _once(some))


def test_each_source_counts(records):
    points = points_of("mi300x", shared_data("fresh"))
    assert {point.source for point in points} == {"SGLang cookbook", "dstack benchmarks", "mlperf"}


def test_a_profile_gets_four_numbers_and_whose_they_are():
    text = "name: a\ncompute_efficiency: 0.7\nmemory_efficiency: 0.8\nmatrix_static_s: 3.00e-06\n"
    text += "vector_static_s: 3.00e-06\ncommunication_static_s: 3.00e-06\n"
    once = written(text, (0.5, 0.65, 4e-6, 2.5e-5), "b")
    assert once == (
        "name: a\nfitted_from: b\ncompute_efficiency: 0.5\nmemory_efficiency: 0.65\nmatrix_static_s: 4.00e-06\n"
        "vector_static_s: 4.00e-06\ncommunication_static_s: 2.50e-05\n"
    )
    assert written(once, (0.5, 0.65, 4e-6, 2.5e-5), "b") == once


def test_devices_say_what_they_are_fitted_to():
    assert kernels_of(load_device("mi300x")) == "fitted to serving points"
    assert kernels_of(load_device("mi355x")) == "carried from mi300x"
    assert kernels_of(load_device("ascend_910b")) == "fitted to serving points"
    assert kernels_of(load_device("ascend_910c")) == "data sheet"
    assert basis_of(SUBJECT) == "fitted to serving points"
    assert basis_of(replace(SUBJECT, device="mi325x")) == "carried from mi300x"
    assert basis_of(replace(SUBJECT, device="gaudi3")) == "data sheet"
    assert basis_of(replace(SUBJECT, device_key="0" * 64)) == "data sheet"  # a profile that somebody changed


def test_devices_of_one_maker_share_what_is_fitted():
    for device, others in MADE_LIKE.items():
        whole = load_device(device)
        shares = (
            whole.compute_efficiency,
            whole.memory_efficiency,
            whole.matrix_static_s,
            whole.communication_static_s,
        )
        for name in others:
            other = load_device(name)
            assert with_fitted(other, shares, device) == other


@pytest.mark.survival
@pytest.mark.parametrize("device", sorted(MADE_LIKE))
def test_the_command_yields_the_shipped_numbers(device):
    folder, shipped = shared_data("fresh"), load_device(device)
    assert fitted(points_of(device, folder), device, folder) == pytest.approx((
        shipped.compute_efficiency, shipped.memory_efficiency, shipped.matrix_static_s, shipped.communication_static_s,
    ))  # fmt: skip


def test_a_sentence_says_why_kernels_are_not_measured():
    assert kernels_lack("fitted to serving points").startswith("its numbers are fitted")
    assert kernels_lack("carried from mi300x").startswith("its numbers are those of mi300x")
    assert kernels_lack("data sheet").startswith("its numbers follow from its data sheet")
    assert kernels_lack("carried from b200_sxm") == kernels_lack("measured") == ""


def test_points_of_short_runs_are_kept_and_said(records):
    """99 requests hold what a server does once, 100 hardly; a file that says no number says nothing of it."""
    one = next(record for record in records if record.device == "h100_sxm" and record.engine_version == "0.6.3.post2")
    runs = [
        replace(one, key=f"{n}", concurrency=4.0 + n / 100, run=replace(one.run, completed_requests=n or None))
        for n in (0, 99, 100)
    ]
    said = {exclusion.rule: exclusion.rows for exclusion in compare(runs).excluded if exclusion.repaired}
    assert said == {SHORT_RUN: 1}
