"""A key of a config that nobody reads is refused by its name, or it is harmless for a reason that is stated."""

from __future__ import annotations

import contextlib
import re
import warnings

import pytest
from class_cases import CASES, SMALL
from hypothesis import given
from hypothesis import strategies as st
from restated import config_of

from evaluator.inputs.architectures import architectures, spec_from_config
from evaluator.inputs.architectures.config_reader import HARMLESS, ConfigReader
from store.errors import InputError

LEGAL = [config_of(name) for name in (
    "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b", "MiniMaxAI/MiniMax-M2",
    "mistralai/Mixtral-8x7B-v0.1", "meta-llama/Meta-Llama-3.1-8B",
)]  # fmt: skip
TYPES = ("llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen2_moe", "deepseek_v2", "deepseek_v3", "glm4", "glm4_moe", "gpt_oss",
         "minimax", "mistral", "mixtral", "opt", "bloom", "gemma2", "gemma3_text", "granitemoe", "jamba", "mamba2", "falcon_h1",
         "phi3", "olmo2", "cohere2", "nemotron", "bamba", "lfm2", "ernie4_5_moe", "hunyuan_v1_moe", "llama4_text", "gpt_neox",
         "falcon", "mpt", "dbrx", "exaone4", "smollm3", "starcoder2", "stablelm", "recurrent_gemma", "zamba2")  # fmt: skip
# Keys that some configuration class of transformers 5 has and that change what is computed, where it is not installed.
RESTATED = frozenset(
    [
        "altup_num_inputs",
        "attention_chunk_size",
        "attention_multiplier",
        "attn_logit_softcapping",
        "conv_L_cache",
        "embedding_multiplier",
        "expand_ratio",
        "final_logit_softcapping",
        "full_attn_idxs",
        "hybrid_layer_ids",
        "index_head_dim",
        "index_n_heads",
        "index_topk",
        "kv_channels",
        "laurel_rank",
        "layers_block_type",
        "linear_conv_kernel_dim",
        "linear_key_head_dim",
        "linear_num_value_heads",
        "logits_scaling",
        "lru_width",
        "mamba_d_conv",
        "mamba_d_state",
        "mamba_expand",
        "mamba_n_heads",
        "moe_layer_interval",
        "multi_query",
        "n_inner",
        "new_decoder_architecture",
        "no_rope_layers",
        "num_kv_shared_layers",
        "num_ln_in_parallel_attn",
        "parallel_attn",
        "per_layer_config",
        "qk_layernorm",
        "query_pre_attn_scalar",
        "residual_multiplier",
        "shared_expert_intermediate_size",
        "ssm_state_size",
        "state_size",
        "use_parallel_residual",
        "use_qkv_bias",
        "zero_expert_num",
    ]
)


def known_keys():
    """Keys that configuration classes of transformers know; the restated ones where it is not installed."""
    try:
        from transformers import CONFIG_MAPPING
    except ImportError:
        return sorted(RESTATED)
    found = set(RESTATED)
    for name in TYPES:
        if name in CONFIG_MAPPING:
            found |= set(CONFIG_MAPPING[name]().to_dict())
    return sorted(found)


KEYS = st.deferred(
    lambda: st.sampled_from(known_keys())
)  # imports of seconds, for the process that runs the test alone
VALUES = st.sampled_from([True, 1, 2, 7, 0.5, "text", "silu", [1], ["full_attention"], {"a": 1}])


def refusal(config):
    """The error that a config is refused with; None where it is taken."""
    try:
        spec_from_config(config, "config.json")
    except InputError as error:
        return error
    return None


def names(error, key):
    """Whether an error names a key as a whole word."""
    return re.search(rf"(?<![a-z_]){re.escape(key)}(?![a-z_])", error.message) is not None


@given(config=st.sampled_from(LEGAL), key=KEYS, value=VALUES)
def test_a_key_that_is_added_is_read_refused_or_harmless(config, key, value):
    """Where the file is taken, the key was read (or its reader says why not), or a reason is stated for all."""
    if key in config:
        return
    if (error := refusal({**config, key: value})) is not None:
        assert names(error, key)
        return
    reader = ConfigReader({**config, key: value}, "config.json")
    architectures()[str(config["model_type"])](reader)
    assert key in reader.read or HARMLESS.get(key), f"{key} is neither read nor harmless"


@pytest.mark.long  # 804 classes of transformers 5.23 have 2,307 keys
def test_every_key_of_every_installed_class_is_read_refused_or_harmless():
    transformers = pytest.importorskip("transformers", minversion="5.0")
    keys = set(RESTATED)
    for name in list(transformers.CONFIG_MAPPING.keys()):
        with contextlib.suppress(Exception), warnings.catch_warnings():  # some want packages that are not there
            warnings.simplefilter("ignore")
            keys |= set(transformers.CONFIG_MAPPING[name]().to_dict())
    silent = []
    for config in (*LEGAL, *configs_of_classes(transformers)):
        assert refusal(config) is None, config["model_type"]
        for key in sorted(keys - config.keys()):
            error = refusal({**config, key: 7})
            read = keys_read({**config, key: 7})
            # One that was read and does not go with another may be refused by the other's name.
            if key in read or HARMLESS.get(key) or (error is not None and names(error, key)):
                continue
            silent.append((config["model_type"], key, "" if error is None else error.message))
    assert not silent
    assert len(keys) > 2000


def keys_read(config):
    """Keys that the reader of a config's architecture reads, or says to make no difference."""
    reader = ConfigReader(config, "config.json")
    with contextlib.suppress(InputError):
        architectures()[str(config["model_type"])](reader)
    return reader.read


def configs_of_classes(transformers):
    """A small config of every architecture that is read and has a class, as the class writes it."""
    for case, said in CASES.items():
        parsed = transformers.AutoConfig.for_model(case.partition(" ")[0], **{**SMALL, **said})
        yield {key: value for key, value in parsed.to_dict().items() if value is not None}


@pytest.mark.parametrize("config", LEGAL, ids=lambda config: config["model_type"])
def test_every_key_that_is_known_to_matter_is_refused_by_name(config):
    for key in sorted(RESTATED - config.keys()):
        with pytest.raises(InputError, match=rf"\b{key}\b"):
            spec_from_config({**config, key: 7}, "config.json")


def test_every_harmless_key_has_one_reason():
    assert all(reason.startswith("it ") for reason in HARMLESS.values())
    assert not HARMLESS.keys() & RESTATED
