"""Points of one's own server correct predictions near them, and nothing elsewhere; profiles without any stay as they were."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml

from evaluator.canonical import canonical
from evaluator.inputs.engines.engine_numbers import MOST_NEAR
from evaluator.inputs.engines.engine_profiles import (
    Nearby,
    as_yaml,
    described,
    engine_from_file,
    fitted_engine,
    key_of_engine,
    unfitted_engine,
)
from evaluator.ledger.fitting.near_fit import near_fit
from evaluator.restore import restored
from evaluator.serving.engine.closed_loop import ClosedLoop
from evaluator.serving.engine.closed_run import ServedTimes, alike, factors_near
from evaluator.serving.engine.step_tables import StepTable
from store.errors import InputError

HERE = Nearby(users=8.0, input_length=1024.0, output_length=256.0, devices=2.0)
TABLE = StepTable(
    spacing=1024,
    linear=np.asarray([0.0, 0.010, 0.020]),
    input_length=1024,
    attention=np.asarray([0.0, 0.002]),
    decode_linear=np.full(20, 0.006),
    decode_own=np.full(20, 0.001),
)


def test_a_point_counts_by_doublings():
    far = [
        HERE,
        replace(HERE, users=32.0),  # 2 doublings: exp(-1/2)
        replace(HERE, users=32.0, devices=8.0),  # twice 2: exp(-1)
        replace(HERE, input_length=2048.0),  # 1: exp(-1/8)
        replace(HERE, output_length=256.0 * 2**10),  # 10: exp(-25/2)
    ]
    assert alike(far, HERE).tolist() == pytest.approx([1.0, 0.606531, 0.367879, 0.882497, 3.7267e-6], rel=1e-4)


def test_nothing_near_changes_nothing():
    assert factors_near((), HERE) == (1.0, 1.0)
    weighed = replace(HERE, ttft=0.5, tpot=-0.2)
    assert factors_near((weighed,), HERE) == pytest.approx((math.exp(0.5), math.exp(-0.2)))
    assert factors_near((weighed,), replace(HERE, users=8.0 * 2**20)) == pytest.approx((1.0, 1.0), abs=1e-9)


def test_a_point_alone_takes_part_of_its_error_out_and_many_all_of_it():
    # 0.15^2 / (0.15^2 + 0.1^2) = 0.692 of 10 % too much and 5 % too little
    ((one,), _) = near_fit([HERE], np.asarray([[0.10, -0.05]]))
    assert (one.ttft, one.tpot) == pytest.approx((-0.0692, 0.0346), abs=1e-4)
    many, converged = near_fit([HERE] * 40, np.asarray([[0.10, -0.05]] * 40))
    assert converged
    assert np.log(factors_near(many, HERE)).tolist() == pytest.approx([-0.10, 0.05], abs=0.002)


def test_a_point_that_stands_out_counts_less():
    errors = np.asarray([[0.05, 0.0]] * 8 + [[3.0, 0.0]])
    ttft, _ = factors_near(near_fit([HERE] * 9, errors)[0], HERE)
    assert -0.12 < math.log(ttft) < -0.03  # their mean is 0.38
    assert near_fit([], np.zeros((0, 2))) == ((), True)


def test_of_many_points_so_many_are_kept():
    places = [replace(HERE, users=float(users)) for users in range(1, 3 * MOST_NEAR)]
    kept, _ = near_fit(places, np.zeros((len(places), 2)))
    assert len(kept) == MOST_NEAR
    assert kept[0].users == 1.0
    assert kept[-1].users > 2.9 * MOST_NEAR


def test_a_loop_is_corrected_where_points_are_near():
    engine = unfitted_engine("vllm")
    loop = ClosedLoop(users=1, output_length=256)
    plain = ServedTimes(kernels=TABLE, layers=32, latent_layers=0, engine=engine, loop=loop, devices=2)
    assert plain.place(8) == HERE
    mine = replace(plain, engine=replace(engine, near=(replace(HERE, ttft=0.3, tpot=-0.1),)))
    before, after = plain.closed(8), mine.closed(8)
    assert after.ttft_s == pytest.approx(math.exp(0.3) * before.ttft_s)
    assert after.tpot_exclusive_s == pytest.approx(math.exp(-0.1) * before.tpot_exclusive_s)
    # All of a request is the sum of its parts, so that throughput follows.
    assert after.e2e_s(256) == pytest.approx(after.ttft_s + 255 * math.exp(-0.1) * before.token_s)
    assert after.makespan_s == before.makespan_s


def test_points_are_part_of_the_profile_and_others_keep_their_keys(tmp_path):
    plain = unfitted_engine("vllm")
    mine = replace(plain, near=(replace(HERE, ttft=0.3, tpot=-0.1), replace(HERE, users=16.0)))
    assert key_of_engine(mine) != key_of_engine(plain)
    assert "near" not in canonical(plain)
    assert restored(canonical(mine)) == mine
    assert "corrected near 2 measured points" in described(mine)
    assert "corrected" not in described(plain)
    file = tmp_path / "mine.yaml"
    file.write_text(as_yaml(replace(fitted_engine("vllm"), profile=mine, held_out={})))
    assert engine_from_file(file).profile.near == mine.near


@pytest.mark.parametrize(
    "content",
    [
        "eight",
        [{"users": 8}],
        [8],
        [{"users": 0, "input_length": 1, "output_length": 1, "devices": 1, "ttft": 0, "tpot": 0}],
        [{"users": 8, "input_length": 1, "output_length": 1, "devices": 1, "ttft": True, "tpot": 0}],
        [{"users": 8, "input_length": 1, "output_length": 1, "devices": 1, "ttft": float("nan"), "tpot": 0}],
        [{}] * (MOST_NEAR + 1),
    ],
)
def test_points_of_a_file_are_checked(content, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"name": "mine", "admission": "mixed", "profile": {}, "near": content}))
    with pytest.raises(InputError, match="near"):
        engine_from_file(file)
