"""Images against servers of known image sizes: one user's first token by number of images, and loops of 16 users.

Restated from the records of github.com/yhyang201/sgl-bench of 2026-04-05: Qwen3-VL-8B-Instruct in BF16 on one H200 under
SGLang 0.5.10, random JPEG images, text of 256 tokens (512 in the loops). Not in the ledger: its readers know no images."""

from __future__ import annotations

import functools
from statistics import median

import numpy as np
import pytest

from evaluator.evaluate import capture_requests, evaluate_scenario
from evaluator.graph.capture import capture_operators
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.images import ImageRequest
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.workload import Workload, with_images
from evaluator.scenario import Scenario

# ms to the first token of a request alone, by images; pixels go from the tokenizer to the server in device memory.
ALONE = {
    (1280, 720): {1: 63, 8: 374, 16: 783, 32: 1771},
    (1920, 1080): {1: 120, 8: 1013, 16: 2354, 28: 4782},
}
# The same on 2026-03-27 with pixels sent through the host.
THROUGH_HOST = {(1920, 1080): {4: 1313, 8: 2995, 16: 7655, 28: 17227}}
# 16 users, one image and an answer of 64 tokens each: mean TTFT and end to end in ms, requests/s.
LOOPS = {(640, 360): (475, 963, 16.5), (1280, 720): (822, 1446, 10.9), (1920, 1080): (1864, 2821, 5.58)}
MODEL = load_model("Qwen/Qwen3-VL-8B-Instruct")[1]


@functools.cache
def operators(request):
    return capture_operators(request)


def served(size, images, *, text, output, users, budget=8192):
    """The probe of so many users who send so many images of a size."""
    asked = Workload(input_length=text, output_length=float(output), max_batched_tokens=budget)
    scenario = Scenario(
        model=MODEL, device=load_device("h200_sxm"), precision=Precision(linear="BF16"), plan=Plan(),
        workload=with_images(asked, ImageRequest(count=images, width=size[0], height=size[1]), MODEL),
        phase="aggregated", serving_model="sglang",
    )  # fmt: skip
    sets = {trace: operators(request) for trace, request in capture_requests(scenario).items()}
    return evaluate_scenario(scenario, np.asarray([users]), sets)


def first_tokens(measured):
    """Predicted over measured, less one, by size and number of images."""
    return {
        (size, images): float(served(size, images, text=256, output=32, users=1).ttft_ms[0]) / ms - 1
        for size, points in measured.items()
        for images, ms in points.items()
    }


def test_first_tokens_of_many_images_are_predicted_and_of_few_are_late():
    errors = first_tokens(ALONE)
    print({key: f"{error:+.0%}" for key, error in errors.items()})
    many = [error for (_, images), error in errors.items() if images >= 8]
    assert max(map(abs, many)) < 0.35
    assert median(map(abs, many)) < 0.22
    # What the engine takes for a request and to launch a prompt, 129 ms, is more than this server needs for all of it.
    few = [error for (_, images), error in errors.items() if images == 1]
    assert min(few) > 0.4


def test_pixels_that_go_through_the_host_are_left_out():
    errors = first_tokens(THROUGH_HOST)
    print({key: f"{error:+.0%}" for key, error in errors.items()})
    assert all(-0.80 < error < -0.50 for error in errors.values())


@pytest.mark.parametrize("size", LOOPS)
def test_loops_of_users_with_an_image_each(size):
    ttft, e2e, rate = LOOPS[size]
    found = served(size, 1, text=512, output=64, users=16, budget=16384)
    errors = [float(found.ttft_ms[0]) / ttft - 1, float(found.e2e_ms[0]) / e2e - 1]
    errors.append(16e3 / float(found.e2e_ms[0]) / rate - 1)
    print(size, [f"{error:+.0%}" for error in errors])
    assert -0.60 < errors[0] < -0.15
    assert abs(errors[1]) < 0.30
    assert abs(errors[2]) < 0.45
