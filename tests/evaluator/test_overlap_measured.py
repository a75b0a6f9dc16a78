"""Two micro-batches against measured points of wide expert parallelism: servers on one NVLink domain run without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shared_data import shared_data

from evaluator.ledger import Unmatched, asked_of, deployment_of, evaluated, predicted, read_measurements

pytestmark = pytest.mark.survival


@pytest.fixture(scope="module")
def wide():
    """Deployments of 32 expert ranks on GB300 under SGLang, with the TPOT that was measured."""
    found = []
    for record in read_measurements(shared_data("e2e", "serving.csv")).records:
        try:
            deployment = deployment_of(record)
        except Unmatched:
            continue
        measured = record.metrics.get("tpot_exclusive_ms_mean")
        place = (deployment.device.name, deployment.engine, deployment.plan.ep)
        if measured and place == ("gb300", "sglang", 32):
            found.append((deployment, measured))
    return found


def errors(wide, micro_batches):
    """Signed relative errors of TPOT, each point evaluated as known."""
    asked = []
    for deployment, measured in wide:
        chosen = replace(deployment, plan=replace(deployment.plan, micro_batches=micro_batches))
        asked.append((chosen, measured, asked_of(chosen, "known")))
    probes = evaluated([one for _, _, one in asked])
    return np.asarray(
        [predicted(chosen, "known", one, probes)["tpot_exclusive_ms"] / measured - 1 for chosen, measured, one in asked]
    )


def test_one_batch_is_what_was_measured_and_two_would_take_longer(wide):
    assert len(wide) == 13
    whole, halved = errors(wide, 1), errors(wide, 2)
    print(f"TPOT off by {np.median(whole):+.1%} as one batch and {np.median(halved):+.1%} as two")
    assert abs(np.median(whole)) < 0.05
    assert np.median(halved) > np.median(whole) + 0.1  # weights of every expert are read twice, and little is sent
