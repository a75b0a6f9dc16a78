"""Shell scripts by role and host, scripts that start those of a host, and the engine's router.

Values are quoted once. Sources: nvidia.github.io/TensorRT-LLM, trtllm-serve; docs.sglang.io, router;
github.com/vllm-project/router. TensorRT-LLM brings a router for disaggregated serving alone, so nginx stands before its
servers. Requests go round, as the prediction spreads them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from sweepdb.launching.server_command import ENGINE_NAMES, HEALTH, PORTS, Engine, Files, ServerCommand, bash_script
from sweepdb.launching.sglang_flags import ENCODER_PORT, encoder_settings
from sweepdb.launching.stored_instance import StoredInstance

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


_WIDE = " \\\n  "


def scripts(commands: list[ServerCommand]) -> dict[str, str]:
    return {script_name(one, host): _script(one, host) for one in commands for host in range(scripts_of(one))}


def encoder_scripts(commands: list[ServerCommand]) -> dict[str, str]:
    return {f"encoder-of-{one.role}.sh": _encoder_script(one) for one in commands if one.instance.plan.encoder_devices}


def _encoder_script(command: ServerCommand) -> str:
    number = command.instance.plan.encoder_devices
    settings = encoder_settings(command.instance, command.version).items()
    flags = [name if value is None else f"{name} {quoted(value)}" for name, value in settings]
    last = number - 1
    said = (
        f"encoders of each {command.role} instance: SGLang {command.version} (image {command.image})",
        f"Row {command.instance.probe}. Start it {number} {'time' if number == 1 else 'times'} an instance,",
        f"on a device each: ENCODER=0{f' to {last}' if last else ''}; {command.role}.sh names their hosts.",
    )
    words = _WIDE.join([shlex.join(command.program), *flags, f"--port $(({ENCODER_PORT} + ENCODER))"])
    return bash_script(said, [f': "${{ENCODER:?the number of the encoder, 0 to {last}}}"', f"exec {words}"])


def scripts_of(command: ServerCommand) -> int:
    """One a host; TensorRT-LLM starts all ranks from one place."""
    return 1 if command.engine == "trtllm" else max(command.instance.nodes, 1)


def script_name(command: ServerCommand, host: int) -> str:
    name = f"{command.prefix}{command.role}"
    return f"{name}.sh" if scripts_of(command) == 1 else f"{name}-host{host}.sh"


def quoted(value: str) -> str:
    """The first host's address is the caller's variable."""
    if "${MASTER_ADDR}" in value:
        return f'"{value}"'
    return shlex.quote(value)


def command_lines(command: ServerCommand, host: int) -> str:
    words = [name if value is None else f"{name} {_value(name, value)}" for name, value in command.words(host)]
    words = [f'--port "{command.port}"' if word.startswith("--port ") else word for word in words]
    if command.engine == "sglang" and command.role == "prefill":
        words.append(f'--disaggregation-bootstrap-port "${{BOOTSTRAP:-{BOOTSTRAP_PORT}}}"')
    return _WIDE.join([shlex.join(command.program), *words])


def _value(name: str, value: str) -> str:
    return " ".join(map(quoted, value.split(" "))) if name == "--encoder-urls" else quoted(value)


def _script(command: ServerCommand, host: int) -> str:
    instance = command.instance
    spans = f", host {host} of {instance.nodes}" if scripts_of(command) > 1 else ""
    said = [
        f"{command.role}{spans}: {ENGINE_NAMES[command.engine]} {command.version} (image {command.image})",
        f"{_of_the_row(command)} Instances: {command.instances}.",
        f"Devices of one instance: {command.devices}.",
    ]
    if instance.plan.encoder_devices:
        said.append("Write the addresses of its encoders in place of the names ENCODER_0 and so on.")
    lines: list[str] = []
    if scripts_of(command) > 1:
        lines.append(': "${MASTER_ADDR:?the address of host 0}"')
    if command.engine == "vllm" and command.role != "server":
        lines += _NIXL
    if command.config is not None:
        lines.append('cd "$(dirname "$0")"')
    launcher = ""
    if command.engine == "trtllm" and instance.nodes > 1:
        lines += _launcher_lines(instance)
        launcher = '"${launcher[@]}" trtllm-llmapi-launch '
    return bash_script([*said, *command.explained], [*lines, f"exec {launcher}{command_lines(command, host)}"])


def _of_the_row(command: ServerCommand) -> str:
    instance = command.instance
    if command.prefix:
        return f"To serve with: the plan, formats and token budget of row {instance.probe}, without its limits."
    return f"Row {instance.probe}, {instance.batch_size} requests a replica and stage."


# Where the other side fetches keys and values from: by default this host alone.
_NIXL = (
    'export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -i)}"',
    'export VLLM_NIXL_SIDE_CHANNEL_PORT="${VLLM_NIXL_SIDE_CHANNEL_PORT:-5600}"',
)


def _launcher_lines(instance: StoredInstance) -> list[str]:
    ranks, hosts, each = instance.devices, instance.nodes, instance.devices // instance.nodes
    example = ",".join(f"HOST{number}:{each}" for number in range(hosts))
    slurm = f"srun -N {hosts} --ntasks {ranks} --ntasks-per-node {each} --mpi=pmix --gres=gpu:{each} ${{SRUN_ARGS:-}}"
    return [
        f"# Run it once: in an allocation of {hosts} hosts of Slurm, or with LAUNCHER=mpirun HOSTS={example}.",
        "# The folder must be at one place on all hosts; SRUN_ARGS are more arguments of srun, such as a container's.",
        'case "${LAUNCHER:-srun}" in',
        f"srun) launcher=({slurm}) ;;",
        f'mpirun) launcher=(mpirun -n {ranks} -H "${{HOSTS:?{example}}}" --allow-run-as-root) ;;',
        '*) echo "LAUNCHER=$LAUNCHER is not one of srun, mpirun" >&2; exit 2 ;;',
        "esac",
    ]


SCRIPT = "router.sh"
_PORT = "8000"
_PLACES = "router.yaml"


def router_files(commands: list[ServerCommand]) -> Files:
    """Nothing for one instance, or without a router of the engine's."""
    if commands[0].several:
        return server_router(commands[0])
    write = _ROUTERS.get(commands[0].engine)
    return {} if write is None or sum(one.instances for one in commands) == 1 else write(commands)


def _addresses(commands: list[ServerCommand]) -> Iterator[tuple[ServerCommand, str, int]]:
    """With addresses on one host, and the port by which SGLang's pools meet."""
    known = on_a_host(commands)
    for one in commands:
        for number in range(one.instances):
            host, port = ("127.0.0.1", number) if known else (f"{one.role.upper()}_{number}", 0)
            yield one, f"{host}:{PORTS[one.role] + port}", BOOTSTRAP_PORT + port


def _router(
    commands: list[ServerCommand], words: list[str], *flags: tuple[str, ...], edit: str = "in this file"
) -> str:
    lines = [shlex.join(words), *(shlex.join(flag) for flag in flags)]
    said = f"Write the addresses of the instances in place of the names {edit}."
    if on_a_host(commands):
        said = f"start.sh starts it where the instances are on this host; else write their addresses {edit}."
    return bash_script([said], [f"exec {_WIDE.join(lines)}"])


def _by_role(commands: list[ServerCommand]) -> Iterator[tuple[str, ...]]:
    for one, address, bootstrap in _addresses(commands):
        found_by = (str(bootstrap),) if one.engine == "sglang" and one.role == "prefill" else ()
        yield (f"--{one.role}", f"http://{address}", *found_by)


def _sglang_router(commands: list[ServerCommand]) -> Files:
    words = ["python3", "-m", "sglang_router.launch_router", "--pd-disaggregation"]
    return {SCRIPT: _router(commands, words, *_by_role(commands), ("--port", _PORT))}


def _vllm_router(commands: list[ServerCommand]) -> Files:
    evenly = ("--policy", "round_robin")  # as the prediction spreads requests
    where = (("--host", "0.0.0.0"), ("--port", _PORT))  # noqa: S104  a router is there to be reached
    flags = (("--vllm-pd-disaggregation",), *_by_role(commands), evenly, *where)
    return {SCRIPT: _router(commands, ["vllm-router"], *flags)}


def _trtllm_router(commands: list[ServerCommand]) -> Files:
    sides = {"prefill": "context_servers", "decode": "generation_servers"}
    places: dict[str, object] = {"hostname": "0.0.0.0", "port": int(_PORT), "backend": "pytorch"}  # noqa: S104  the same
    for one in commands:
        urls = [address for of, address, _ in _addresses(commands) if of is one]
        places[sides[one.role]] = {"num_instances": one.instances, "urls": urls}
    script = _router(commands, ["trtllm-serve", "disaggregated"], ("-c", _PLACES), edit=f"in {_PLACES}")
    return {
        SCRIPT: script.replace("\nexec ", '\ncd "$(dirname "$0")"\nexec '),
        _PLACES: yaml.safe_dump(places, sort_keys=False),
    }


_ROUTERS: Mapping[Engine, Callable[[list[ServerCommand]], Files]] = {
    "vllm": _vllm_router,
    "sglang": _sglang_router,
    "trtllm": _trtllm_router,
}
