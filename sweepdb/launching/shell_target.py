"""A deployment as shell scripts, one for each role and host. Values are quoted once, for the shell."""

from __future__ import annotations

import shlex

from sweepdb.launching.server_command import ENGINE_NAMES, PORTS, ServerCommand

_WIDE = " \\\n  "


def scripts(commands: list[ServerCommand]) -> dict[str, str]:
    """The scripts by file name."""
    return {
        script_name(one, host): _script(one, host) for one in commands for host in range(max(one.instance.nodes, 1))
    }


def script_name(command: ServerCommand, host: int) -> str:
    """`server.sh`, or `decode-host1.sh` where an instance spans hosts."""
    return f"{command.role}.sh" if command.instance.nodes == 1 else f"{command.role}-host{host}.sh"


def quoted(value: str) -> str:
    """A value for the shell; the address of the first host is a variable of the caller."""
    if "${MASTER_ADDR}" in value:
        return f'"{value}"'
    return shlex.quote(value)


def command_lines(command: ServerCommand, host: int) -> str:
    """The command with a flag a line."""
    words = [name if value is None else f"{name} {quoted(value)}" for name, value in command.words(host)]
    return _WIDE.join([shlex.join(command.program), *words])


def _script(command: ServerCommand, host: int) -> str:
    instance = command.instance
    spans = f", host {host} of {instance.nodes}" if instance.nodes > 1 else ""
    lines = [
        "#!/usr/bin/env bash",
        f"# {command.role}{spans}: {ENGINE_NAMES[command.engine]} {command.version} (image {command.image})",
        f"# Row {instance.probe}, {instance.batch_size} requests a replica and stage. Instances: {command.instances}.",
        f"# Devices of one instance: {command.devices}.",
        "set -euo pipefail",
    ]
    if instance.nodes > 1:
        lines.append(': "${MASTER_ADDR:?the address of host 0}"')
    if command.config is not None:
        lines.append('cd "$(dirname "$0")"')
    return "\n".join([*lines, f"exec {command_lines(command, host)}", ""])


def router_lines(commands: list[ServerCommand]) -> str | None:
    """The command that spreads requests over instances, None where the engine has none that is written here."""
    engine = commands[0].engine
    if engine == "sglang":
        words = ["python3", "-m", "sglang_router.launch_router"]
        words += ["--pd-disaggregation"] if len(commands) > 1 else []
        for one in commands:
            flag = {"server": "--worker-urls", "prefill": "--prefill", "decode": "--decode"}[one.role]
            urls = [f"http://{one.role.upper()}_{number}:{PORTS[one.role]}" for number in range(one.instances)]
            words += [flag, *urls] if flag == "--worker-urls" else [word for url in urls for word in (flag, url)]
        lines = ["#!/usr/bin/env bash", "# Write the addresses of the instances in place of the names."]
        return "\n".join([*lines, "set -euo pipefail", f"exec {shlex.join([*words, '--port', '8000'])}", ""])
    return None
