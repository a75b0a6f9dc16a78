"""Reports that read no store: logs in files, and closed forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.output import write_rows
from store.errors import InputError

_LIMITS = {"ttft_limit": "ttft_ms", "tpot_limit": "tpot_ms", "e2e_limit": "e2e_ms"}
_OF_PREFIXES = ("model", "device", "input_length", "num_devices", "kv_transfer_gb_per_s")


def answer_storeless(
    report: str, names: Sequence[str], options: Mapping[str, Any], format_: str, output: Path | None
) -> int:
    """Refuses options about stored rows."""
    takes = _LIMITS if report == "conforming" else _OF_PREFIXES
    for keyword, value in options.items():
        if keyword not in takes and value not in {None, (), False}:
            if keyword == "preset" and value == "sweepdb":
                continue
            raise InputError(f"report {report} does not take `{keyword}`", hint=f"it takes {', '.join(takes)}")
    as_rows = "json" if format_ == "json-full" else format_
    return (
        _conforming(names, options, as_rows, output)
        if report == "conforming"
        else _bandwidth(names, options, as_rows, output)
    )


def _conforming(files: Sequence[str], options: Mapping[str, Any], format_: str, output: Path | None) -> int:
    from sweepdb.measuring import CONFORMING_COLUMNS, conforming

    if not files:
        raise InputError("report conforming reads logs", hint="query conforming FILE... --ttft-limit 200")
    limits = {name: options[keyword] for keyword, name in _LIMITS.items()}
    found = conforming([Path(name) for name in files], **limits)
    write_rows(
        CONFORMING_COLUMNS, [[getattr(one, name) for name in CONFORMING_COLUMNS] for one in found], format_, output
    )
    return 0


def _bandwidth(names: Sequence[str], options: Mapping[str, Any], format_: str, output: Path | None) -> int:
    from sweepdb.evaluating import BANDWIDTH_COLUMNS, BANDWIDTH_DEVICES, prefix_transfer

    if names:
        raise InputError(f"report bandwidth takes no names, but got {' '.join(names)}")
    length = options["input_length"]
    if not options["model"] or not options["device"] or length is None or not str(length).isdecimal():
        raise InputError(
            "report bandwidth needs `model`, `device` and `input_length`, in tokens",
            hint="query bandwidth --model Qwen/Qwen3-32B --device h100_sxm --input-length 8192",
        )
    rows = []
    for model in str(options["model"]).split(","):
        for device in str(options["device"]).split(","):
            found = prefix_transfer(
                model,
                device,
                input_length=int(length),
                num_devices=options["num_devices"] or BANDWIDTH_DEVICES,
                kv_transfer_gb_per_s=options["kv_transfer_gb_per_s"],
            )
            rows.append([getattr(found, name) for name in BANDWIDTH_COLUMNS])
    write_rows(BANDWIDTH_COLUMNS, rows, format_, output)
    return 0
