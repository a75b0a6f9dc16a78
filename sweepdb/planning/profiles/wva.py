"""llm-d's variant autoscaler: a variant's cost, limits, and when its cache is full.

It learns times itself. From 0.9 it finds variants by annotations of a ScaledObject; the older VariantAutoscaling is
written, too."""

from __future__ import annotations

from store.errors import InputError
from sweepdb.planning.profiles.held_load import HeldLoad, held_load, threshold
from sweepdb.planning.profiles.keda import as_yaml, prometheus_trigger, scaled_object, unknown_places
from sweepdb.planning.profiles.planner import REPLICAS, Planner, Profile, ProfileSource, price_command

_USUAL_COST = "10.0"  # of a variant that states none
_SPARE_SHARE = 1 / 8  # of the threshold: its own defaults, 0.1 of 0.8
_SYSTEM = "workload-variant-autoscaler-system"


def _profile(source: ProfileSource) -> Profile:
    model, price = source.of_instances[0].model, source.usd_per_replica_hour
    if not {"ttft", "tpot"} <= set(source.limits_ms):
        raise InputError("this autoscaler takes both limits or none", hint="add `ttft_limit=2000` and `tpot_limit=50`")
    cost, held = _USUAL_COST if price is None else f"{price:.4f}", held_load(source)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": source.deployment}
    spec = {
        "scaleTargetRef": target, "modelID": model, "variantCost": cost, "minReplicas": source.min_replicas,
        "maxReplicas": source.max_replicas,
    }  # fmt: skip
    variant = {
        "apiVersion": "llmd.ai/v1alpha1",
        "kind": "VariantAutoscaling",
        "metadata": {"name": source.deployment, "namespace": source.namespace},
        "spec": spec,
    }
    files = {
        "scaledobject.yaml": as_yaml(_managed(source, cost)),
        "limits.yaml": as_yaml(*_limits(source, held.kv_usage)),
        "variantautoscaling.yaml": as_yaml(variant),
    }
    return Profile(files=files, unsaid=tuple(_unsaid(source, held)))


def _managed(source: ProfileSource, cost: str) -> dict[str, object]:
    wanted = f'wva_desired_replicas{{variant_name="{source.deployment}"}}'
    annotations = {
        "llm-d.ai/managed": "true",
        "llm-d.ai/model-id": source.of_instances[0].model,
        "llm-d.ai/variant-cost": cost,
    }
    return scaled_object(source, [prometheus_trigger("desired-replicas", "AverageValue", wanted, "1")], annotations)


def _limits(source: ProfileSource, kv_usage: float) -> list[dict[str, object]]:
    """Two maps: when this model is saturated, and its limits in ms."""
    of_model = {"model_id": source.of_instances[0].model, "namespace": source.namespace}
    full = threshold(min(kv_usage, 1.0))
    saturated = {**of_model, "kvCacheThreshold": full, "kvSpareTrigger": threshold(_SPARE_SHARE * full)}
    limits = {**of_model, "targetTTFT": source.limits_ms["ttft"], "targetITL": source.limits_ms["tpot"]}
    return [
        _settings("saturation-scaling-config", {source.deployment: saturated}),
        _settings("wva-queueing-model-config", {source.deployment: limits}),
    ]


def _settings(name: str, entries: dict[str, dict[str, object]]) -> dict[str, object]:
    data = {key: as_yaml(entry).decode() for key, entry in entries.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": _SYSTEM}, "data": data}


def _unsaid(source: ProfileSource, held: HeldLoad) -> list[str]:
    choice = (
        "Take one of scaledobject.yaml (0.9 and later) and variantautoscaling.yaml (before). Entries of limits.yaml go"
        " into the maps that your installation has, beside their default entry."
    )
    said = [choice, unknown_places(source), *held.unsaid]
    if source.usd_per_replica_hour is None:
        said.append(f"No price is stored, so the cost is its own default, {_USUAL_COST}. {price_command(source)}")
    return said


PLANNERS = {
    "wva": Planner(
        title="llm-d's variant autoscaler",
        phases=("aggregated",),
        make=_profile,
        loads=True,
        limits=True,
        takes=(*REPLICAS, "namespace"),
    )
}
