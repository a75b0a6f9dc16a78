"""KEDA's ScaledObject: replicas by the requests in flight and by the cache, as the engine's own metrics count them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from store.errors import InputError
from sweepdb.planning.profiles.held_load import held_load, threshold
from sweepdb.planning.profiles.planner import REPLICAS, Planner, Profile, ProfileSource

PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"


@dataclass(frozen=True, slots=True)
class _Metrics:
    """An engine's gauges: requests that run and wait, and the share of the cache in use, newest name first."""

    running: str
    waiting: str
    cache: tuple[str, ...]
    label: str = ""  # that has the served model's name


_METRICS: Mapping[str, _Metrics] = {
    "vllm": _Metrics(
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        label="model_name",
    ),
    "sglang": _Metrics("sglang:num_running_reqs", "sglang:num_queue_reqs", ("sglang:token_usage",), label="model_name"),
    "trtllm": _Metrics("trtllm_num_requests_running", "trtllm_num_requests_waiting", ("trtllm_kv_cache_utilization",)),
}


def _profile(source: ProfileSource) -> Profile:
    held, metrics = held_load(source), metrics_of(source)
    chosen = f'{{{metrics.label}="{source.of_instances[0].model}"}}' if metrics.label else ""
    in_flight = f"sum({metrics.running}{chosen}) + sum({metrics.waiting}{chosen})"
    cache = f"avg({' or '.join(f'{name}{chosen}' for name in metrics.cache)})"
    document = scaled_object(
        source,
        [
            _trigger("in-flight", "AverageValue", in_flight, threshold(held.target)),
            _trigger("kv-cache", "Value", cache, threshold(held.kv_usage)),
        ],
    )
    return Profile(files={"scaledobject.yaml": as_yaml(document)}, unsaid=(unknown_places(source), *held.unsaid))


def metrics_of(source: ProfileSource) -> _Metrics:
    """The gauges of the engine that the rows are of."""
    engine = source.of_instances[0].serving_model
    if engine not in _METRICS:
        raise InputError(
            f"{engine} is no engine whose metrics are known",
            hint=f"name rows of one: `serving_model={' or '.join(_METRICS)}`",
        )
    return _METRICS[engine]


def scaled_object(
    source: ProfileSource, triggers: list[dict[str, object]], annotations: Mapping[str, str] | None = None
) -> dict[str, object]:
    """A ScaledObject of the deployment; the largest number of replicas that a trigger asks for is taken."""
    named = {"name": source.deployment, "namespace": source.namespace}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {**named, "annotations": dict(annotations)} if annotations else named,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": source.deployment},
            "minReplicaCount": source.min_replicas,
            "maxReplicaCount": source.max_replicas,
            "triggers": triggers,
        },
    }


def _trigger(name: str, kind: str, query: str, limit: float) -> dict[str, object]:
    return prometheus_trigger(name, kind, query, f"{limit:g}")


def prometheus_trigger(name: str, kind: str, query: str, limit: str) -> dict[str, object]:
    """AverageValue divides by the replicas; Value multiplies them by how far the metric is from its threshold."""
    metadata = {"serverAddress": PROMETHEUS, "query": query, "threshold": limit}
    return {"type": "prometheus", "name": name, "metricType": kind, "metadata": metadata}


def unknown_places(source: ProfileSource) -> str:
    """A sentence on the names and addresses that no stored row has."""
    return (
        f"serverAddress is a usual address of Prometheus ({PROMETHEUS}), and the Deployment is named"
        f" {source.deployment}: change what is otherwise in your cluster."
    )


def as_yaml(*documents: object) -> bytes:
    """Documents of one file, keys as they were put."""
    return yaml.safe_dump_all(documents, sort_keys=False, width=1000).encode()


PLANNERS = {
    "keda": Planner(
        title="KEDA", phases=("aggregated",), make=_profile, loads=True, limits=True, takes=(*REPLICAS, "namespace")
    )
}
