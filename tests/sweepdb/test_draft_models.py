"""Whole models that draft for others: what a pass costs, what they hold, how they are served, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml
from evaluator_cases import QWEN3_32B, TEST_DEVICE, captured

import sweepdb
from evaluator.evaluate import batch_source, capture_requests, evaluate_scenario, unsupported
from evaluator.graph import capture_operators
from evaluator.identity import RecordBuilder
from evaluator.inputs import Plan, Precision, load_model, speculation, with_draft, workload_of
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.plan_search import illegality
from evaluator.pricing.memory import kv_bytes, transfer_bytes
from evaluator.pricing.step import step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario
from store.errors import InputError
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment

RATES = (0.8, 0.6, 0.5)
NAME = "Qwen/Qwen3-1.7B:3"
DRAFT = load_model("Qwen/Qwen3-1.7B")[1]


def drafted():
    return with_draft("Qwen/Qwen3-32B", QWEN3_32B, speculation(NAME, RATES))


def scenario(model, phase="decode", **changes):
    drafts = model.draft_model is not None
    workload = workload_of(
        input_length=1000,
        output_length=100,
        mtp_tokens=3 if drafts else 0,
        mtp_acceptance=RATES if drafts else None,
    )
    said = {"precision": Precision(drafts="BF16" if drafts else None), "plan": Plan(tp=4), "workload": workload}
    return Scenario(**{"model": model, "device": TEST_DEVICE, "phase": phase, **said, **changes})


def evaluated(one, sizes=(4,)):
    sets = {trace: capture_operators(request) for trace, request in capture_requests(one).items()}
    return evaluate_scenario(one, np.asarray(sizes), sets)


@pytest.mark.parametrize("trace", ["prefill", "decode"])
@pytest.mark.parametrize("tp", [1, 8])
def test_a_pass_is_a_step_of_the_model_that_drafts(trace, tp):
    name, spec = drafted()
    assert name == "Qwen/Qwen3-32B+Qwen/Qwen3-1.7B"
    own = [replace(one, label=f"draft.{one.label}") for one in captured(DRAFT, Plan(tp=tp), trace).operators]
    assert list(captured(spec, Plan(tp=tp), trace).draft_operators) == own


def test_it_holds_its_published_weights():
    _, spec = drafted()
    held = sum(one.count * one.weight_bytes for one in captured(spec, Plan(), "decode").draft_operators)
    assert held == 2 * parameter_count(DRAFT).total == 3_441_149_952


def test_of_a_pipeline_the_last_stage_drafts():
    _, spec = drafted()
    found = captured(spec, Plan(tp=2, pp=4), "decode").draft_operators
    assert {one.counts[:3] for one in found} == {(0, 0, 0)}
    assert {one.counts[3] for one in found if one.label.startswith("draft.layers")} == {28}


@pytest.mark.parametrize("tp", [1, 4, 16])
def test_both_caches_are_kept(tp):
    _, spec = drafted()
    sizes = (np.asarray([1024.0]), np.asarray([3.0]))
    both, one, other = (
        float(kv_bytes(model, Plan(tp=tp), 16, *sizes, paging="per_request", drafting=drafting)[0])
        for model, drafting in ((spec, True), (QWEN3_32B, False), (DRAFT, False))
    )
    assert both == one + other
    # 28 layers of 8 heads of 128, keys and values of two bytes; tp 16 has a copy of each head on two devices
    assert other == 3 * 1024 * 28 * 2 * 128 * 2 * max(8 // tp, 1)
    assert transfer_bytes(spec, 16, 1000.0) == transfer_bytes(QWEN3_32B, 16, 1000.0) + transfer_bytes(DRAFT, 16, 1000.0)


def test_a_step_is_one_over_all_tokens_and_two_over_one_each():
    _, spec = drafted()
    block = evaluated(scenario(spec))
    plan, cost, source = Plan(tp=4), TheoreticalCost(device=TEST_DEVICE), batch_source(scenario(spec))

    def seconds(model, tokens):
        sums = source.decodes(np.asarray([4.0]), tokens)
        return float(step_seconds(captured(model, plan, "decode"), cost, sums).total[0])

    by_hand = seconds(QWEN3_32B, 4) + seconds(DRAFT, 4) + 2 * seconds(DRAFT, 1)
    assert block.decode_step_ms[0] == pytest.approx(1e3 * by_hand, rel=1e-12)
    assert block.tokens_per_step[0] == pytest.approx(2.9)  # 1 + 0.8 + 0.6 + 0.5


def test_weights_and_caches_of_both_are_in_memory():
    _, spec = drafted()
    alone, both, draft = (evaluated(scenario(model)) for model in (QWEN3_32B, spec, DRAFT))
    assert both.weight_bytes[0] == alone.weight_bytes[0] + draft.weight_bytes[0]
    assert both.kv_cache_bytes[0] == alone.kv_cache_bytes[0] + draft.kv_cache_bytes[0]


@pytest.mark.parametrize("phase", ["prefill", "aggregated"])
@pytest.mark.parametrize("serving_model", ["waves", "vllm", "sglang"])
def test_prompts_pass_through_it_under_every_serving_model(phase, serving_model):
    _, spec = drafted()
    alone, both = (
        evaluated(scenario(model, phase, serving_model=serving_model), (1, 4)) for model in (QWEN3_32B, spec)
    )
    assert (both.ttft_ms > alone.ttft_ms).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 1024},
        {"vocab_size": 1000},
        {"tie_word_embeddings": False},
        {"layers": (replace(DRAFT.layers[0], count=29),)},
        {"layers": (replace(DRAFT.layers[0], window=512),)},
        {"layers": (replace(DRAFT.layers[0], attention=replace(DRAFT.layers[0].attention, kv_heads=4)),)},
    ],
)
def test_its_shape_is_in_the_key(changes):
    _, spec = drafted()
    other = replace(spec, draft_model=replace(spec.draft_model, **changes))

    def key(model):
        return RecordBuilder().scenario("some/name", scenario(model)).key

    assert key(other) != key(spec)
    numbers, before = evaluated(scenario(other)), evaluated(scenario(spec))
    assert (numbers.decode_step_ms[0], numbers.weight_bytes) != (before.decode_step_ms[0], before.weight_bytes)


def test_names_and_formats_that_it_is_published_in_are_in_no_key():
    _, spec = drafted()
    renamed = replace(spec, draft_model=replace(spec.draft_model, architecture="other", native_linear="FP8"))
    keys = {RecordBuilder().scenario("some/name", scenario(model)).key for model in (spec, renamed)}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("text", "rates", "message"),
    [
        (NAME, None, "3 drafts of Qwen/Qwen3-1.7B gain is in no table"),
        (NAME, (0.8,), "3 numbers from 0 to 1, not 0.8"),
        (NAME, (0.8, 0.6, 1.5), "not 0.8, 0.6, 1.5"),
        ("Qwen/Qwen3-1.7B:0", RATES, "1 to 9 drafts"),
        ("qwen3-1.7:3", RATES, "unknown drafts"),
        ("dsv4-pro-mtp:3", RATES, "brings its own rates"),
        ("no/such-model:3", RATES, "unknown model"),
    ],
)
def test_what_it_gains_is_stated(text, rates, message):
    with pytest.raises(InputError, match=message):
        speculation(text, rates)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "Qwen/Qwen3.5-27B", "deepseek-ai/DeepSeek-V4-Flash"])
def test_other_layers_than_attention_and_dense_mlps_do_not_draft(name):
    with pytest.raises(InputError, match=f"{name} cannot draft for Qwen/Qwen3-32B"):
        with_draft("Qwen/Qwen3-32B", QWEN3_32B, speculation(f"{name}:3", RATES))


def test_its_heads_divide_over_the_same_ranks():
    _, spec = drafted()
    attention = replace(DRAFT.layers[0].attention, query_heads=14, kv_heads=2)
    odd = replace(DRAFT, layers=(replace(DRAFT.layers[0], attention=attention),))
    plan = Plan(tp=4)
    assert illegality(replace(spec, draft_model=odd), plan, 4) == (
        "tp 4 does not divide the 14 query heads of the model that drafts"
    )
    assert illegality(spec, plan, 4) is None


def test_upstream_has_no_such_drafts():
    _, spec = drafted()
    assert unsupported(scenario(spec, convention="upstream")) is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"draft_model": "Qwen/Qwen3-1.7B"}, "give acceptance"),
        ({"tokens_per_step": [1.8], "method": "draft_model"}, "wants draft_model"),
        ({"tokens_per_step": [1.8], "method": "mtp", "draft_model": "Qwen/Qwen3-1.7B"}, "a method of its own"),
        ({"tokens_per_step": [1.8], "draft_model": "no/such-model"}, "unknown model"),
    ],
)
def test_a_file_names_it_or_says_what_is_wrong(content, message, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=message):
        speculation(f"{path}:1")


def test_a_file_says_what_it_gains(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"tokens_per_step": [1.8, 2.4, 2.9], "draft_model": "Qwen/Qwen3-1.7B"}))
    assert with_draft("Qwen/Qwen3-32B", QWEN3_32B, speculation(f"{path}:3")) == drafted()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of one row of an FP8 model that a smaller one in 16 bits drafts for, and the row's reference."""
    url = f"sqlite:///{tmp_path_factory.mktemp('drafted')}/store.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-32B", device="h100_sxm", num_devices=2, tp_sizes=2, batch_range=(4, 4), mode="aggregated",
        input_length=1000, output_length=100, quantization="FP8", speculative=NAME,
        mtp_acceptance_rate=RATES, store=url,
    )  # fmt: skip
    with sweepdb.open(url) as store:
        (row,) = store.sql("SELECT probe, model, tokens_per_step FROM probe").dicts()
    assert row["model"] == "Qwen/Qwen3-32B+Qwen/Qwen3-1.7B"
    assert row["tokens_per_step"] == pytest.approx(2.9)
    return url, row["probe"]


def test_its_weights_stay_in_the_format_that_they_are_published_in(stored):
    with sweepdb.open(stored[0]) as store:
        ((linear, drafts),) = store.sql("SELECT linear_quantization, drafts_quantization FROM probe").rows
    assert (linear, drafts) == ("FP8", "BF16")


def test_a_step_says_what_of_it_drafts(stored):
    with sweepdb.open(stored[0]) as store:
        (step,) = [one for one in store.explain(stored[1]).steps if one.step == "decode"]
    drafts = [one.count for one in step.operators if one.label == "draft.layers.mlp.down_proj"]
    assert drafts == [3 * 28]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (
            "vllm",
            '--speculative-config \'{"method": "draft_model", "model": "Qwen/Qwen3-1.7B", "num_speculative_tokens": 3}\'',
        ),
        (
            "sglang",
            (
                "--speculative-algorithm STANDALONE --speculative-draft-model-path Qwen/Qwen3-1.7B"
                " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
            ),
        ),
        (
            "trtllm",
            "speculative_config: decoding_type: Draft_Target max_draft_len: 3 speculative_model: Qwen/Qwen3-1.7B",
        ),
    ],
)
def test_it_is_launched_and_read_back(engine, words, stored, tmp_path):
    url, probe = stored
    write_launch(probe, tmp_path / "out", engine=engine, store=url)
    texts = [path.read_text().replace("\\\n", " ") for path in sorted((tmp_path / "out").iterdir())]
    assert words in " ".join(" ".join(texts).split())
    (server,) = read_deployment(tmp_path / "out").servers
    assert server.options()["speculative"] == NAME
    assert not [one for one in server.not_mapped if "specul" in one]


def test_a_file_that_drafts_so_asks_for_the_rates(stored, tmp_path):
    url, probe = stored
    write_launch(probe, tmp_path / "out", store=url)
    asked = {"from_deployment": str(tmp_path / "out"), "device": "h100_sxm", "input_length": 1000, "output_length": 100}
    with pytest.raises(InputError, match="`mtp_acceptance_rate` states it"):
        sweepdb.evaluate(store=url, **asked)
    done = sweepdb.evaluate(store=url, mtp_acceptance_rate=RATES, **asked)
    assert (done.failures, done.probes_known) == ((), 1)  # the row that the files were written from


def test_vllm_takes_a_model_without_a_method_for_one_that_drafts(tmp_path):
    def drafting(config):
        (tmp_path / "a.sh").write_text(f"vllm serve Qwen/Qwen3-32B --speculative-config '{config}'\n")
        (server,) = read_deployment(tmp_path / "a.sh").servers
        return server.draft_model

    assert drafting('{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 2}') == "Qwen/Qwen3-0.6B"
    assert drafting('{"model": "some/EAGLE3-Qwen3-32B", "num_speculative_tokens": 2}') is None


def test_sglang_has_none_beside_attention_replicas(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-30B-A3B", device="h100_sxm", num_devices=2, tp_sizes=1, dp_sizes=2, ep_sizes=2, batch_range=(4, 4),
        mode="aggregated", input_length=1000, output_length=100, speculative="Qwen/Qwen3-0.6B:2",
        mtp_acceptance_rate=(0.7, 0.5), serving_model="sglang", store=url,
    )  # fmt: skip
    with sweepdb.open(url) as store:
        ((probe,),) = store.sql("SELECT probe FROM probe").rows
    with pytest.raises(InputError, match="no whole model beside attention replicas"):
        write_launch(probe, tmp_path / "out", engine="sglang", store=url)
