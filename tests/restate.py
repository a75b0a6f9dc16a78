"""Restates the comparison data that tests need as small tables of our own, with our names and only what is compared.

    python tests/restate.py

writes them to tests/data from the folder of the comparison data; test_restated.py holds the tables to it."""

from __future__ import annotations

import collections
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))  # where the other modules lie when this is run as a program

import restate_arrivals
import restate_head
from restated import DATA, EXPERTS, MODEL_COLUMNS, WEIGHTS

Row = Sequence[object]

# Models of the catalogue whose publishers' files are at hand, and one for each part that is not covered.
MODELS = (
    "MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.5", "MiniMaxAI/MiniMax-M2.7", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B",
    "Qwen/Qwen3-14B", "Qwen/Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-30B-A3B-FP8", "Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct", "deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.1", "meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-70B",
    "meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3.1-405B", "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Meta-Llama-3.1-8B", "mistralai/Mixtral-8x22B-v0.1", "mistralai/Mixtral-8x7B-v0.1",
    "moonshotai/Kimi-K2-Instruct", "openai/gpt-oss-120b", "openai/gpt-oss-20b",
    "XiaomiMiMo/MiMo-7B-Base", "moonshotai/Kimi-K2.5", "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-32B-Instruct",
    "Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-397B-A17B", "zai-org/GLM-5",
    "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4-Flash",
)  # fmt: skip


def as_csv(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """A table as text, with the line ends that git keeps."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([columns, *rows])
    return file.getvalue()


def models(root: Path) -> str:
    """Hyper-parameters by our names, blank where a model has none."""
    rows = []
    for name in MODELS:
        config = json.loads((root / "model_configs" / f"{name.replace('/', '--')}.json").read_text(encoding="utf-8"))
        rows.append([name, *_model_cells(config)])
    return as_csv(
        ["model", *MODEL_COLUMNS, "experts", "layers_in_window", "tokens_an_entry", "weights", "vision_layers"], rows
    )


def _model_cells(config: Mapping[str, object]) -> list[object]:
    text = {**config, **config.get("text_config", {}), "model_type": config["model_type"]}
    cells = [text.get(key) for key in MODEL_COLUMNS.values()]
    return [
        *(int(cell) if isinstance(cell, bool) else cell for cell in cells),
        text.get(EXPERTS.get(str(config["model_type"]), "")),
        (text.get("layer_types") or []).count("sliding_attention") or None,
        " ".join(map(str, text.get("compress_ratios") or [])),
        _weights(text.get("quantization_config") or {}),
        _vision_layers(config.get("vision_config", {})),
    ]


def _vision_layers(encoder: Mapping[str, object]) -> object:
    return encoder.get("depth", encoder.get("vt_num_hidden_layers"))


def _weights(quantisation: Mapping[str, object]) -> str | None:
    if quantisation.get("format") == "pack-quantized":
        return "int4 experts in groups of 32"
    found = {key: quantisation.get(key) for key in ("quant_method", "weight_block_size")}
    return next((name for name, said in WEIGHTS.items() if found == {**dict.fromkeys(found), **said}), None)


KINDS = {
    "agg": "aggregated", "disagg_decode": "decode", "disagg_prefill": "prefill",
    "forward_prefill": "prefill step", "forward_decode": "decode step",
}  # fmt: skip
PROBE_COLUMNS = {
    "tp": "tp", "dp": "dp", "ep": "ep", "batch": "batch_per_dp", "concurrency": "concurrency", "query": "query_len",
    "length": "seq_len", "step_ms": "forward_latency_ms", "ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms",
    "tokens_per_s": "token_s", "weights_gib": "weight_GB", "kv_gib": "kv_cache_GB",
}  # fmt: skip


def upstream_probes(root: Path) -> str:
    """Step times, serving figures and memory of another program, for the kinds that are compared."""
    with (root / "upstream" / "probes.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if (row["model"], row["kind"]) != ("Qwen/Qwen3-30B-A3B", "agg")]
    rows = (
        [row["model"], row["device"], "compiled" if row["compile"] == "True" else "eager", KINDS[row["kind"]],
         *(row[name] for name in PROBE_COLUMNS.values())]
        for row in found
    )  # fmt: skip
    return as_csv(["model", "device", "graph", "kind", *PROBE_COLUMNS], rows)


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
OPERATOR_KINDS = {
    "tensor_cast.attention.default": "attention",
    "tensor_cast.all_reduce.default": "all_reduce",
    "tensor_cast.all_gather.default": "all_gather",
    "tensor_cast.all_to_all.default": "all_to_all",
    "tensor_cast.dynamic_quantize_symmetric.default": "quantise",
}
LINEARS = {"tensor_cast.static_quant_linear.default", "aten.mm.default"}
OPERATOR_FILE = re.compile(
    r"(?P<maker>.*)--(?P<model>.*)_tp(?P<tp>\d+)_ep(?P<ep>\d+)_n8_(?P<graph>compile|eager)_W8A8_DYNAMIC_"
    r"(?P<phase>prefill|decode)_b(?P<batch>\d+)_TEST_DEVICE\.txt"
)


def upstream_operators(root: Path) -> str:
    """Seconds of one step by shape of linears (m, k, n) and by kind of the rest, summed over a table."""
    rows: list[Row] = []
    for path in sorted((root / "upstream" / "ops").glob("*.txt")):
        named = OPERATOR_FILE.fullmatch(path.name).groupdict()
        graph = {"compile": "compiled"}.get(named["graph"], named["graph"])
        step = [f"{named['maker']}/{named['model']}", named["tp"], named["ep"], graph, named["phase"], named["batch"]]
        rows += [[*step, *kind, f"{seconds:.9g}"] for kind, seconds in _operator_seconds(path.read_text()).items()]
    return as_csv(["model", "tp", "ep", "graph", "phase", "batch", "kind", "m", "k", "n", "seconds"], rows)


def _operator_seconds(text: str) -> dict[tuple[object, ...], float]:
    seconds: dict[tuple[object, ...], float] = collections.Counter()
    for line in text.splitlines():
        if match := re.match(r"# latency_s=\{'analytic': ([\d.e-]+)\}", line):
            seconds["whole step", "", "", ""] = float(match[1])
        cells = re.split(r"\s{2,}", line.strip())
        value = re.fullmatch(r"([\d.]+)(ns|us|ms|s)", cells[-3]) if len(cells) >= 5 else None
        if value is None:
            continue
        time = float(value[1]) * UNITS[value[2]]
        if cells[0] in LINEARS:
            m, k, _, n = (int(number) for number in re.findall(r"\d+", cells[1])[:4])
            seconds["linear", m, k, n] += time
        elif cells[0] in OPERATOR_KINDS:
            seconds[OPERATOR_KINDS[cells[0]], "", "", ""] += time
    return seconds


ANSWERS = {
    "01_q32b_agg_tpot50": ("rank tokens_per_s ttft_ms tpot_ms concurrency", r"\|  (\d)  \|"),
    "03_q32b_disagg_prefill_ttft2000": ("rank tokens_per_s requests_per_s ttft_ms concurrency", r"\|  (\d)  \|"),
    "04_q32b_disagg_decode_tpot50": ("rank tokens_per_s requests_per_s tpot_ms concurrency", r"\|  (\d)  \|"),
    "12_q32b_varlen_prefill": ("rank - - share samples concurrency ttft_ms tokens_per_s", r"\|  (\d)  \|"),
}
ANSWER_COLUMNS = ("rank", "tp", "dp", "batch", "concurrency", "tokens_per_s", "requests_per_s", "ttft_ms", "tpot_ms")


def upstream_answers(root: Path) -> str:
    """Ranked rows that another program printed, by the run they are of."""
    rows: list[Row] = []
    for run, (names, first) in ANSWERS.items():
        for line in (root / "upstream" / "runs" / f"{run}.txt").read_text(encoding="utf-8").splitlines():
            if not re.match(first, line):
                continue
            cells = [cell.strip() for cell in re.sub(r"TP=(\d+) \| PP=1 \| DP=(\d+)", r"\1x\2", line).split("|")[1:-1]]
            place = next(index for index, cell in enumerate(cells) if re.fullmatch(r"\d+x\d+", cell))
            tp, dp = cells[place].split("x")
            found = dict(zip(names.split(), cells, strict=False)) | {"tp": tp, "dp": dp, "batch": cells[place + 1]}
            rows.append([run.partition("_")[0], *(found.get(name) for name in ANSWER_COLUMNS)])
    return as_csv(["run", *ANSWER_COLUMNS], rows)


PAIR_COLUMNS = (
    "rank", "pd_ratio", "requests_per_s", "prefill_requests_per_s", "decode_requests_per_s", "ttft_ms", "tpot_ms",
)  # fmt: skip


def upstream_pairs(root: Path) -> str:
    """The pairs of a prefill and a decode instance that another program printed, and the instances of its best."""
    text = (root / "upstream" / "runs" / "06_pdratio_q32b_n16_p4_d2.txt").read_text(encoding="utf-8")
    counts = dict(re.findall(r"([PD]) Instances: (\d+)", text))
    rows = []
    for line in re.findall(r"^\|  \d  \|.*$", text, re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")[1 : len(PAIR_COLUMNS) + 1]]
        instances = [counts["P"], counts["D"]] if cells[0] == "1" else [None, None]
        rows.append([*cells, *instances])
    return as_csv([*PAIR_COLUMNS, "prefill_instances", "decode_instances"], rows)


def lengths(root: Path) -> str:
    """The example distribution of prompt lengths, its weights to nine digits."""
    document = yaml.safe_load((root / "traces" / "length_distribution_example.yaml").read_text(encoding="utf-8"))
    rows = ([one["min_tokens"], one["max_tokens"], f"{one['weight']:.9g}"] for one in document["bins"])
    return as_csv(["above_tokens", "up_to_tokens", "share"], rows)


MATRIX_DTYPES = {
    "float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8", "float8_e5m2": "fp8", "int4": "fp4",
}  # fmt: skip


def upstream_devices(root: Path) -> str:
    """Figures of the devices of another program; its links outermost first, as bandwidth, latency, share and shape."""
    document = json.loads((root / "devices" / "upstream_profiles.json").read_text(encoding="utf-8"))
    columns = [
        "device", "vendor", *(f"matrix_{name}_tflops" for name in MATRIX_DTYPES.values()),
        *(f"vector_{MATRIX_DTYPES[name]}_tflops" for name in ("float32", "bfloat16", "float16")),
        "compute_share", "memory_share", "memory_bytes", "memory_bytes_per_s", "matrix_static_s", "vector_static_s",
        "communication_static_s", "grid", "links",
    ]  # fmt: skip
    return as_csv(columns, (list(_device_cells(device)) for device in document["devices"]))


def _device_cells(device: Mapping[str, object]) -> Iterator[object]:
    yield from (device["name"], device["vendor"])
    yield from (device["cube_tflops"].get(name) for name in MATRIX_DTYPES)
    yield from (device["vector_tflops"].get(name) for name in ("float32", "bfloat16", "float16"))
    yield from (device["compute_efficiency"], device["memory_efficiency"], device["memory_size_bytes"])
    yield device["memory_bandwidth_bytes_ps"]
    yield from (f"{device['static_cost_s'][name]:.9g}" for name in ("mma", "gp", "comm"))
    yield "x".join(map(str, device["comm_grid"]))
    yield "; ".join(
        f"{link['bandwidth_bytes_ps']:.9g} {link['latency_s']:.9g} {link['comm_efficiency']:.9g} {link['type'].lower()}"
        for _, link in sorted(device["topologies"].items())
    )


TABLES: dict[str, Callable[[Path], str]] = {
    "models.csv": models,
    "lengths.csv": lengths,
    "arrival_replay.csv": lambda root: as_csv(restate_arrivals.REPLAY_COLUMNS, restate_arrivals.replay(root)),
    "arrival_trace.csv": lambda root: as_csv(restate_arrivals.TRACE_COLUMNS, restate_arrivals.trace(root)),
    "arrival_stages.csv": lambda root: as_csv(restate_arrivals.STAGE_COLUMNS, restate_arrivals.stages(root)),
    "upstream_answers.csv": upstream_answers,
    "upstream_devices.csv": upstream_devices,
    "upstream_forwards.csv": lambda root: as_csv(restate_head.FORWARD_COLUMNS, restate_head.forwards(root)),
    "upstream_operators.csv": upstream_operators,
    "upstream_pairs.csv": upstream_pairs,
    "upstream_probes.csv": upstream_probes,
    "upstream_rows.csv": lambda root: as_csv(restate_head.ROW_COLUMNS, restate_head.rows(root)),
    "upstream_steps.csv": lambda root: as_csv(restate_head.STEP_COLUMNS, restate_head.steps(root)),
}


def main() -> None:
    from shared_data import ROOT

    DATA.mkdir(exist_ok=True)
    for name, restate in TABLES.items():
        (DATA / name).write_text(restate(ROOT), encoding="utf-8")


if __name__ == "__main__":
    main()
