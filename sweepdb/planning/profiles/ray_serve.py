"""Ray Serve's autoscaling of one deployment: the ongoing requests of a replica, as a piece of a Serve config."""

from __future__ import annotations

import yaml

from sweepdb.planning.profiles.held_load import held_load, threshold
from sweepdb.planning.profiles.planner import REPLICAS, Planner, Profile, ProfileSource


def _profile(source: ProfileSource) -> Profile:
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
    return Profile(
        files={"serve.yaml": yaml.safe_dump(document, sort_keys=False).encode()}, unsaid=(place, *held.unsaid)
    )


PLANNERS = {
    "ray": Planner(
        title="Ray Serve's autoscaler", phases=("aggregated",), make=_profile, loads=True, limits=True, takes=REPLICAS
    )
}
