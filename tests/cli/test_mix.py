"""query mix from the command line: real workloads evaluated into a store, and what it prints against trying every choice."""

from __future__ import annotations

import json
from itertools import product

import pytest
from conftest_cli import sweepdb
from queries_stores import admits, judged, read_rows, reference

BLEND = {"chat": 0.6, "retrieval": 0.4}
SIZES = (1, 2, 4)
TTFT_LIMIT, TPOT_LIMIT = 6000, 80
LENGTHS = """
bins:
  - {min_tokens: 500, max_tokens: 1500, weight: 5}
  - {min_tokens: 1500, max_tokens: 7000, weight: 4}
  - {min_tokens: 7000, max_tokens: 13000, weight: 1}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of a fixed and a distributed workload, evaluated by the command for three sizes of instance."""
    folder = tmp_path_factory.mktemp("mix")
    address = f"sqlite:///{folder}/store.sqlite"
    (folder / "lengths.yaml").write_text(LENGTHS)
    run("workloads add chat --input-length 400 --output-length 300", address)
    run(f"workloads add retrieval --input-length {folder}/lengths.yaml --output-length 150", address)
    for size in SIZES:
        run(
            f"evaluate Qwen/Qwen3-8B --device TEST_DEVICE --num-devices {size} --workload chat,retrieval"
            " --mode aggregated --batch-range 48",
            address,
        )
    return address


def run(text, address):
    outcome = sweepdb(text, address)
    assert outcome.code == 0, outcome.err
    return outcome


def offers(url):
    """{workload: {configuration: (requests/s, devices, row)}}, each at its best batch size under the limits."""
    best = {name: {} for name in BLEND}
    for row in read_rows(url):
        if admits(row, TTFT_LIMIT, TPOT_LIMIT):
            configuration = (row["num_devices"], row["tp"], row["pp"], row["dp"])
            found = (judged(row)[0], row["num_devices"], row)
            before = best[row["workload"]].get(configuration)
            if before is None or found[0] > before[0]:
                best[row["workload"]][configuration] = found
    return best


def singles(best, budget):
    """(requests/s of the blend, configuration) of every configuration that serves both, the best first."""
    found = []
    for configuration in set.intersection(*map(set, best.values())):
        seconds = sum(weight / best[name][configuration][0] for name, weight in BLEND.items())
        found.append((budget // configuration[0] / seconds, configuration))
    return sorted(found, reverse=True)


def splits(best, budget):
    """The most requests/s of the blend over every pair of configurations and of instance counts."""
    found = []
    for (first, chat), (second, retrieval) in product(best["chat"].items(), best["retrieval"].items()):
        for instances in range(1, budget // first[0] + 1):
            others = (budget - instances * first[0]) // second[0]
            carried = min(instances * chat[0] / BLEND["chat"], others * retrieval[0] / BLEND["retrieval"])
            found.append((carried, first, second))
    return max(found)


@pytest.mark.parametrize("budget", [5, 12])
def test_the_printed_choices_are_those_that_trying_all_of_them_finds(url, budget):
    printed = run(
        f"query mix --mix chat=60 --mix retrieval=40 --num-devices {budget} --ttft-limit {TTFT_LIMIT}"
        f" --tpot-limit {TPOT_LIMIT} --format json",
        url,
    )
    rows = {(row["choice"], row["workload"]): row for row in json.loads(printed.out)}
    assert {key: row["weight"] for key, row in rows.items()} == {
        (choice, name): weight for choice in ("single", "split") for name, weight in BLEND.items()
    }
    best = offers(url)
    rate = singles(best, budget)[0][0]
    # Two replicas as one instance or as two carry the same: each of those that tie may be named.
    tied = [configuration for found, configuration in singles(best, budget) if found == pytest.approx(rate)]
    split = splits(best, budget)
    for name in BLEND:
        single, apart = rows["single", name], rows["split", name]
        assert single["system_requests_per_s"] == pytest.approx(rate)
        assert single["against_other"] == pytest.approx(rate / split[0])
        assert single["probe"] in {reference(best[name][configuration][2]) for configuration in tied}
        assert apart["system_requests_per_s"] == pytest.approx(split[0])
        assert apart["against_other"] == pytest.approx(split[0] / rate)
    assert sum(rows["split", name]["instances"] * rows["split", name]["instance_devices"] for name in BLEND) <= budget


def test_the_table_names_both_choices_and_what_they_cost(url):
    table = run("query mix --mix chat=0.6 --mix retrieval=0.4 --num-devices 12", url).out
    for word in ("single", "split", "chat", "retrieval"):
        assert word in table


def test_help_shows_how_a_blend_is_given():
    text = " ".join(sweepdb("query mix --help").out.split())
    assert "--mix" in text
    assert "WORKLOAD=WEIGHT" in text


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("--mix chat", "a workload and its weight are expected"),
        ("--mix chat=much --mix retrieval=1", "'much' is no weight"),
        ("--mix chat=-1 --mix retrieval=1", "a weight is a number above 0"),
        ("--mix chat=1 --mix retrival=1", "No workload 'retrival' in this store"),
        ("--mix chat=1", "two workloads or more"),
    ],
)
def test_a_blend_that_is_none_is_said_in_one_sentence(url, given, complaint):
    outcome = sweepdb(f"query mix {given} --num-devices 8", url)
    assert outcome.code == 2
    assert complaint in " ".join(outcome.err.split())
    assert outcome.out == ""
