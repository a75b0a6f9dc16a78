"""The reference page of commands, from the parser's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from cli.derived import OLD_FLAGS
from cli.help.commands import COMMANDS, examples_of_commands
from cli.help.headings import heading_of, in_order
from cli.help.report_help import few_takers
from cli.main import build_app
from sweepdb.asking import OLD_COLUMNS, OLD_NAMES

_INTRODUCTION = """# Commands

`sweepdb COMMAND --help-all` prints the same, and `sweepdb query REPORT -h` the options of one report
([reports](queries.md)).

Options of `sweepdb` itself may stand anywhere in a line. Answers go to standard output, everything else to standard
error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug |
| 2 | wrong usage or input |
| 3 | the store or the machine |
| 4 | some scenarios failed |
| 5 | nothing satisfies the limits (`--fail-empty`), a number got worse (`--fail-over`), or `watch` found a change |
| 130 | interrupted; what was acknowledged is kept |

## Completion

| shell | once |
|---|---|
| bash | `eval "$(sweepdb --show-completion bash)"` in `~/.bashrc` |
| zsh | `sweepdb --show-completion zsh > ~/.zfunc/_sweepdb`, with `fpath+=~/.zfunc` before `compinit` in `~/.zshrc` |
| fish | `sweepdb --show-completion fish > ~/.config/fish/completions/sweepdb.fish` |

Completed are commands, options and their words, models, devices, engines and reports. Workloads, sweeps and rows come
from the store that the line, `SWEEPDB_STORE` or the folder names.

## Where an answer goes

`--output`, `--proof` and `--profile` name a file, which is written whole or not at all. `-` is standard output. A
pipe, a terminal, `/dev/null` or an open descriptor such as `/dev/fd/3` is written to and stays what it is. Of a link,
the file behind it is replaced. Folders, sockets and disks are refused.

```sh
sweepdb query best --format parquet --output - | aws s3 cp - s3://answers/best.parquet
sweepdb launch a1b2c3d4:18 --output - | ssh server tar -x
```

`launch` writes a folder: to a pipe or standard output it goes as a tar archive. `calibrate --profile -` prints its
table of errors on standard error.

## On a terminal

Tables are as wide as the terminal (`COLUMNS` says otherwise): what every row has in common is said once above, long
texts are broken, and columns that still have no room are named below. `slack` is the room to the nearest limit on a
time, in percent of it. `--wide` shows every column, `--explain` the rules, the cost model and what was assumed.
`NO_COLOR` is obeyed. Pipes and files get the same plain text everywhere.
"""


def command_page() -> str:
    program = typer.main.get_command(build_app())
    parts = [_INTRODUCTION, "## Options of every command\n", *_options(program, "sweepdb")]
    for heading, names in COMMANDS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            parts += _command(program.commands[name], name)  # type: ignore[attr-defined]
    return "\n".join([*parts, *_old_names()])


def _old_names() -> Iterator[str]:
    """Each with its name of today."""
    flags = {f"`{old}`, `{_keyword(old)}=`": f"`{new}`, `{_keyword(new)}=`" for old, new in OLD_FLAGS.items()}
    reports = {f"`query {old}`": f"`query {new} --by goodput`" for old, new in OLD_NAMES.items()}
    yield "## Old names\n"
    yield "These work until the next release. The command line and Python say the new name.\n"
    rows = (f"| {old} | {new} |" for old, new in sorted({**flags, **reports}.items()))
    yield "\n".join(["| old | new |", "|---|---|", *rows, ""])
    yield "Columns. Views have both names until the next release; answers and their files have the new one.\n"
    named = (f"| `{old}` | `{new}` |" for old, new in sorted(OLD_COLUMNS.items()))
    yield "\n".join(["| old | new |", "|---|---|", *named, ""])


def _keyword(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _command(command: Any, name: str) -> Iterator[str]:  # noqa: ANN401  of one Typer or another
    if hasattr(command, "commands"):
        for inner in command.commands:
            yield from _command(command.commands[inner], f"{name} {inner}")
        return
    yield f"### {name}\n"
    yield " ".join((command.help or "").split()) + "\n"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = "".join(f" [{one.name}{' ...' if one.nargs == -1 else ''}]" for one in arguments)
    yield "\n".join(["```sh", *(f"sweepdb {one}" for one in examples_of_commands()[command.name]), "```", ""])
    yield f"`sweepdb {name}{words} [options]`\n"
    if arguments:
        yield "\n".join(
            ["| argument | |", "|---|---|", *(f"| `{one.name}` | {_cell(one.help)} |" for one in arguments), ""]
        )
    yield from _options(command, command.name)


def _options(command: Any, name: str) -> Iterator[str]:  # noqa: ANN401  of one Typer or another
    takers = few_takers() if name == "query" else {}
    sections: dict[str, list[str]] = {}
    for one in command.params:
        if one.param_type_name == "option" and not one.hidden and one.name != "help":
            spelled = ", ".join(f"`{word}`" for word in (*one.opts, *one.secondary_opts) if word not in OLD_FLAGS)
            beside = f" ({takers[one.name]})" if one.name in takers else ""
            sections.setdefault(heading_of(name, one.name), []).append(f"| {spelled} | {_cell(one.help)}{beside} |")
    for heading in in_order(sections):
        yield "\n".join([f"| {heading} | |", "|---|---|", *sections[heading], ""])


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
