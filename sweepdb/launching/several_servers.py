"""Several servers as one deployment, of one row or of a pair: a script that starts those of a host, and their router.

Routers are the engines' own: vllm-router and SGLang's. TensorRT-LLM brings one for disaggregated serving alone, so
nginx stands before its servers. Requests go round, as the prediction spreads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweepdb.launching.server_command import HEALTH, PORTS, Engine, Files, ServerCommand, bash_script

START = "start.sh"
BOOTSTRAP_PORT = 8998  # of SGLang's first prefill instance
_NIXL_PORT, _NIXL_PORTS = 5600, 64  # of vLLM's first instance, and as many for each
_FIRST_PORT = 8001  # the router has 8000
_VLLM = 'exec vllm-router --worker-urls "${urls[@]}" --policy round_robin --host 0.0.0.0 --port 8000'
_SGLANG = (
    'exec python3 -m sglang_router.launch_router --worker-urls "${urls[@]}" --policy round_robin --host 0.0.0.0'
    " --port 8000"
)
_NGINX = """{
  echo "pid $PWD/router.pid; error_log stderr; events { worker_connections 4096; }"
  echo "http { access_log off; upstream servers {"
  printf '  server %s;\\n' "${urls[@]#http://}"
  echo "} server { listen 8000; location / { proxy_pass http://servers; proxy_http_version 1.1;"
  echo "  proxy_set_header Connection ''; proxy_buffering off; proxy_read_timeout 1h; } } }"
} > router.conf
exec nginx -p "$PWD" -c router.conf -g 'daemon off;'"""
_PROGRAMS: Mapping[Engine, str] = {"vllm": _VLLM, "sglang": _SGLANG, "trtllm": _NGINX}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an instance runs: its first host, its port there, and its devices where it has not all of them."""

    host: int
    port: int
    devices: tuple[int, ...]


def _places(command: ServerCommand) -> Iterator[_Place]:
    instance = command.instance
    held, each = instance.devices_a_node, instance.devices
    a_host = max(held // each, 1)
    for number in range(command.instances):
        host, place = (number * instance.nodes, 0) if a_host == 1 else divmod(number, a_host)
        devices = range(place * each, (place + 1) * each) if each < held else ()
        yield _Place(host, _FIRST_PORT + place, tuple(devices))


def hosts_of(command: ServerCommand) -> int:
    return max(place.host for place in _places(command)) + command.instance.nodes


def _hosts_lines(command: ServerCommand) -> list[str]:
    count = hosts_of(command)
    if count == 1:
        return ['read -r -a hosts <<< "${HOSTS:-127.0.0.1}"']
    example = " ".join(f"ADDRESS{number}" for number in range(count))
    return [
        f': "${{HOSTS:?the addresses of the {count} hosts, by blanks: HOSTS=\\"{example}\\"}}"',
        'read -r -a hosts <<< "$HOSTS"',
        f'[ "${{#hosts[@]}}" = {count} ] || {{ echo "HOSTS names ${{#hosts[@]}} hosts, not {count}" >&2; exit 2; }}',
    ]


def server_router(command: ServerCommand) -> Files:
    urls = " ".join(f'"http://${{hosts[{place.host}]}}:{place.port}"' for place in _places(command))
    said = f"One address for {command.instances} servers: http://THIS_HOST:8000. start.sh starts it on host 0."
    lines = [
        'cd "$(dirname "$0")"',
        *_hosts_lines(command),
        f"urls=({urls})",
        'for url in "${urls[@]}"; do',
        f'  until curl -sf -o /dev/null "$url{HEALTH}"; do sleep 2; done',
        "done",
        _PROGRAMS[command.engine],
    ]
    return {"router.sh": bash_script([said], lines)}


def start_files(command: ServerCommand, scripts: tuple[str, ...]) -> Files:
    """start.sh: the servers of one host, on host 0 the router, too. `scripts` start the parts of one instance."""
    count, started = hosts_of(command), dict[int, list[str]]()
    for number, place in enumerate(_places(command)):
        for part, script in enumerate(scripts):
            said = [f"PORT={place.port}"]
            if place.devices:
                said.insert(0, f"CUDA_VISIBLE_DEVICES={','.join(map(str, place.devices))}")
            if len(scripts) > 1:
                said.append(f'MASTER_ADDR="${{hosts[{place.host}]}}"')
            line = f'  {" ".join(said)} "./${{kind}}{script}" > server-{number}.log 2>&1 &'
            started.setdefault(place.host + part, []).append(line)
    each = f"NODE=0 ./start.sh on the first host, up to NODE={count - 1}, each with the same HOSTS"
    said = [
        f"Starts {command.instances} servers and the router before them: {each if count > 1 else './start.sh'}.",
        "PRODUCTION=1 serves without the limits that reproduce the row. Whatever ends first ends all of them.",
    ]
    lines = [
        'cd "$(dirname "$0")"',
        'NODE="${NODE:-0}" kind="${PRODUCTION:+production-}"',
        *_hosts_lines(command),
        "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT",
        'case "$NODE" in',
        *(line for host, each in sorted(started.items()) for line in (f"{host})", *each, "  ;;")),
        f'*) echo "NODE=$NODE is not one of 0 to {count - 1}" >&2; exit 2 ;;',
        "esac",
        'if [ "$NODE" = 0 ]; then ./router.sh & fi',
        "wait -n",
    ]
    return {START: bash_script(said, lines)}


def on_a_host(commands: Sequence[ServerCommand]) -> bool:
    """Whether a pair's instances are all on one host: nobody but `launch` need say where they are."""
    needed = sum(one.instances * one.instance.devices for one in commands)
    return len(commands) > 1 and needed <= min(one.instance.devices_a_node for one in commands)


def pair_start(commands: Sequence[ServerCommand]) -> Files:
    """start.sh of a pair on one host: every instance on its own devices and ports, and the router when all answer."""
    counts = " and ".join(f"{one.instances} {one.role}" for one in commands)
    ready = [
        f'until curl -sf -o /dev/null "http://127.0.0.1:{PORTS[one.role] + number}{HEALTH}"; do sleep 2; done'
        for one in commands
        for number in range(one.instances)
    ]
    said = [
        f"Starts {counts} instances on this host, and their router: http://THIS_HOST:8000.",
        "PRODUCTION=1 serves without the limits that reproduce the rows. Whatever ends first ends all of them.",
    ]
    lines = [
        'cd "$(dirname "$0")"',
        'kind="${PRODUCTION:+production-}"',
        "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT",
        *_instances_of_pair(commands),
        "{",
        *(f"  {line}" for line in ready),
        "  exec ./router.sh",
        "} &",
        "wait -n",
    ]
    return {START: bash_script(said, lines)}


def _instances_of_pair(commands: Sequence[ServerCommand]) -> Iterator[str]:
    started = 0
    for one in commands:
        for number in range(one.instances):
            devices = range(started, started + one.instance.devices)
            said = [f"CUDA_VISIBLE_DEVICES={','.join(map(str, devices))}", f"PORT={PORTS[one.role] + number}"]
            if one.engine == "vllm":
                said.append(f"VLLM_NIXL_SIDE_CHANNEL_PORT={_NIXL_PORT + started * _NIXL_PORTS}")
            if one.engine == "sglang" and one.role == "prefill":
                said.append(f"BOOTSTRAP={BOOTSTRAP_PORT + number}")
            yield f'{" ".join(said)} "./${{kind}}{one.role}.sh" &'
            started += one.instance.devices
