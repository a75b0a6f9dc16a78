"""Drafts as measured: named tables, files of a user's own, and EAGLE-3 drafts as a layer beside the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml
from evaluator_cases import QWEN3_32B, TEST_DEVICE, captured
from hypothesis import given
from hypothesis import strategies as st
from shared_data import ROOT

import sweepdb
from evaluator.evaluate import capture_requests, evaluate_scenario
from evaluator.graph import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs import (
    Plan,
    Precision,
    load_device,
    load_model,
    measured_for,
    speculation,
    with_draft,
    workload_of,
)
from evaluator.inputs.drafts.speculation import AcceptanceTable, Speculation, list_acceptance
from evaluator.pricing.memory import kv_bytes
from evaluator.scenario import Scenario
from evaluator.serving.waves.wave_latencies import tokens_per_step
from store.errors import InputError
from sweepdb.launching import write_launch

SHAPE = {"query_heads": 64, "kv_heads": 8, "head_dim": 128, "intermediate_size": 25600, "vocab_size": 32000}
SIZES = {
    "device": "TEST_DEVICE",
    "num_devices": 16,
    "input_length": 1000,
    "output_length": 100,
    "tp_sizes": 16,
    "ep_sizes": 16,
}


@given(name=st.sampled_from(list_acceptance()), drafts=st.integers(1, 8))
def test_a_step_gains_what_was_measured(name, drafts):
    asked = speculation(f"{name}:{drafts}")
    assert len(asked.rates) == drafts
    assert all(0 <= rate <= 1 for rate in asked.rates)
    assert tokens_per_step(drafts, asked.rates) == pytest.approx(asked.table.tokens_per_step[drafts - 1])


def test_more_drafts_that_gain_less_take_the_others_down():
    table = AcceptanceTable(name="x", method="mtp", tokens_per_step=(1.84, 2.51, 3.73, 3.47))
    assert Speculation(table=table, drafts=4).rates == (0.84, 0.67, 0.96, 0.0)


@pytest.mark.skipif(not ROOT.is_dir(), reason="comparison data not found")
def test_tables_are_the_published_lengths():
    published = {}
    for path in sorted((ROOT / "deployments" / "inferencex" / "acceptance").glob("*.yaml")):
        for kinds in yaml.safe_load(path.read_text()).values():
            for lengths in kinds.values():
                published.setdefault(tuple(map(float, lengths.values())), path.name)
    ours = {tuple(map(float, speculation(f"{name}:1").table.tokens_per_step)) for name in list_acceptance()}
    assert ours == published.keys()
    assert len(list_acceptance()) == len(ours) == 14


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dsv4-pro-mtp", "not NAME:k"),
        ("dsv4-pro-mtp:9", "known for 1 to 8 drafts"),
        ("dsv4-pro:3", "unknown drafts 'dsv4-pro'"),
        ("nothing.yaml:3", "cannot be read"),
    ],
)
def test_what_names_no_table_is_one_sentence(text, message):
    with pytest.raises(InputError, match=message):
        speculation(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "must be a mapping of keys to values"),
        ("{tokens_per_step: [1.5], colour: red}", "line 1: unknown key 'colour'"),
        ("{}", "give acceptance"),
        ("{acceptance: glm5.2-mtp, tokens_per_step: [1.5]}", "give acceptance"),
        ("{tokens_per_step: [2.5]}", "each from 1 to 1"),
        (
            "{tokens_per_step: [1.5], method: guess}",
            "line 1: method must be one of mtp, eagle3, dspark, draft_model, not 'guess'",
        ),
        ("{tokens_per_step: [1.5], method: eagle3}", "has a shape"),
        (
            "{tokens_per_step: [1.5], method: eagle3, draft: {query_heads: 1}}",
            "draft: kv_heads, head_dim, intermediate_size, vocab_size missing",
        ),
        (
            f"{{tokens_per_step: [1.5], method: eagle3, draft: { ({**SHAPE, 'kv_heads': 7}) }}}",
            r"draft: kv_heads \(7\) do not divide",
        ),
        (
            f"{{tokens_per_step: [1.5], method: eagle3, draft: { ({**SHAPE, 'head_dim': 0}) }}}",
            r"draft\.head_dim must be a whole number",
        ),
    ],
)
def test_a_file_of_drafts_says_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        speculation(f"{path}:1")


@pytest.mark.parametrize(
    ("model", "name", "message"),
    [
        ("zai-org/GLM-5.2", "dsv4-pro-mtp", "measured with deepseek-ai/DeepSeek-V4-Pro"),
        ("deepseek-ai/DeepSeek-V4-Pro", "dsv4-pro-0813-dspark", "what drafts its blocks in one pass"),
    ],
)
def test_drafts_that_a_model_cannot_have_are_refused(model, name, message):
    with pytest.raises(InputError, match=message):
        with_draft(*load_model(model), speculation(f"{name}:3"))


def test_a_table_is_for_all_formats_of_its_model():
    assert measured_for("nvidia/DeepSeek-V4-Pro-NVFP4", 3).label == "dsv4-pro-mtp:3"
    assert measured_for("deepseek-ai/DeepSeek-V3", 3) is None
    assert measured_for("moonshotai/Kimi-K3", 3).table.method == "dspark"


def test_a_table_of_a_draft_without_a_shape_is_refused():
    table = AcceptanceTable(name="x", method="eagle3", tokens_per_step=(1.8,))
    with pytest.raises(InputError, match="shape of its draft is not known"):
        with_draft("Qwen/Qwen3-32B", QWEN3_32B, Speculation(table=table, drafts=1))


@pytest.mark.parametrize(("kv_heads", "name"), [(64, "minimax-m3-eagle3"), (4, "minimax-m3-eagle3-gqa")])
@pytest.mark.parametrize("trace", ["prefill", "decode"])
def test_a_shipped_draft_of_minimax_holds_the_weights_of_its_checkpoint(kv_heads, name, trace):
    named, spec = with_draft(*load_model("MiniMaxAI/MiniMax-M3"), speculation(f"{name}:3"))
    assert (named, spec.draft_layer.attention.kv_heads) == (f"MiniMaxAI/MiniMax-M3+{name}", kv_heads)
    found = captured(spec, Plan(), trace).draft_operators
    # One with 4 KV heads is 6,149,993,396 bytes, 9,140 of them headers and small files; its embedding is the model's own
    own = 6_149_993_396 - 9_140 + (kv_heads - 4) * 2 * 128 * 2 * 6144 * 2
    assert sum(one.count * one.weight_bytes for one in found) == own - 2 * 200_064 * 6144
    # Its positions turn whole heads, the model's a half of them: cosines and sines of its own
    sums = repeated(request_sums(10.0, 90.0, windows=spec.spans), 1.0)
    turned = next(one for one in found if one.kind == "rope")
    assert float(turned.bytes_read.at(sums)) == 10 * 2 * 128 * (64 + kv_heads + 2)
    assert sum(one.label.startswith("mtp.state_norm") for one in found) == 3


@pytest.mark.parametrize("plan", [Plan(), Plan(tp=8, ep=8), Plan(tp=8, ep=8, dcp=8)])
def test_a_shipped_draft_of_kimi_is_latent_attention(plan):
    _, spec = with_draft(*load_model("nvidia/Kimi-K2.6-NVFP4"), speculation("kimi-k2.5-eagle3:3"))
    found = {one.label.removeprefix("mtp."): one for one in captured(spec, plan, "decode").draft_operators}
    down = found["layer.query_kv_down_proj"].gemm
    assert (down.n, down.k) == (1536 + 512 + 64, 2 * 7168)
    tp = plan.tp
    weights = {
        "states_proj": 7168 * 3 * 7168,
        "layer.query_kv_down_proj": 2112 * 2 * 7168,
        "layer.query_up_proj": 64 * 192 // tp * 1536,
        "layer.output_proj": 7168 * 64 * 128 // tp,
        "layer.mlp.gate_up_proj": 2 * 18432 // tp * 7168,
        "layer.mlp.down_proj": 7168 * 18432 // tp,
        "lm_head": 163840 // tp * 7168,
        "layer.query_absorb": 64 // tp * 128 * 512,
        "layer.value_absorb": 64 // tp * 128 * 512,
    }
    assert {label: found[label].weight_bytes // 2 for label in weights} == weights
    # 61 layers' latents and the draft's, of 576 numbers each
    kept = kv_bytes(spec, plan, 16, np.asarray([1024.0]), np.asarray([1.0]), paging="per_request", drafting=True)
    assert float(kept[0]) == 62 * 576 * 2 * 1024 / plan.dcp


K3 = ("moonshotai/Kimi-K3", "kimi-k3-dspark:7")


def test_a_block_of_drafts_is_one_pass_of_layers_of_its_own():
    _, spec = with_draft(*load_model(K3[0]), speculation(K3[1]))
    found = {one.label.removeprefix("mtp."): one for one in captured(spec, Plan(tp=8, ep=8), "decode").draft_operators}
    layers = {label: one for label, one in found.items() if label.startswith("block.layer")}
    assert {one.count for one in layers.values()} == {5}
    assert all(one.per_phase for label, one in found.items() if label.startswith("block."))
    # Of its published configuration: 64 heads of 192 and 128, an MLP of 14,336, five states of the model of 7,168
    assert (found["states_proj"].gemm.n, found["states_proj"].gemm.k) == (7168, 5 * 7168)
    assert (found["context_kv_proj"].gemm.n, found["context_kv_proj"].gemm.k) == (5 * 576, 7168)
    assert layers["block.layer.query_up_proj"].gemm.n == 64 * 192 // 8
    assert layers["block.layer.mlp.gate_up_proj"].gemm.n == 2 * 14336 // 8
    assert (found["block.markov.proj"].gemm.n, found["block.markov.proj"].gemm.k) == (163840, 256)
    assert found["block.lm_head"].weight_bytes == 0  # the model's own
    one = captured(spec, Plan(), "decode").draft_operators
    layer = (
        7168 * 1536 + 1536 + 1536 * 64 * 192 + 7168 * 576 + 512 + 512 * 64 * 256 + 64 * 128 * 7168 + 3 * 7168 * 14336
    )
    around = 5 * 7168 * 7168 + 5 * 7168 + 2 * 7168 + 5 * 576 * 7168 + 2 * 256 * 163840
    assert sum(each.count * each.weight_bytes for each in one) == 2 * (5 * (layer + 2 * 7168) + around)


def test_a_prompt_only_makes_keys_of_a_block_draft():
    _, spec = with_draft(*load_model(K3[0]), speculation(K3[1]))
    found = [one.label for one in captured(spec, Plan(), "prefill").draft_operators]
    assert not any("block" in label for label in found)
    assert "mtp.context_kv_write" in found


@pytest.mark.parametrize("serving_model", ["waves", "vllm"])
def test_more_drafts_of_a_block_are_no_more_passes(serving_model):
    def steps(drafts, block):
        _, spec = with_draft(*load_model(K3[0]), speculation(f"kimi-k3-dspark:{drafts}"))
        workload = workload_of(
            input_length=1000,
            output_length=100,
            mtp_tokens=drafts,
            mtp_acceptance=speculation(f"kimi-k3-dspark:{drafts}").rates,
        )
        scenario = Scenario(
            model=replace(spec, draft_block=block), device=load_device("b200_sxm", family="calibrated"),
            precision=Precision(linear="BF16", experts="MXFP4_W4A16"), plan=Plan(tp=16, ep=16), workload=workload,
            phase="decode" if serving_model == "waves" else "aggregated", serving_model=serving_model,
        )  # fmt: skip
        sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
        block = evaluate_scenario(scenario, np.asarray([4]), sets)
        return float((block.decode_step_ms if serving_model == "waves" else block.tpot_exclusive_ms)[0])

    # A block of eight places costs hardly more than one of three; seven drafts in turn are five passes more
    extra = steps(7, block=True) / steps(2, block=True)
    in_turn = steps(7, block=False) / steps(2, block=False)
    assert extra < in_turn


def drafted(tmp_path, drafts):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"tokens_per_step": [1.8, 2.3, 2.6], "method": "eagle3", "draft": SHAPE}))
    return with_draft("Qwen/Qwen3-32B", QWEN3_32B, speculation(f"{path}:{drafts}"))


def test_an_eagle_draft_is_a_layer_beside_the_model(tmp_path):
    name, spec = drafted(tmp_path, 3)
    assert name == "Qwen/Qwen3-32B+mine"
    operators = {one.label.removeprefix("mtp."): one for one in captured(spec, Plan(), "decode").draft_operators}
    hidden = spec.hidden_size
    shapes = {label: (one.gemm.n, one.gemm.k) for label, one in operators.items() if one.gemm is not None}
    assert shapes == {
        "states_proj": (hidden, 3 * hidden),
        "layer.qkv_proj": ((64 + 16) * 128, 2 * hidden),
        "layer.output_proj": (hidden, 64 * 128),
        "layer.mlp.gate_up_proj": (2 * 25600, hidden),
        "layer.mlp.down_proj": (hidden, 25600),
        "lm_head": (32000, hidden),
    }
    held = sum(one.weight_bytes for one in operators.values() if one.gemm is not None)
    assert held == 2 * sum(n * k for n, k in shapes.values())


def test_drafts_gain_and_cost(tmp_path):
    def decode(drafts):
        _, spec = drafted(tmp_path, max(drafts, 1))
        asked = speculation(f"{tmp_path / 'mine.yaml'}:{max(drafts, 1)}")
        workload = workload_of(
            input_length=1000, output_length=100, mtp_tokens=drafts, mtp_acceptance=asked.rates if drafts else None
        )
        scenario = Scenario(
            model=spec, device=TEST_DEVICE, precision=Precision(), plan=Plan(tp=8), workload=workload, phase="decode"
        )
        sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
        return evaluate_scenario(scenario, np.asarray([4]), sets)

    alone, three = decode(0), decode(3)
    assert three.decode_step_ms[0] > alone.decode_step_ms[0]
    assert three.tokens_per_step[0] == pytest.approx(2.6)
    assert three.kv_cache_bytes[0] == alone.kv_cache_bytes[0] * 65 // 64  # one layer like the 64 others
    assert three.weight_bytes[0] > alone.weight_bytes[0]


def test_evaluate_stores_the_measured_rates(tmp_path):
    store = f"sqlite:///{tmp_path}/s.sqlite"
    sweepdb.evaluate(
        "deepseek-ai/DeepSeek-V4-Pro",
        store=store,
        mode="decode",
        batch_range=(1, 2),
        speculative="dsv4-pro-mtp:3",
        **SIZES,
    )
    with sweepdb.open(store) as opened:
        rows = opened.sql("SELECT DISTINCT mtp_tokens, tokens_per_step FROM probe").rows
    assert [(drafts, round(gained, 6)) for drafts, gained in rows] == [(3, 2.49)]


@pytest.mark.parametrize("other", [{"num_mtp_tokens": 2}, {"mtp_acceptance_rate": [0.5]}])
def test_nothing_else_says_how_many(tmp_path, other):
    with pytest.raises(InputError, match=f"drop `{next(iter(other))}`"):
        sweepdb.evaluate(
            "deepseek-ai/DeepSeek-V4-Pro",
            store=f"sqlite:///{tmp_path}/s.sqlite",
            speculative="dsv4-pro-mtp:3",
            **SIZES,
            **other,
        )


def test_a_row_with_a_shipped_draft_is_launched_with_its_checkpoint(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate(
        "nvidia/MiniMax-M3-NVFP4", device="b200_sxm", num_devices=8, tp_sizes=4, dp_sizes=2, ep_sizes=8, mode="aggregated",
        batch_range=(4, 4), input_length=1000, output_length=100, speculative="minimax-m3-eagle3-gqa:3", store=url,
    )  # fmt: skip
    with sweepdb.open(url) as store:
        (row,) = store.sql("SELECT probe, tokens_per_step FROM probe").dicts()
    assert row["tokens_per_step"] == pytest.approx(2.78)
    write_launch(row["probe"], tmp_path / "out", store=url)
    text = " ".join(path.read_text() for path in sorted((tmp_path / "out").glob("*.sh")))
    assert '"model": "Inferact/MiniMax-M3-EAGLE3-GQA"' in text


def test_a_command_that_drafts_takes_the_table_of_its_model(tmp_path):
    script = tmp_path / "a.sh"
    script.write_text(
        "vllm serve zai-org/GLM-5.2 --tensor-parallel-size 8"
        ' --speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'\n'
    )
    from sweepdb.launching.reading import read_deployment

    (server,) = read_deployment(script).servers
    assert server.options()["speculative"] == "glm5.2-mtp:2"


@pytest.fixture(scope="module")
def drafted_row(tmp_path_factory):
    """A store of one row that drafts with a model beside its own, and the row's reference."""
    folder = tmp_path_factory.mktemp("drafted")
    (folder / "mine.yaml").write_text(
        yaml.safe_dump({"tokens_per_step": [1.8, 2.3, 2.6], "method": "eagle3", "draft": SHAPE})
    )
    url = f"sqlite:///{folder}/store.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-32B", device="h200_sxm", num_devices=8, tp_sizes=8, batch_range=(4, 4), mode="aggregated",
        input_length=1000, output_length=100, speculative=f"{folder / 'mine.yaml'}:3", store=url,
    )  # fmt: skip
    with sweepdb.open(url) as store:
        return url, store.sql("SELECT probe FROM probe").dicts()[0]["probe"]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", '--speculative-config \'{"method": "eagle3", "model": "some/draft", "num_speculative_tokens": 3}\''),
        (
            "sglang",
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path some/draft --speculative-num-steps 3",
        ),
    ],
)
def test_a_draft_beside_the_model_is_launched_from_where_it_lies(engine, words, drafted_row, tmp_path):
    url, probe = drafted_row
    write_launch(probe, tmp_path / "out", engine=engine, draft_model="some/draft", store=url)
    text = " ".join(path.read_text().replace("\\\n", " ") for path in sorted((tmp_path / "out").glob("*.sh")))
    assert words in " ".join(text.split())
    assert "Qwen/Qwen3-32B" in text
    assert "+mine" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "drafts with a model of its own"),
        ({"draft_model": "some/draft", "engine": "trtllm"}, "TensorRT-LLM's settings for a draft that reads"),
    ],
)
def test_without_its_place_or_for_an_engine_without_it_a_draft_is_refused(options, message, drafted_row, tmp_path):
    url, probe = drafted_row
    with pytest.raises(InputError, match=message):
        write_launch(probe, tmp_path / "out", store=url, **options)
