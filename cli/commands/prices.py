"""prices: what devices cost and draw, by date. Not here: joining them to answers (query cost)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import check_format, say, write_rows
from cli.shared_options import FormatOption, OutputOption, StoreOption
from store.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("prices")(prices)


def prices(  # noqa: PLR0917  one parameter an option
    action: Annotated[str, typer.Argument(help="list, set DEVICE, or import FILE.csv")] = "list",
    name: Annotated[str | None, typer.Argument(help="a device, or a CSV file")] = None,
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

    if action == "list" and name is None:
        write_rows(prices.COLUMNS, prices.listed_prices(store), format_, output)
        return 0
    if action == "set" and name is not None:
        from datetime import UTC, datetime

        from sweepdb.stores import PriceRecord

        record = PriceRecord(
            device_name=name,
            effective_from=effective_from or datetime.now(UTC).date().isoformat(),
            usd_per_device_hour=usd_per_device_hour,
            watts_per_device=watts_per_device,
            source=source,
        )
        entered = prices.enter([record], store)
    elif action == "import" and name is not None:
        entered = prices.enter(prices.read_prices(Path(name)), store)
    elif action in {"set", "import"}:
        needed = "a DEVICE" if action == "set" else "a FILE.csv"
        raise InputError(f"prices {action} needs {needed}", hint="sweepdb prices --help")
    else:
        raise InputError(
            f"prices {action}{f' {name}' if name else ''} is not one of: list, set DEVICE, import FILE.csv",
            hint="sweepdb prices --help",
        )
    for item in entered:
        figures = ((item.usd_per_device_hour, "USD/h"), (item.watts_per_device, "W"))
        said = ", ".join(f"{value:g} {unit}" for value, unit in figures if value is not None)
        say(f"{item.device_name} from {item.effective_from}: {said}")
    return 0
