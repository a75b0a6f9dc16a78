"""Autoscaling of replicas by the requests that each holds: KEDA's ScaledObject, and a piece of a Ray Serve config.

KEDA reads requests in flight and the cache, as the engine's own metrics count them; Serve counts by itself."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from store.errors import InputError
from sweepdb.planning.profiles.held_load import held_load, threshold
from sweepdb.planning.profiles.planner import REPLICAS, Planner, Profile, ProfileSource
from sweepdb.watching import METRICS, EngineMetrics, metrics_of

PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"


def _of_keda(source: ProfileSource) -> Profile:
    held, metrics = held_load(source), _metrics_of(source)
    whole = f',{metrics.part_label}=""' if metrics.part_label else ""
    chosen = f'{{model_name="{source.of_instances[0].model}"{whole}}}'
    (running,), (waiting,) = (metrics.whole_names(names) for names in (metrics.running, metrics.waiting))
    in_flight = f"sum({running}{chosen}) + sum({waiting}{chosen})"
    cache = f"avg({' or '.join(f'{name}{chosen}' for name in metrics.whole_names(metrics.cache_use))})"
    document = scaled_object(
        source,
        [
            _trigger("in-flight", "AverageValue", in_flight, threshold(held.target)),
            _trigger("kv-cache", "Value", cache, threshold(held.kv_usage)),
        ],
    )
    return Profile(files={"scaledobject.yaml": as_yaml(document)}, unsaid=(unknown_places(source), *held.unsaid))


def _metrics_of(source: ProfileSource) -> EngineMetrics:
    engine = source.of_instances[0].serving_model
    found = metrics_of(engine)
    if found is None:
        raise InputError(
            f"{engine} is no engine whose metrics are known",
            hint=f"name rows of one: `serving_model={' or '.join(one.engine for one in METRICS)}`",
        )
    return found


def scaled_object(
    source: ProfileSource, triggers: list[dict[str, object]], annotations: Mapping[str, str] | None = None
) -> dict[str, object]:
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
    return (
        f"serverAddress is a usual address of Prometheus ({PROMETHEUS}), and the Deployment is named"
        f" {source.deployment}: change what is otherwise in your cluster."
    )


def as_yaml(*documents: object) -> bytes:
    return yaml.safe_dump_all(documents, sort_keys=False, width=1000).encode()


def _of_ray(source: ProfileSource) -> Profile:
    held = held_load(source)
    document = {
        "deployments": [
            {
                "name": source.deployment,
                "max_ongoing_requests": held.most,
                "autoscaling_config": {
                    "min_replicas": source.min_replicas,
                    "max_replicas": source.max_replicas,
                    "target_ongoing_requests": threshold(held.target),
                },
            }
        ]
    }
    place = (
        "Put the deployment into the application of your Serve config; in LLMConfig the same two keys stand under"
        " deployment_config."
    )
    return Profile(files={"serve.yaml": as_yaml(document)}, unsaid=(place, *held.unsaid))


PLANNERS = {
    "keda": Planner(
        title="KEDA", phases=("aggregated",), make=_of_keda, loads=True, limits=True, takes=(*REPLICAS, "namespace")
    ),
    "ray": Planner(
        title="Ray Serve's autoscaler", phases=("aggregated",), make=_of_ray, loads=True, limits=True, takes=REPLICAS
    ),
}
