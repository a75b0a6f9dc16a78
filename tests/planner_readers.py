"""What readers of profiles demand of their files, written from their own rules: each returns what it read, or fails.

The rules were checked against the packages themselves: AIBrix 0.8.0 (GPUProfile, Optimizer) and Ray 2.60.0
(DeploymentSchema, AutoscalingConfig)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import yaml


def _series(block, key):
    found = np.asarray(block[key], dtype=float)
    assert found.ndim == 1, key
    assert found.size, key
    assert np.isfinite(found).all(), key
    return found


def _rises(values):
    assert (np.diff(values) > 0).all(), values


def read_infera(folder: Path):
    """Strictly ascending axes, positive and finite numbers, a full rectangle, shares of the cache in (0, 1]."""
    raw = json.loads((folder / "profile.json").read_text())
    prefill, decode = raw["prefill"], raw["decode"]
    lengths, ttft, rate = (_series(prefill, key) for key in ("isl", "ttft_ms", "thpt_per_gpu"))
    _rises(lengths)
    assert lengths.size == ttft.size == rate.size
    assert min(lengths.min(), ttft.min(), rate.min()) > 0
    usage, context = _series(decode, "kv_usage"), _series(decode, "context_length")
    _rises(usage)
    _rises(context)
    assert usage[0] > 0
    assert usage[-1] <= 1
    assert context[0] > 0
    for key in ("itl_ms", "thpt_per_gpu"):
        grid = np.asarray(decode[key], dtype=float)
        assert grid.shape == (context.size, usage.size), key
        assert np.isfinite(grid).all(), key
        assert (grid > 0).all(), key
    for count in (decode["max_kv_tokens"], raw["prefill_engine_num_gpu"], raw["decode_engine_num_gpu"]):
        assert isinstance(count, int)
        assert count > 0
    return raw


def read_dynamo(folder: Path):
    """Both forms say the same; the passes that the planner makes of them, as (seconds, requests, tokens).

    Its older interpolation is cubic over four prompt lengths, and over points that do not lie on one line."""
    forms = []
    for form in ("npz", "json"):
        found = []
        for side in ("prefill", "decode"):
            if form == "json":
                found.append(json.loads((folder / f"{side}_raw_data.json").read_text()))
            else:
                with np.load(folder / f"selected_{side}_interpolation" / "raw_data.npz", allow_pickle=False) as raw:
                    found.append({name: raw[name] for name in raw.files})
        forms.append(found)
    (prefill, decode), (plain_prefill, plain_decode) = forms
    assert int(decode.pop("max_kv_tokens")[0]) == plain_decode["max_kv_tokens"]
    for arrays, plain in ((prefill, plain_prefill), (decode, plain_decode)):
        assert all(np.array_equal(arrays[name], plain[name]) for name in arrays)
        assert len({_series(arrays, name).size for name in arrays}) == 1
        assert all((arrays[name] > 0).all() for name in arrays)
    _rises(prefill["prefill_isl"])
    assert prefill["prefill_isl"].size >= 4
    assert (decode["x_kv_usage"] <= 1).all()
    assert len(set(decode["y_context_length"])) > 1
    points = np.column_stack([decode["x_kv_usage"], decode["y_context_length"], np.ones(decode["x_kv_usage"].size)])
    assert np.linalg.matrix_rank(points) == 3
    prompts = [
        (ttft / 1000, 1, int(length))
        for length, ttft in zip(prefill["prefill_isl"], prefill["prefill_ttft"], strict=True)
    ]
    steps = []
    for share, context, itl in zip(decode["x_kv_usage"], decode["y_context_length"], decode["z_itl"], strict=True):
        tokens = round(share * plain_decode["max_kv_tokens"])
        steps.append((itl / 1000, max(1, round(tokens / context)), tokens))
    return prompts, steps


def read_aibrix(folder: Path):
    """A table of rates by output and input length, axes of equal steps in log2; the key that put.sh sets, too."""
    raw = json.loads((folder / "profile.json").read_text())
    outputs, inputs = (np.log2(axis) for axis in raw["indexes"])
    for axis in (outputs, inputs):
        _rises(axis)
        assert np.array_equal(axis, axis.round())
    for key in ("tputs", "e2e", "ttft", "tpot"):
        table = np.asarray(raw[key], dtype=float)
        assert table.shape == (outputs.size, inputs.size), key
        assert np.isfinite(table).all(), key
        assert (table >= 0).all(), key
    assert raw["cost"] > 0
    assert raw["created"] > 0
    assert raw["slos"]["percentile"] in {0, 50, 90, 99}
    key = re.search(r"-x SET (\S+)", (folder / "put.sh").read_text())[1]
    assert re.fullmatch(rf"aibrix:profile_[a-z0-9-]+_{re.escape(raw['gpu'])}", key)
    return raw, key


def read_ray(folder: Path):
    """One deployment: whole numbers where Ray wants them, and no more ongoing requests wanted than it takes."""
    ((deployment,),) = yaml.safe_load((folder / "serve.yaml").read_text()).values()
    scaling = deployment["autoscaling_config"]
    assert set(scaling) == {"min_replicas", "max_replicas", "target_ongoing_requests"}
    assert isinstance(deployment["max_ongoing_requests"], int)
    assert 0 <= scaling["min_replicas"] <= scaling["max_replicas"]
    assert scaling["max_replicas"] >= 1
    assert 0 < scaling["target_ongoing_requests"] <= deployment["max_ongoing_requests"]
    return deployment


def read_keda(path: Path):
    """A ScaledObject whose Prometheus triggers have an address, a query and a threshold, all of them texts."""
    raw = yaml.safe_load(path.read_text())
    assert (raw["apiVersion"], raw["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = raw["spec"]
    assert spec["scaleTargetRef"]["name"]
    assert 0 <= spec["minReplicaCount"] <= spec["maxReplicaCount"]
    for trigger in spec["triggers"]:
        assert trigger["type"] == "prometheus"
        assert trigger["metricType"] in {"AverageValue", "Value"}
        assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
        assert float(trigger["metadata"]["threshold"]) > 0
    return raw


def read_wva(folder: Path):
    """The annotations, the older resource with the same cost, and limits that are both there."""
    managed = read_keda(folder / "scaledobject.yaml")
    notes = managed["metadata"]["annotations"]
    assert notes["llm-d.ai/managed"] == "true"
    variant = yaml.safe_load((folder / "variantautoscaling.yaml").read_text())
    assert (variant["apiVersion"], variant["kind"]) == ("llmd.ai/v1alpha1", "VariantAutoscaling")
    spec = variant["spec"]
    assert re.fullmatch(r"\d+(\.\d+)?", spec["variantCost"])
    assert spec["variantCost"] == notes["llm-d.ai/variant-cost"]
    assert spec["modelID"] == notes["llm-d.ai/model-id"]
    assert spec["minReplicas"] <= spec["maxReplicas"]
    entries = {}
    for settings in yaml.safe_load_all((folder / "limits.yaml").read_text()):
        assert settings["kind"] == "ConfigMap"
        (entry,) = settings["data"].values()
        entries[settings["metadata"]["name"]] = yaml.safe_load(entry)
    full, limits = entries["saturation-scaling-config"], entries["wva-queueing-model-config"]
    assert full["model_id"] == limits["model_id"] == spec["modelID"]
    assert full["namespace"] == limits["namespace"] == managed["metadata"]["namespace"]
    assert 0 < full["kvSpareTrigger"] < full["kvCacheThreshold"] <= 1
    assert limits["targetTTFT"] > 0
    assert limits["targetITL"] > 0
    return notes, full, limits
