"""`decide` for a request rate where loads were simulated: an instance carries no more than these keep within the limits."""

import math

import sweepdb
from queries.asking import question_of
from sweepdb.deciding import sentences
from sweepdb.sessions import open_session

ASKED = {"device": "h100_sxm", "num_devices": 1, "input_length": 1024, "output_length": 128}
LIMITS = {"ttft_limit": 200, "tpot_limit": 5}


def test_a_rate_is_carried_as_simulated(tmp_path):
    store = f"sqlite:///{tmp_path}/s.sqlite"
    sweepdb.evaluate("Qwen/Qwen3-0.6B", store=store, arrivals="poisson", requests=500, **ASKED)
    with open_session(store) as session:
        question = question_of("best", {"by": "goodput", "mode": "aggregated", **LIMITS})
        goodput = session.ask(question).dicts()[0]["goodput"]
    with sweepdb.open(store) as opened:
        found = opened.decide(**LIMITS, target_rate=4.2 * goodput, num_devices=64)
    assert found.simulated
    assert "simulated loads" in " ".join(sentences(found))
    assert found.answer.instances == math.ceil(4.2)  # each carries the rate at which 95 % keep the limits
    assert found.answer.requests_per_s <= found.answer.instances * goodput * (1 + 1e-9)
