"""Routers in front of the instances of a deployment: each engine's own, as a script.

Sources: docs.sglang.io, router; github.com/vllm-project/router; nvidia.github.io/TensorRT-LLM, trtllm-serve."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping

import yaml

from sweepdb.launching.server_command import PORTS, Engine, Files, ServerCommand

SCRIPT = "router.sh"
_PORT = "8000"
_PLACES = "router.yaml"
_WIDE = " \\\n  "


def router_files(commands: list[ServerCommand]) -> Files:
    """The script of a router, and what it reads; nothing for one instance, or where its engine brings no router."""
    write = _ROUTERS.get(commands[0].engine)
    return {} if write is None or sum(one.instances for one in commands) == 1 else write(commands)


def _addresses(command: ServerCommand) -> Iterator[str]:
    """A name for the host of each instance, with its port."""
    return (f"{command.role.upper()}_{number}:{PORTS[command.role]}" for number in range(command.instances))


def _script(words: list[str], *flags: tuple[str, ...], edit: str = "in this file") -> str:
    lines = [shlex.join(words), *(shlex.join(flag) for flag in flags)]
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"# Write the addresses of the instances in place of the names {edit}.",
            "set -euo pipefail",
            f"exec {_WIDE.join(lines)}",
            "",
        ]
    )


def _by_role(commands: list[ServerCommand]) -> Iterator[tuple[str, ...]]:
    """Flags that name the instances: a list of servers, or one a prefill and decode instance."""
    for one in commands:
        urls = [f"http://{address}" for address in _addresses(one)]
        if one.role == "server":
            yield "--worker-urls", *urls
        else:
            yield from ((f"--{one.role}", url) for url in urls)


def _sglang(commands: list[ServerCommand]) -> Files:
    apart = [("--pd-disaggregation",)] if len(commands) > 1 else []
    words = ["python3", "-m", "sglang_router.launch_router"]
    return {SCRIPT: _script(words, *apart, *_by_role(commands), ("--port", _PORT))}


def _vllm(commands: list[ServerCommand]) -> Files:
    apart = [("--vllm-pd-disaggregation",)] if len(commands) > 1 else []
    evenly = ("--policy", "round_robin")  # as the prediction spreads requests
    where = (("--host", "0.0.0.0"), ("--port", _PORT))  # noqa: S104  a router is there to be reached
    return {SCRIPT: _script(["vllm-router"], *apart, *_by_role(commands), evenly, *where)}


def _trtllm(commands: list[ServerCommand]) -> Files:
    if len(commands) == 1:
        return {}
    sides = {"prefill": "context_servers", "decode": "generation_servers"}
    places: dict[str, object] = {"hostname": "0.0.0.0", "port": int(_PORT), "backend": "pytorch"}  # noqa: S104  the same
    for one in commands:
        places[sides[one.role]] = {"num_instances": one.instances, "urls": list(_addresses(one))}
    script = _script(["trtllm-serve", "disaggregated"], ("-c", _PLACES), edit=f"in {_PLACES}")
    return {
        SCRIPT: script.replace("\nexec ", '\ncd "$(dirname "$0")"\nexec '),
        _PLACES: yaml.safe_dump(places, sort_keys=False),
    }


_ROUTERS: Mapping[Engine, Callable[[list[ServerCommand]], Files]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
}
