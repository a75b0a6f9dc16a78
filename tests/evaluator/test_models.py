"""Models: published sizes, configs that agree with the catalogue, and the sentence for what is not covered."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from types import MappingProxyType

import pytest
import yaml
from conftest_cli import sweepdb
from restated import config_of, model_names

from evaluator.canonical import canonical
from evaluator.inputs.models import list_models, load_model, model_by_parts
from evaluator.inputs.parameters import parameter_count
from store.errors import InputError

# (total, active) in billions, as the publishers print them in model cards and papers.
PUBLISHED = {
    "Qwen/Qwen3-0.6B": (0.596, None),
    "Qwen/Qwen3-8B": (8.19, None),
    "Qwen/Qwen3-32B": (32.76, None),
    "Qwen/Qwen3-30B-A3B": (30.53, 3.34),
    "Qwen/Qwen3-235B-A22B": (235.09, 22.19),
    "Qwen/Qwen2.5-0.5B": (0.494, None),
    "Qwen/Qwen2.5-7B": (7.616, None),
    "Qwen/Qwen2.5-72B": (72.7, None),
    "meta-llama/Llama-2-7b-hf": (6.738, None),
    "meta-llama/Llama-2-70b-hf": (68.98, None),
    "meta-llama/Llama-3.1-8B": (8.03, None),
    "meta-llama/Llama-3.3-70B-Instruct": (70.55, None),
    "meta-llama/Llama-3.1-405B": (405.85, None),
    "mistralai/Mistral-7B-v0.1": (7.242, None),
    "mistralai/Mixtral-8x7B-v0.1": (46.7, 12.9),
    "mistralai/Mixtral-8x22B-v0.1": (140.6, 39.1),
    "deepseek-ai/DeepSeek-V3": (671.03, 37.55),
    "deepseek-ai/DeepSeek-V3.2": (671.88, None),
    "deepseek-ai/DeepSeek-V4-Pro": (1573.0, None),
    "deepseek-ai/DeepSeek-V4-Flash": (284.3, None),
    "zai-org/GLM-5": (743.9, None),
    "meituan-longcat/LongCat-Flash-Chat": (560, None),
    "Qwen/Qwen3.5-397B-A17B": (396.3, None),
    "Qwen/Qwen3.5-27B": (26.9, None),
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": (49.87, None),
    "moonshotai/Kimi-K2-Instruct": (1026.4, 32.86),
    "openai/gpt-oss-20b": (20.91, None),
    "openai/gpt-oss-120b": (116.83, None),
    "MiniMaxAI/MiniMax-M2": (228.7, None),
    "zai-org/GLM-4.5": (355, None),
    "zai-org/GLM-4.5-Air": (106.85, None),
    "facebook/opt-175b": (174.6, None),
    "bigscience/bloom": (176.247, None),
    "bigscience/bloom-7b1": (7.069, None),
    "CohereLabs/c4ai-command-a-03-2025": (111, None),
    "CohereLabs/c4ai-command-r7b-12-2024": (8.03, None),  # as llama.cpp counts it; its card says 7
    "CohereLabs/c4ai-command-r-08-2024": (32, None),
    "CohereLabs/c4ai-command-r-plus-08-2024": (104, None),
}


# Contexts as publishers state them: Llama 3 8K (3.1: 128K), GLM-4.5 128K and GLM-4.6 200K (config.json: 202,752).
CONTEXTS = {
    "meta-llama/Meta-Llama-3-8B-Instruct": 8192,
    "meta-llama/Meta-Llama-3-70B-Instruct": 8192,
    "meta-llama/Llama-3.1-8B-Instruct": 131072,
    "zai-org/GLM-4.5": 131072,
    "zai-org/GLM-4.6": 202752,
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_model_takes_the_context_that_its_publisher_states(name):
    assert load_model(name)[1].max_positions == CONTEXTS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_agree_with_the_published_ones(name):
    total, active = PUBLISHED[name]
    count = parameter_count(load_model(name)[1])
    assert count.total / 1e9 == pytest.approx(total, rel=0.01)
    if active is not None:
        assert count.active / 1e9 == pytest.approx(active, rel=0.01)


# As published counts of tensors and the classes have them: Gemma 3 without its encoder, MiMo-V2 with corrections of the router.
# Of ERNIE-4.5-21B, Hunyuan-A13B and the Command models no count to the last one was found published: theirs are what their
# classes have in the published shapes, and cards say billions alone (21 and 80; the others above).
COUNTED = {
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "microsoft/phi-4": 14_659_507_200,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "Qwen/Qwen1.5-MoE-A2.7B": 14_315_784_192,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 79_674_391_296,
    "baidu/ERNIE-4.5-21B-A3B-PT": 21_825_437_888,
    "google/gemma-3-27b-it": 27_009_346_304,
    "tencent/Hunyuan-A13B-Instruct": 80_393_183_232,
    "ibm-granite/granite-4.0-h-small": 32_207_337_984,
    "XiaomiMiMo/MiMo-V2-Flash": 308_778_780_864,
    "CohereLabs/c4ai-command-a-03-2025": 111_057_580_032,
    "CohereLabs/c4ai-command-r7b-12-2024": 8_028_033_024,
    "CohereLabs/c4ai-command-r-08-2024": 32_296_476_672,
    "CohereLabs/c4ai-command-r-plus-08-2024": 103_810_674_688,
}


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_of_older_families_are_counted_to_the_last_one(name):
    assert parameter_count(load_model(name)[1]).total == COUNTED[name]


@pytest.mark.parametrize(
    "said, parameters",
    [
        ({"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}, 3_880_263_168),
        (
            {"hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62, "num_attention_heads": 32,
             "num_key_value_heads": 16, "head_dim": 128},
            27_009_346_304,
        ),
    ],
)  # fmt: skip
def test_files_of_gemma_3_say_only_what_differs_from_their_class(tmp_path, said, parameters):
    text = {**said, "model_type": "gemma3_text", "sliding_window": 1024, "query_pre_attn_scalar": 168}
    whole = {"model_type": "gemma3", "text_config": text, "vision_config": {"model_type": "siglip_vision_model"}}
    (tmp_path / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    assert parameter_count(load_model(str(tmp_path))[1]).total == parameters


def test_every_catalogue_entry_loads():
    for name in list_models():
        assert load_model(name)[0] == name


def test_every_entry_of_the_catalogue_is_listed():
    """Ids are told by the beginnings of lines, since parsing every file would cost more than a question."""
    folder = resources.files("evaluator") / "inputs" / "catalogue"
    parsed = [
        yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name.endswith(".yaml")
    ]
    assert sorted(list_models()) == sorted(name for entries in parsed for name in entries)


@pytest.mark.parametrize("name", [name for name in model_names() if name in list_models()])
def test_a_config_file_and_the_catalogue_are_one_model(name, tmp_path):
    config = config_of(name)
    # The restated one is a third program's, which stops at 4,096.
    config |= {"max_position_embeddings": 8192} if name == "meta-llama/Meta-Llama-3-8B" else {}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    # The configs that are restated say of an image encoder only that there is one (test_vision_towers has whole ones).
    spec, known, named = (
        replace(load_model(one)[1], vision=None) for one in (str(tmp_path), name, str(tmp_path / "config.json"))
    )
    assert spec == known == named


@pytest.mark.parametrize(
    ("whole", "text"),
    [
        ("Qwen/Qwen3-VL-32B-Instruct", "Qwen/Qwen3-32B"),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen/Qwen3-30B-A3B"),
        ("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2-Instruct"),
    ],
)
def test_the_language_part_of_a_model_with_encoders_is_that_of_its_text_model(whole, text):
    """By the publishers: arXiv 2511.21631 (Qwen3-VL), Kimi-K2.5's card; the encoder is said to be left out."""
    part, alone = load_model(whole)[1], load_model(text)[1]
    assert (part.left_out, alone.left_out) == ("image encoder", "")
    assert part.layers == alone.layers
    assert parameter_count(part) == parameter_count(alone)


def test_a_key_beside_the_language_part_that_nobody_reads_is_refused(tmp_path):
    config = {**config_of("Qwen/Qwen3-VL-8B-Instruct"), "image_token_id": 5, "fusion_layers": 3}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InputError, match="fusion_layers: not read"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("name", ["some-NVFP4", "Llama-3.1-70B-Instruct-FP8", "x_awq"])
def test_a_format_that_only_the_name_says_is_asked_for(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    asked = f"evaluate {folder} --device h100_sxm --input-length 100 --output-length 10 --dry-run"
    refused = sweepdb(asked, f"sqlite:///{tmp_path}/s.sqlite")
    assert refused.code == 2
    assert f"{name}: its name says" in refused.err
    assert "its files state no format" in refused.err
    assert sweepdb(f"{asked} --quantization BF16", f"sqlite:///{tmp_path}/s.sqlite").code == 0


def test_short_and_differently_cased_names_resolve():
    assert load_model("qwen3-32b")[0] == "Qwen/Qwen3-32B"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),  # the only weights of the release; not their FP8 copy
        ("llama-3.3-70b-fp8", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"),
        ("qwen3-235b", "Qwen/Qwen3-235B-A22B"),  # not the one that sees
        ("qwen3-30b", "Qwen/Qwen3-30B-A3B"),  # not the coder, nor a later month's
        ("gemma-3-27b", "google/gemma-3-27b-it"),
        ("llama-70b", None),  # of which release?
        ("qwen3", None),  # of which size?
        ("qwen3-32b-instruct", None),  # there is none
        ("instruct", None),
    ],
)
def test_parts_of_a_name_are_enough_where_one_model_is_meant(said, meant):
    assert model_by_parts(said) == meant
    if meant is not None:
        assert load_model(said)[0] == meant


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"model_type": "bailing_hybrid"}, "Lightning layers"),
        ({"model_type": "jamba", "mamba_n_heads": 8}, "model_type 'jamba'"),
        ({"model_type": "bamba", "ssm_state_size": 8}, "state space layers (ssm_state_size of model_type 'bamba')"),
        ({"model_type": "falcon_h1", "mamba_proj_bias": True}, "falcon_h1 with biases (mamba_proj_bias)"),
        ({"model_type": "falcon_h1", "attn_layer_indices": [0]}, "layers without attention (attn_layer_indices)"),
        ({"model_type": "falcon_h1", "mamba_d_ssm": 60, "mamba_n_heads": 8}, "8 heads of 7 in a state space of 60"),
        ({"model_type": "llama", "index_topk": 2048}, "sparse attention with a token indexer"),
        ({"model_type": "cohere", "attention_bias": True}, "cohere with biases (attention_bias)"),
        ({"model_type": "cohere2", "use_qk_norm": True}, "norms of queries and keys (use_qk_norm)"),
        ({"model_type": "cohere2", "use_parallel_block": False}, "cohere2 with use_parallel_block False"),
        ({"model_type": "cohere2", "rotary_pct": 0.5}, "cohere2 with rotary_pct 0.5"),
        ({"model_type": "cohere2", "order_of_interleaved_layers": "global"}, "order_of_interleaved_layers 'global'"),
        ({"model_type": "cohere2", "sliding_window": None}, "windows of no size (sliding_window)"),
        ({"model_type": "cohere2", "head_dim": 32}, "not as wide as a row (head_dim)"),
        ({"model_type": "cohere2", "layer_types": ["full_attention"]}, "layer_types ['full_attention'] of 1 layers"),
    ],
)
def test_an_uncovered_part_is_named_never_approximated(said, part, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **said}), encoding="utf-8")
    with pytest.raises(InputError, match="never approximated silently") as caught:
        load_model(str(tmp_path))
    assert part in str(caught.value)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"hidden_size": 0}, "hidden_size must be a whole number of at least 1, not 0"),
        ({"num_hidden_layers": -3}, "num_hidden_layers must be a whole number of at least 1, not -3"),
        ({"num_attention_heads": 5}, r"num_attention_heads \(5\) does not divide hidden_size \(64\)"),
        ({"num_key_value_heads": 3}, r"num_key_value_heads \(3\) does not divide num_attention_heads \(4\)"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"hidden_act": "relu2"}, "hidden_act 'relu2' is not covered"),
        ({"model_type": "perceiver"}, "model_type 'perceiver' is not covered"),
        ({"model_type": "minimax_m2", "qk_norm_type": "per_token"}, "qk_norm_type 'per_token' is not covered"),
        ({"model_type": None}, "model_type is missing"),
    ],
)
def test_a_bad_config_is_one_sentence_with_the_key(tmp_path, change, complaint):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, **change}))
    with pytest.raises(InputError, match=complaint) as caught:
        load_model(str(path))
    assert str(path) in caught.value.message


def test_missing_and_malformed_files(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        load_model(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        load_model("./nowhere/config.json")


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(InputError, match="unknown model 'Qwen3-33B'") as caught:
        load_model("Qwen3-33B")
    assert "Qwen/Qwen3-32B" in caught.value.hint


OPT = {
    "model_type": "opt", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4,
    "ffn_dim": 256, "max_position_embeddings": 128,
}  # fmt: skip


def test_opt_without_biases_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(OPT))
    assert load_model(str(path))[1].layers[0].attention.output_bias
    path.write_text(json.dumps({**OPT, "enable_bias": False}))
    with pytest.raises(InputError, match=r"OPT without biases .* is not covered"):
        load_model(str(path))


def _groups(inputs=MappingProxyType({"dynamic": False}), **weights):
    """A scheme of compressed-tensors for every layer."""
    return {"config_groups": {"group_0": {"weights": weights, "input_activations": inputs and dict(inputs)}}}


@pytest.mark.parametrize(
    "quantisation, native",
    [
        (None, ("BF16", "BF16")),
        ({"quant_method": "fp8"}, ("FP8", "FP8")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("FP8_BLOCK", "FP8_BLOCK")),
        (
            {"quant_method": "fp8", "weight_block_size": [64, 64]},
            ("FP8 in blocks of [64, 64]", "FP8 in blocks of [64, 64]"),
        ),
        ({"quant_method": "mxfp4"}, ("BF16", "MXFP4")),
        ({"quant_method": "mxfp8"}, ("MXFP8", "MXFP8")),
        (
            {
                "quant_method": "fp8",
                "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn", "model.layers.1.self_attn"],
            },
            ("BF16", "FP8"),
        ),
        (
            {
                "quant_method": "fp8",
                "modules_to_not_convert": [f"model.layers.{n}.self_attn.{p}_proj" for p in "qkvo" for n in (0, 1)],
            },
            ("BF16", "FP8"),
        ),
        (  # of half of the layers: neither format is that of the part
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]},
            ("BF16 and FP8", "FP8"),
        ),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn.o_proj"]},
            ("FP8 without parts of attention", "FP8"),
        ),
        (  # norms, indexers, routers and what MLA expands are in 16 bits in any case
            {
                "quant_method": "fp8",
                "modules_to_not_convert": [
                    "model.layers.0.self_attn.q_a_layernorm",
                    "model.layers.0.self_attn.indexers_proj",
                    "model.layers.0.mlp.gate",
                    "model.layers.0.self_attn.kv_b_proj",
                    "shared_experts",
                ],
            },
            ("FP8", "FP8"),
        ),
        (
            {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["model.layers.*.mlp.experts"]},
            ("W4A16", "BF16"),
        ),
        ({"quant_method": "awq", "bits": 4}, ("W4A16", "W4A16")),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, ("W4A16_G32", "W4A16_G32")),
        ({"quant_method": "gptq", "bits": 8}, ("gptq, 8 bits", "gptq, 8 bits")),
        ({"quant_method": "bitsandbytes"}, ("bitsandbytes", "bitsandbytes")),
        ({"quant_method": "quark"}, ("quark", "quark")),
        (_groups(type="int", num_bits=8), ("W8A8_STATIC", "W8A8_STATIC")),
        (_groups(type="int", num_bits=8, inputs={"dynamic": True}), ("W8A8_DYNAMIC", "W8A8_DYNAMIC")),
        (_groups(type="int", num_bits=8, inputs=None), ("W8A16_STATIC", "W8A16_STATIC")),
        (_groups(type="int", num_bits=4, group_size=32, inputs=None), ("W4A16_G32", "W4A16_G32")),
        (_groups(type="int", num_bits=4, group_size=7, inputs=None), ("W4A16 in groups of 7", "W4A16 in groups of 7")),
        (_groups(type="float", num_bits=4, group_size=32, inputs=None), ("MXFP4_W4A16", "MXFP4_W4A16")),
        (_groups(type="float", num_bits=4, group_size=16, inputs=None), ("NVFP4_W4A16", "NVFP4_W4A16")),
        (_groups(type="float", num_bits=8, strategy="block"), ("FP8_BLOCK", "FP8_BLOCK")),
        (_groups(type="float", num_bits=8, block_structure=[128, 128]), ("FP8_BLOCK", "FP8_BLOCK")),
        (
            _groups(type="float", num_bits=8, strategy="block", block_structure=[1, 128]),
            ("FP8 in blocks of [1, 128]", "FP8 in blocks of [1, 128]"),
        ),
        (
            _groups(type="float", num_bits=4, group_size=64),
            ("'float' of 4 bits in groups of 64", "'float' of 4 bits in groups of 64"),
        ),
        (_groups(type="float", num_bits=6), ("'float' of 6 bits", "'float' of 6 bits")),
        (
            {
                "config_groups": {
                    "a": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["model.layers.0.self_attn.q_proj"]},
                    "b": {"weights": {"num_bits": 4, "type": "float"}, "targets": ["model.layers.1.mlp.experts.0.w"]},
                }
            },
            ("FP8", "NVFP4"),
        ),
        ({"config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}}}, ("NVFP4", "NVFP4")),
        ({"config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, ("FP8", "FP8")),
        (
            {"config_groups": {"g": {"weights": {"num_bits": 4, "type": "float"}}}, "ignore": ["model.*.self_attn*"]},
            ("BF16", "NVFP4"),
        ),
    ],
)
def test_what_the_published_weights_come_in(tmp_path, quantisation, native):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**MIXTRAL, "quantization_config": quantisation}))
    spec = load_model(str(path))[1]
    assert (spec.native_linear, spec.native_experts) == native


def test_a_dense_model_in_two_formats_has_one_of_what_mixes_tokens_and_one_of_mlps(tmp_path):
    path = tmp_path / "config.json"
    spared = {"config_groups": {"g": {"weights": {"num_bits": 4, "type": "float"}}}, "ignore": ["model.*.self_attn*"]}
    path.write_text(json.dumps({**LLAMA, "quantization_config": spared}))
    spec = load_model(str(path))[1]
    assert (spec.native_linear, spec.native_mixers, spec.native_experts) == ("NVFP4", "BF16", "NVFP4")


@pytest.mark.parametrize(
    ("quantization", "native"),
    [
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}, ("FP8", "FP8")),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16}, ("NVFP4", "NVFP4")),
        ({"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}, ("BF16", "NVFP4")),
        ({"quant_algo": "FP8_PB_WO"}, ("FP8_BLOCK", "FP8_BLOCK")),
        ({"quant_algo": "W4A16_AWQ"}, ("W4A16", "W4A16")),
        (
            {
                "quant_algo": "MIXED_PRECISION",
                "quantized_layers": {
                    "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                    "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"},
                    "model.layers.0.mlp.experts.1.up_proj": {"quant_algo": "NVFP4"},
                },
            },
            ("FP8", "NVFP4"),
        ),
        ({"quant_algo": "W9A9_NEW"}, ("W9A9_NEW", "W9A9_NEW")),
        ({"quant_algo": None}, ("BF16", "BF16")),
    ],
)
def test_a_modelopt_checkpoint_says_its_precision_beside_its_config(tmp_path, quantization, native):
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL), encoding="utf-8")
    document = {"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": quantization}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(document), encoding="utf-8")
    spec = load_model(str(tmp_path))[1]
    assert (spec.native_linear, spec.native_experts) == native
    # The file by its own path describes the same weights.
    assert load_model(str(tmp_path / "config.json"))[1] == spec


@pytest.mark.parametrize(
    ("quantization", "kv_cache"),
    [
        (None, "DISABLED"),
        ({"quant_method": "fp8"}, "DISABLED"),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "FP8"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": None}, "DISABLED"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "FP8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "INT8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "DISABLED"),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, "FP8"),
    ],
)
def test_what_the_published_kv_cache_comes_in(tmp_path, quantization, kv_cache):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "quantization_config": quantization}), encoding="utf-8")
    spec = load_model(str(path))[1]
    plain = replace(spec, native_kv_cache="DISABLED")
    assert spec.native_kv_cache == kv_cache
    # It decides a default and no number: stores of before it know the same model.
    assert canonical(spec) == canonical(plain)
    assert "native_kv_cache" not in canonical(spec)


def test_a_quantization_file_that_is_damaged_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    for content, said in (("{", "hf_quant_config.json: not JSON"), ('{"quantization": 8}', "must be a mapping")):
        (tmp_path / "hf_quant_config.json").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            load_model(str(tmp_path))


def test_the_working_directory_is_called_by_its_name(tmp_path, monkeypatch):
    folder = tmp_path / "my-model"
    (folder / "inner").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    monkeypatch.chdir(folder / "inner")
    assert load_model("..")[0] == "my-model"
    monkeypatch.chdir(folder)
    assert load_model(".")[0] == "my-model"
    assert load_model(str(folder))[0] == str(folder)
