"""launch: a stored row into the files that start it. Not here: what the files say (sweepdb.launching)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.derived import as_typed
from cli.output import say, write_text
from cli.shared_options import OUTPUT_SHAPE, StoreOption, output_path
from sweepdb.stores import is_standard_output, is_stream


def launch(  # noqa: PLR0917  one parameter an option
    rows: Annotated[list[str], typer.Argument(help="PROBE, or PREFILL DECODE with their instances: 4P1D")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            parser=output_path,
            metavar=OUTPUT_SHAPE,
            help="the folder to write; a pipe, or standard output (-), gets it as a tar archive",
        ),
    ],
    engine: Annotated[str | None, typer.Option(help="vllm, sglang or trtllm [default: the row's]")] = None,
    engine_version: Annotated[
        str | None, typer.Option(help="flags of this version [default: the newest known]")
    ] = None,
    draft_model: Annotated[
        str | None, typer.Option(help="id or folder of the draft, of rows that draft with a model beside theirs")
    ] = None,
    target: Annotated[str, typer.Option(help="shell, compose, k8s, llm-d, kserve or dynamo")] = "shell",
    force: Annotated[bool, typer.Option("--force", help="write into a folder that is not empty")] = False,
    store: StoreOption = None,
) -> int:
    """Write what starts a stored row as it was evaluated: scripts, settings, manifests, a benchmark, expectations."""
    from sweepdb.launching import write_launch

    found = write_launch(
        rows,
        output,
        engine=engine,
        engine_version=engine_version,
        draft_model=draft_model,
        target=target,
        force=force,
        store=store,
    )
    if is_standard_output(output):
        say("\n".join(found.files))
    else:
        write_text(f"{name if is_stream(output) else output / name}\n" for name in found.files)
    for line in found.not_set:
        say(as_typed(f"not set: {line}"))
    return 0
