"""The seeds' blocks and boxed tables (seed 000 section 2.4, seed 001, seed 002 7.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cli.render.answers import bias_notes
from sweepdb.asking import relaxed_to
from sweepdb.catalogue import DeviceProfile, effective_rate
from sweepdb.optimizing import DeviceRun, OptimizerOptions, Table

WIDTH = 80
GIB = 2**30
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Field:
    """Heading (newlines break it), and a row's text."""

    heading: str
    text: str  # a format string over the row


def boxed(fields: Sequence[Field], rows: Sequence[Row], *, indent: str = "") -> Iterator[str]:
    heads = [field.heading.split("\n") for field in fields]
    height = max(len(head) for head in heads)
    padded = [head + [""] * (height - len(head)) for head in heads]
    cells = [[field.text.format(**row) for field in fields] for row in rows]
    widths = [max(map(len, (*head, *(row[index] for row in cells)))) + 2 for index, head in enumerate(padded)]
    rule = indent + "+" + "+".join("-" * width for width in widths) + "+"
    yield rule
    for line in zip(*padded, strict=True):
        yield indent + "|" + "|".join(text.center(width) for text, width in zip(line, widths, strict=True)) + "|"
    yield rule
    for row in cells:
        yield indent + "|" + "|".join(text.center(width) for text, width in zip(row, widths, strict=True)) + "|"
    yield rule


def parallel_label(row: Row) -> str:
    """`TP=8 | PP=1 | DP=1`, with the expert split of mixtures."""
    value = {name: row[name] for name in ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp")}
    text = f"TP={value['tp']} | PP={value['pp']} | DP={value['dp']}"
    if (value["ep"], value["moe_tp"], value["moe_dp"]) != (1, 1, 1):
        text += f" | EP={value['ep']} | MOE-TP={value['moe_tp']} | MOE-DP={value['moe_dp']}"
    return f"{text} | MTP={drafts}" if (drafts := row.get("mtp_tokens")) else text


def label_of_plan(plan: str) -> str:
    """From a curve's label, `tp8pp1dp1`."""
    sizes = {_OF_LABEL[name]: int(size) for name, size in _SIZE.findall(plan)}
    return parallel_label({"ep": 1, "moe_tp": 1, "moe_dp": 1} | sizes)


_SIZE = re.compile(r"(moetp|moedp|tp|pp|dp|ep)(\d+)")
_OF_LABEL = {"tp": "tp", "pp": "pp", "dp": "dp", "ep": "ep", "moetp": "moe_tp", "moedp": "moe_dp"}


def _limit(value: float | None) -> str:
    return "None" if value is None else str(float(value))


def _number(value: object, digits: int = 2) -> str:
    # Rounded to three digits first, as the seeds' program does.
    return "-" if value is None else f"{round(float(str(value)), 3):.{digits}f}"


_TOP = Field("Top", "{rank}")
_QPS = Field("QPS (req/s)", "{requests_per_s_text}")
_TTFT = Field("TTFT (ms)", "{ttft_ms_text}")
_TPOT = Field("TPOT (ms)", "{tpot_ms_text}")
_THROUGHPUT = Field("Throughput (token/s)", "{rate_text}")
_TAIL = (
    Field("concurrency", "{concurrency}"),
    Field("num_devices", "{num_devices}"),
    Field("parallel", "{parallel}"),
    Field("batch_size", "{batch_size}"),
)
FIELDS: Mapping[str, Sequence[Field]] = {
    "aggregated": (
        _TOP, _THROUGHPUT, _TTFT, _TPOT, *_TAIL,
    ),
    "prefill": (
        _TOP, _THROUGHPUT, _QPS, _TTFT, *_TAIL,
    ),
    "decode": (
        _TOP, _THROUGHPUT, _QPS, _TPOT, *_TAIL,
    ),
}  # fmt: skip


def mixed_fields(kind: str) -> tuple[Field, ...]:
    """Seed 002, 7.4, with aggregated instances' TPOT."""
    return (
        _TOP,
        Field("num_devices", "{num_devices}"),
        Field("num_input_tokens", "{tokens}"),
        Field("request_ratio", "{ratio}"),
        Field("samples", "{samples}"),
        _TAIL[0],
        _TTFT,
        *((_TPOT,) if kind == "aggregated" else ()),
        _THROUGHPUT,
        Field("parallel", "{parallel}"),
        Field("batch_size", "{batch_size}"),
    )


MEMORY = (
    Field("weight_GB", "{weight_bytes_text}"),
    Field("kv_cache_GB", "{kv_cache_mean_bytes_text}"),
    Field("activation_GB", "{activation_bytes_text}"),
    Field("avail_GB", "{memory_free_bytes_text}"),
)
TITLES = {
    "aggregated": "Aggregation",
    "prefill": "Disaggregation (Prefill)",
    "decode": "Disaggregation (Decode)",
    "pd-ratio": "PD Ratio",
}


def device_lines(options: OptimizerOptions, run: DeviceRun) -> Iterator[str]:
    for table in run.tables:
        if table.kind == "pd-ratio":
            yield from pair_lines(options, run, table)
        else:
            yield from single_lines(options, run, table)


def single_lines(options: OptimizerOptions, run: DeviceRun, table: Table) -> Iterator[str]:
    rule = "  " + "-" * (WIDTH - 4)
    rows = [shown_row(row) for row in table.answer.dicts()]
    yield "*" * WIDTH
    yield rule
    yield "  Input Configuration:"
    yield f"    Model: {options.model}"
    yield f"    Quantize Linear action: {options.linear}"
    yield f"    Quantize Attention action: {options.attention}"
    yield f"    Devices: {options.num_devices or 1} {run.device.name}"
    yield f"    TTFT Limits: {_limit(options.ttft_limit_ms)} ms"
    yield f"    TPOT Limits: {_limit(options.tpot_limit_ms)} ms"
    yield rule
    if options.wide:
        yield from _memory_block(options, run.device, rule)
    yield "  Overall Best Configuration:"
    if not rows:
        yield from _nothing(table)
        yield "*" * WIDTH
        return
    yield f"    Best Throughput: {rows[0]['rate_text']} tokens/s"
    if table.kind != "decode":
        yield f"    TTFT: {rows[0]['ttft_ms_text']} ms"
    if table.kind != "prefill":
        yield f"    TPOT: {rows[0]['tpot_ms_text']} ms"
    yield rule
    yield f"Top {len(rows)} {TITLES[table.kind]} Configurations:"
    if options.is_distribution:
        yield from boxed(mixed_fields(table.kind), [line for row in rows for line in mixed_rows(row, table)])
        yield from (f"  {note}" for note in bias_notes(table.answer))
    else:
        yield from boxed([*FIELDS[table.kind], *(MEMORY if options.wide else ())], rows)
    yield "*" * WIDTH


def _memory_block(options: OptimizerOptions, device: DeviceProfile, rule: str) -> Iterator[str]:
    yield "  Memory Info:"
    yield f"    Total device memory:  {device.memory_bytes / GIB:.3f} GB"
    yield f"    Reserved memory:      {options.reserved_memory_gb:.3f} GB"
    yield rule


def _nothing(table: Table) -> Iterator[str]:
    yield "    Nothing satisfies the limits."
    for row in table.answer.nearest_dicts()[:1]:
        relax = relaxed_to(row, table.answer.question.limits)
        where = f"{row['plan']}, batch size {row['batch_size']}; {row['binding_limit']} binds"
        yield f"    Nearest miss: {where}, " + (f"relax it to {relax}" if relax else "and no reserve is small enough")


_NUMBERS = (
    "requests_per_s", "ttft_ms", "tpot_ms", "pd_ratio", "balanced_requests_per_s", "prefill_requests_per_s",
    "decode_requests_per_s",
)  # fmt: skip
_BYTES = ("weight_bytes", "kv_cache_mean_bytes", "activation_bytes", "memory_free_bytes")


def shown_row(row: Row) -> Row:
    """With the texts that tables show."""
    texts = {f"{name}_text": _number(row[name]) for name in _NUMBERS if name in row}
    if "pd_ratio" in row:
        return {**row, **texts}
    texts["rate_text"] = _number(throughput(row))
    sizes = {f"{name}_text": _number(int(str(row[name])) / GIB) for name in _BYTES}
    return {**row, "parallel": parallel_label(row), **texts, **sizes}


def throughput(row: Row) -> float:
    generated = row["output_tokens_per_s"]
    return float(str(row["input_tokens_per_s"] if generated is None else generated))


def mixed_rows(row: Row, table: Table) -> Iterator[Row]:
    """Seed 002, 7.4: a total row, then a row a bin with blank metrics."""
    concurrency = row["concurrency"]
    yield {**row, "tokens": "all", "ratio": "1.000", "samples": concurrency}
    for part in table.compositions[str(row["probe"])]:
        yield {
            **row,
            "rank": "-",
            "tokens": f"{part.input_length:.0f}",
            "ratio": f"{part.ratio:.3f}",
            "samples": part.samples,
            "ttft_ms_text": "-",
            "tpot_ms_text": "-",
            "rate_text": "-",
        }


def pair_lines(options: OptimizerOptions, run: DeviceRun, table: Table) -> Iterator[str]:
    """Seed 000, section 2.4: device lines only with a device count."""
    counted = options.num_devices is not None
    rows = [shown_row(row) for row in table.answer.dicts()]
    rule = "  " + "-" * (WIDTH - 6)
    yield "*" * WIDTH
    yield rule
    yield "  Input Configuration:"
    yield f"    Model: {options.model}"
    if counted:
        yield f"    Devices: {options.num_devices} {run.device.name}"
    yield f"    Prefill Devices Per Instance: {options.prefill_devices}"
    yield f"    Decode Devices Per Instance: {options.decode_devices}"
    yield f"    TTFT Limits: {_limit(options.ttft_limit_ms)} ms"
    yield f"    TPOT Limits: {_limit(options.tpot_limit_ms)} ms"
    yield rule
    yield "  Overall Best Configuration:"
    if not rows:
        yield from _nothing(table)
        yield "*" * WIDTH
        return
    best = rows[0]
    yield f"    PD Ratio:    {best['pd_ratio_text']} (P Instances:D Instances)"
    yield _side("Prefill QPS", best, "prefill", f"TTFT: {best['ttft_ms_text']} ms")
    yield _side("Decode QPS", best, "decode", f"TPOT: {best['tpot_ms_text']} ms")
    if counted:
        yield f"    P Instances: {_instances(best, 'prefill')}"
        yield f"    D Instances: {_instances(best, 'decode')}"
    yield rule
    yield "  Top N PD Ratio Configurations:"
    yield from boxed(_pair_fields(counted=counted), rows, indent="  ")
    yield "*" * WIDTH


def _side(name: str, row: Row, side: str, latency: str) -> str:
    head = f"{name}:".ljust(len("Prefill QPS:"))
    return (
        f"    {head} {row[f'{side}_requests_per_s_text']} req/s  ({latency}, Parallel: {row[f'{side}_plan']},"
        f" Batch: {row[f'{side}_batch_size']}, Concurrency: {row[f'{side}_concurrency']})"
    )


def _instances(row: Row, side: str) -> str:
    count = row[f"{side}_instances"]
    if count is None:
        return f"- ({row['allocation_reason']})"
    return f"{count} ({int(str(count)) * int(str(row[f'{side}_num_devices']))} devices)"


def _pair_fields(*, counted: bool) -> list[Field]:
    devices = [
        Field("P Devices\n/Instance", "{prefill_num_devices}"),
        Field("D Devices\n/Instance", "{decode_num_devices}"),
    ]
    return [
        _TOP,
        Field("PD Ratio\n(P:D)", "{pd_ratio_text}"),
        Field("P QPS\n(req/s)", "{prefill_requests_per_s_text}"),
        Field("D QPS\n(req/s)", "{decode_requests_per_s_text}"),
        Field("P TTFT\n(ms)", "{ttft_ms_text}"),
        Field("D TPOT\n(ms)", "{tpot_ms_text}"),
        Field("P Parallel", "{prefill_plan}"),
        Field("D Parallel", "{decode_plan}"),
        *(devices if counted else []),
        Field("P Batch\nSize", "{prefill_batch_size}"),
        Field("D Batch\nSize", "{decode_batch_size}"),
        Field("P Concurrency", "{prefill_concurrency}"),
        Field("D Concurrency", "{decode_concurrency}"),
    ]


def profile_lines(devices: Sequence[DeviceProfile]) -> Iterator[str]:
    fields = (
        Field("Device", "{name}"), Field("Cube Compute (TFLOPS)", "{cube}"),
        Field("Vector Compute (TFLOPS)", "{vector}"),
        Field("HBM BW (TB/s)", "{bandwidth}"), Field("Memory (GB)", "{memory}"), Field("Comm Grid", "{grid}"),
        Field("Comm BW (GB/s)", "{links}"),
    )  # fmt: skip
    rows = [
        {
            "name": device.name,
            "cube": f"{effective_rate(device.matrix_flops_per_s, device.compute_efficiency) / 1e12:.2f}",
            "vector": f"{effective_rate(device.vector_flops_per_s, device.compute_efficiency) / 1e12:.2f}",
            "bandwidth": f"{device.memory_bandwidth_bytes_per_s * device.memory_efficiency / 2**40:.3f}",
            "memory": f"{device.memory_bytes / GIB:.1f}",
            "grid": " x ".join(map(str, device.grid)),
            "links": " | ".join(f"{link.bandwidth_bytes_per_s * link.efficiency / 1e9:g}" for link in device.links),
        }
        for device in devices
    ]
    yield "*" * 108
    yield "  Cross-hardware - device profile summary (modeling abstraction vs performance merge tables)"
    yield "  Device profile parameter comparison (effective compute / memory BW / comm BW)"
    yield "  " + "-" * 104
    yield from boxed(fields, rows)


_CROSS = {
    "aggregated": "PD Aggregated (best throughput config per device under TTFT/TPOT limits)",
    "prefill": "PD Disaggregated Prefill (best throughput config per device under TTFT limits)",
    "decode": "PD Disaggregated Decode (best throughput config per device under TPOT limits)",
    "pd-ratio": "PD Ratio (best balanced QPS per device under TTFT/TPOT limits)",
}


def cross_lines(options: OptimizerOptions, runs: Sequence[DeviceRun], kind: str) -> Iterator[str]:
    """Seed 001: each device's best, ranked."""
    best: list[dict[str, object]] = []
    for run in runs:
        rows = next(table for table in run.tables if table.kind == kind).answer.dicts()
        if rows:
            best.append({**shown_row(rows[0]), "device": run.device.name})
    best.sort(
        key=lambda row: (
            -(float(str(row["balanced_requests_per_s"])) if kind == "pd-ratio" else throughput(row)),
            str(row["device"]),
        )
    )
    for rank, row in enumerate(best, start=1):
        row["rank"] = rank
        for name in ("prefill_instances", "decode_instances"):
            row[name] = "-" if row.get(name) is None else row[name]
    yield "*" * 100
    yield f"  Cross-hardware - {_CROSS[kind]}"
    yield "  " + "-" * 96
    yield from boxed(_cross_fields(kind, counted=options.num_devices is not None), best)


def _cross_fields(kind: str, *, counted: bool) -> list[Field]:
    head = [_TOP, Field("Device", "{device}")]
    if kind == "pd-ratio":
        counts = [Field("P Instances", "{prefill_instances}"), Field("D Instances", "{decode_instances}")]
        return [
            *head, Field("PD Ratio", "{pd_ratio_text}"),
            Field("Balanced QPS (req/s)", "{balanced_requests_per_s_text}"),
            Field("P QPS (req/s)", "{prefill_requests_per_s_text}"),
            Field("D QPS (req/s)", "{decode_requests_per_s_text}"),
            _TTFT, _TPOT, Field("P Parallel", "{prefill_plan}"),
            Field("D Parallel", "{decode_plan}"), *(counts if counted else []),
        ]  # fmt: skip
    latencies = {
        "aggregated": [_TTFT, _TPOT], "prefill": [_TTFT], "decode": [_TPOT],
    }[kind]  # fmt: skip
    return [
        *head, _THROUGHPUT, *latencies, Field("Concurrency", "{concurrency}"), Field("Parallel", "{parallel}"),
        Field("Batch", "{batch_size}"), Field("num_devices", "{num_devices}"),
    ]  # fmt: skip
