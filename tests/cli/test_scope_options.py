"""The options that choose what a question is about, and what its header says of the rest."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb

ONE = "evaluate {} --device TEST_DEVICE --num-devices 2 --input-length 100 --output-length 10"
TINY = {  # a mixture of experts with one module that drafts
    "model_type": "glm4_moe", "hidden_size": 1024, "vocab_size": 32000, "max_position_embeddings": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64,
    "intermediate_size": 2048, "moe_intermediate_size": 512, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "hidden_act": "silu",
    "use_qk_norm": True, "attention_bias": False,
}  # fmt: skip
REQUESTS = ("", "--eager", "--serving-cost 5", "--num-mtp-tokens 1 --mtp-acceptance-rate 0.8")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of four requests that differ in one option each; the newest drafts tokens."""
    folder = tmp_path_factory.mktemp("scopes")
    address = f"sqlite:///{folder}/s.sqlite"
    (folder / "config.json").write_text(json.dumps(TINY))
    for options in REQUESTS:
        outcome = sweepdb(f"{ONE.format(folder)} --mode aggregated --batch-range 4 {options}", address)
        assert outcome.code == 0, outcome.err
    return address


def rows(text, url):
    outcome = sweepdb(f"query best --top 50 --format json {text}", url)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def drafted(found):
    return {(row["compile"], row["serving_cost_ms"], row["mtp_tokens"]) for row in found}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {(True, 0.0, 1)}),
        ("--eager", {(False, 0.0, 0)}),
        ("--serving-cost 5", {(True, 5.0, 0)}),
        ("--num-mtp-tokens 1", {(True, 0.0, 1)}),
        ("--num-mtp-tokens 0 --compile --serving-cost 0", {(True, 0.0, 0)}),
        ("--all", {(True, 0.0, 0), (False, 0.0, 0), (True, 5.0, 0), (True, 0.0, 1)}),
    ],
)
def test_each_option_selects_its_request(url, options, expected):
    assert drafted(rows(options, url)) == expected


def test_the_header_names_filters_that_select_what_is_left_out(url):
    said = sweepdb("query best", url).out.splitlines()[1]
    assert said.startswith("3 other subjects in this store: --all, or ")
    before = drafted(rows("", url))
    for option in said.partition("--all, or ")[2].split(", "):
        found = drafted(rows(option, url))
        assert found
        assert not found <= before
    assert "other subjects" not in sweepdb("query best --all", url).out
    full = json.loads(sweepdb("query best --format json-full", url).out)
    assert full["left_out"] == said
    assert full["definitions"]["tpot"] == "inclusive"


def test_every_group_has_a_title_of_its_own(url):
    groups = json.loads(sweepdb("query best --all --format json-full", url).out)["question"]["groups"]
    assert len(set(groups)) == 4
    assert [sum(part in group for group in groups) for part in (" · eager", " · serving cost 5 ms", "mtp 1")] == [
        1,
        1,
        1,
    ]


def test_sweeps_are_listed_with_their_kind(url):
    listed = json.loads(sweepdb("sweeps --format json", url).out)
    assert [row["kind"] for row in listed] == ["request"] * 4


def test_a_budget_is_taken_where_it_was_refused(url):
    found = rows("--num-devices 6 --num-mtp-tokens 0 --compile --serving-cost 0", url)
    assert {row["instances"] for row in found} == {3}  # three copies of instances of two devices
    beyond = sweepdb("query best --num-devices 1", url)
    assert beyond.code == 2
    assert "num_devices 1" in beyond.err
