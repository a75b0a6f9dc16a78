"""models, devices, workloads, support and prices: lists, and one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import check_format, say, write_rows
from cli.shared_options import FormatOption, OutputOption, StoreOption, parse_numbers
from store.errors import InputError
from sweepdb import catalogue, evaluating, stores

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def models(
    name: Annotated[str | None, typer.Argument(help="show this model")] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
) -> None:
    """List the model catalogue, or show one model."""
    check_format(format_, output)
    if name is not None:
        found, spec = catalogue.load_model(name)
        count = catalogue.parameter_count(spec)
        counted = {"name": found, "parameters": count.total, "active_parameters": count.active}
        _show_one(counted, spec, format_, output)
        return
    rows = []
    for known in catalogue.list_models():
        spec = catalogue.load_model(known)[1]
        count = catalogue.parameter_count(spec)
        layers = sum(group.count for group in spec.layers)
        rows.append([known, spec.architecture, count.total / 1e9, count.active / 1e9, layers, spec.hidden_size,
                     spec.native_linear, spec.native_experts, spec.native_mixers, spec.native_head,
                     spec.native_drafts])  # fmt: skip
    columns = ("model", "architecture", "billion_parameters", "billion_active", "layers", "hidden_size",
               "native_linear", "native_experts", "native_mixers", "native_head", "native_drafts")  # fmt: skip
    write_rows(columns, rows, format_, output)


def devices(
    name: Annotated[str | None, typer.Argument(help="show this device, or: add")] = None,
    file: Annotated[Path | None, typer.Argument(help="profile to add")] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
) -> None:
    """List device profiles, show one, or add one of your own (devices add FILE.yaml)."""
    check_format(format_, output)
    if name == "add":
        if file is None:
            raise InputError(
                "devices add needs a FILE.yaml", hint="docs/howto/describe-what-you-serve.md explains every key"
            )
        added = catalogue.add_device(file)
        say(f"{added.name} added; use it with: --device {added.name}")
        return
    if name is not None:
        _show_one({}, catalogue.load_device(name), format_, output)
        return
    rows = []
    for known in catalogue.list_devices():
        profile = catalogue.load_device(known)
        rows.append([
            profile.name, profile.vendor, profile.family, catalogue.kernels_of(profile),
            catalogue.effective_rate(profile.matrix_flops_per_s, profile.compute_efficiency) / 1e12,
            catalogue.effective_rate(profile.vector_flops_per_s, profile.compute_efficiency) / 1e12,
            profile.memory_bandwidth_bytes_per_s * profile.memory_efficiency / 1e12, profile.memory_bytes / 2**30,
            " x ".join(map(str, profile.grid)),
            " | ".join(f"{link.bandwidth_bytes_per_s * link.efficiency / 1e9:g}" for link in profile.links),
        ])  # fmt: skip
    columns = ("device", "vendor", "family", "kernels", "matrix_tflops", "vector_tflops", "memory_tb_per_s",
               "memory_gib", "grid", "links_gb_per_s")  # fmt: skip
    write_rows(columns, rows, format_, output)


def _show_one(counted: dict[str, object], record: DataclassInstance, format_: str, output: Path | None) -> None:
    """A line a part in a table, else as it is."""
    if format_ == "table":
        from cli.render.catalogue_tables import record_rows

        write_rows(("field", "value"), [*counted.items(), *record_rows(record)], "table", output)
        return
    from dataclasses import asdict

    values = {**counted, **asdict(record)}
    write_rows(list(values), [list(values.values())], format_, output)


def support(
    model: Annotated[str | None, typer.Argument(help="id, directory or config.json")] = None,
    device: Annotated[str | None, typer.Argument(help="device name or profile file")] = None,
    engine: Annotated[str | None, typer.Argument(help="serving engine")] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
) -> None:
    """Show what is exact, fitted, carried over or refused, of all that ships or of what is named: a model, a device, an
    engine, or some of them."""
    check_format(format_, output)
    if model is None:
        rows = [[what, name, part.state, part.how] for what, name, part in catalogue.support_table()]
        write_rows(("what", "name", "state", "how"), rows, format_, output)
        return
    parts = catalogue.supported_words([word for word in (model, device, engine) if word is not None])
    write_rows(("part", "state", "how"), [[one.part, one.state, one.how] for one in parts], format_, output)


def workloads(  # noqa: PLR0917  one parameter an option
    action: Annotated[str, typer.Argument(help="list, show or add")] = "list",
    name: Annotated[str | None, typer.Argument(help="its name")] = None,
    input_length: Annotated[str | None, typer.Option(help="prompt tokens, or a length distribution FILE")] = None,
    output_length: Annotated[float | None, typer.Option(help="generated tokens")] = None,
    trace: Annotated[Path | None, typer.Option(help="request log (CSV or JSONL) to reduce to bins")] = None,
    trace_bins: Annotated[int, typer.Option(help="quantiles of prompt length a trace is reduced to")] = 16,
    prefix_cache_hit_rate: Annotated[
        float, typer.Option(help="share of a prompt found in cache; from 0, below 1")
    ] = 0.0,
    max_num_batched_tokens: Annotated[int, typer.Option(help="most tokens of one step of a replica")] = 8192,
    num_mtp_tokens: Annotated[int, typer.Option(help="tokens drafted a step, 0-9")] = 0,
    mtp_acceptance_rate: Annotated[str | None, typer.Option(help="acceptance of each drafted token")] = None,
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Named workloads of the store: list, show, add."""
    check_format(format_, output)
    if action == "list":
        columns, rows = evaluating.listed_workloads(store)
    elif action == "show" and name is not None:
        sentence, (columns, rows) = evaluating.shown_workload(name, store)
        say(sentence)
    elif action == "add" and name is not None:
        if (trace is None) == (input_length is None):
            raise InputError("workloads add needs --input-length (a number or a FILE) or --trace FILE")
        said = evaluating.add_workload(
            name,
            store,
            input_length=input_length,
            output_length=output_length,
            trace=trace,
            trace_bins=trace_bins,
            prefix_cache_hit_rate=prefix_cache_hit_rate,
            max_batched_tokens=max_num_batched_tokens,
            mtp_tokens=num_mtp_tokens,
            mtp_acceptance=parse_numbers(mtp_acceptance_rate, "--mtp-acceptance-rate", float),
        )
        say(said)
        return
    else:
        raise InputError(
            f"workloads {action} is not one of: list, show NAME, add NAME", hint="sweepdb workloads --help"
        )
    write_rows(columns, rows, format_, output)


def _prices_of(words: list[str], usd_per_device_hour: float | None) -> dict[str, float | None]:
    if len(words) == 1:
        return {words[0]: usd_per_device_hour}
    if usd_per_device_hour is not None:
        raise InputError(
            f"prices set {' '.join(words)}: give prices behind the devices or `usd_per_device_hour`, not both",
            hint="sweepdb prices set h100 2.5 h200 3.5",
        )
    found: dict[str, float | None] = {}
    for place in range(0, len(words), 2):
        try:
            found[words[place]] = float(words[place + 1])
        except (IndexError, ValueError):
            wrong = words[place + 1] if place + 1 < len(words) else "nothing"
            raise InputError(
                f"prices set: behind {words[place]} stands {wrong}, not its dollars an hour",
                hint="sweepdb prices set h100 2.5 h200 3.5",
            ) from None
    return found


def prices(  # noqa: PLR0917  one parameter an option
    action: Annotated[str, typer.Argument(help="list, set DEVICE ..., or import FILE.csv")] = "list",
    names: Annotated[
        list[str] | None, typer.Argument(help="a device, several as DEVICE USD DEVICE USD, or a CSV file")
    ] = None,
    usd_per_device_hour: Annotated[float | None, typer.Option(help="dollars for one device and hour")] = None,
    watts_per_device: Annotated[float | None, typer.Option(help="power of one device")] = None,
    effective_from: Annotated[str | None, typer.Option("--from", help="ISO date [default: today]")] = None,
    source: Annotated[str, typer.Option(help="where the figures come from")] = "",
    format_: FormatOption = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> int:
    """Dated prices and power of devices: list, set, import; `query cost` joins them."""
    check_format(format_, output)
    from sweepdb import prices

    if action == "list" and not names:
        write_rows(prices.COLUMNS, prices.listed_prices(store), format_, output)
        return 0
    if action == "set" and names:
        from datetime import UTC, datetime

        day = effective_from or datetime.now(UTC).date().isoformat()
        entered = prices.enter(
            [
                stores.PriceRecord(
                    device_name=device,
                    effective_from=day,
                    usd_per_device_hour=usd,
                    watts_per_device=watts_per_device,
                    source=source,
                )
                for device, usd in _prices_of(names, usd_per_device_hour).items()
            ],
            store,
        )
    elif action == "import" and names and len(names) == 1:
        entered = prices.enter(prices.read_prices(Path(names[0])), store)
    elif action in {"set", "import"}:
        needed = "a DEVICE" if action == "set" else "a FILE.csv"
        raise InputError(f"prices {action} needs {needed}", hint="sweepdb prices --help")
    else:
        raise InputError(
            f"prices {' '.join([action, *(names or [])])} is not one of: list, set DEVICE, import FILE.csv",
            hint="sweepdb prices --help",
        )
    for item in entered:
        figures = ((item.usd_per_device_hour, "USD/h"), (item.watts_per_device, "W"))
        said = ", ".join(f"{value:g} {unit}" for value, unit in figures if value is not None)
        say(f"{item.device_name} from {item.effective_from}: {said}")
    return 0
