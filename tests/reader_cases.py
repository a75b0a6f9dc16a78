"""Every reader of a file of the user's: a legal file, what is done with it, and how it is damaged.

Whoever adds a reader adds a ReaderCase to CASES; tests/test_damaged_files.py does the rest. `read` is what the command
calls, up to where it would store something. Hashes of bundles and proofs are made right again, so that what stands behind
them is reached."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import yaml
from client_files import (
    AIPERF,
    AIPERF_REQUESTS,
    FAILED,
    GUIDELLM_REQUESTS,
    INFERENCEX,
    LAYOUTS,
    LIFECYCLE,
    OWN,
    VLLM,
    VLLM_DETAILED,
)
from damage import damaged_bytes, damaged_document, damaged_table
from hypothesis import strategies as st
from metric_pages import Server
from more_client_files import GUIDELLM_CSV
from restated import config_of

from evaluator.calibration.forms.base import figures_of
from evaluator.calibration.kernels import kernel_sets
from evaluator.calibration.tables import read_tables
from evaluator.canonical import content_key
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import as_yaml, engine_from_file, fitted_engine, label_of_engine
from evaluator.inputs.models import load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.workloads.day_rates import read_day
from evaluator.inputs.workloads.lengths import load_distribution
from evaluator.inputs.workloads.traces import read_trace
from evaluator.ledger import report_of
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.readers.building import TTFT, Item, moment, record
from queries.bundles import Bundle
from queries.proofs.document import read_proof, sealed, spelled
from queries.proofs.verifying import proven
from store.placing import whole_digest
from store.sealing.snapshots import read_manifest
from sweepdb.evaluating.requests import build_request
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.measuring.kernel_fitting import profile_yaml
from sweepdb.measuring.log_scoring import conforming
from sweepdb.prices import read_prices
from sweepdb.sharing.adding import block_record
from sweepdb.sharing.identities import engines_of, refuse_forged
from sweepdb.watching.keeping import earlier_seen
from sweepdb.watching.pages import readings_by_side
from sweepdb.watching.windows import seen_over


@dataclass(frozen=True, kw_only=True)
class ReaderCase:
    """One reader: `base` is a legal file called `name`, `read` what a command makes of its path."""

    name: str
    base: bytes
    read: Callable[[Path], object]
    document: object = None  # of a file of JSON or YAML: what it holds
    table: bool = False  # of CSV
    command: tuple[str, ...] = ()  # that reads the file in place of FILE, and what it would write in place of FOLDER
    beside: tuple[tuple[str, bytes], ...] = ()  # files that lie beside it
    never_refuses: bool = False  # what is damaged counts as absent

    def damaged(self) -> st.SearchStrategy[bytes]:
        """Files that were this one."""
        ways = [damaged_bytes(self.base)]
        if self.document is not None:
            ways += [damaged_document(self.document)] * 2
        if self.table:
            ways += [damaged_table(self.base)] * 2
        return st.one_of(ways)


def _keyed(value: object) -> object:
    content_key(value)  # what a store is asked with: no text that cannot be encoded, no number that cannot be written
    return value


def _lengths(path: Path) -> object:
    return _keyed(load_distribution(path, output_length=None))


def _day(path: Path) -> object:
    return read_day(path).requests


def _trace(path: Path) -> object:
    return _keyed(read_trace(path))


def _sweep(path: Path) -> object:
    return build_request(SweepOptions(), path, f"sqlite:///{path.parent}/no.sqlite")


def _engine(path: Path) -> object:
    fitted = engine_from_file(path)
    return label_of_engine(fitted.profile), as_yaml(fitted)


def _device(path: Path) -> object:
    return profile_yaml(_keyed(load_device(str(path))))


def _model(path: Path) -> object:
    name, spec = load_model(str(path))
    return name, parameter_count(_keyed(spec))


def _points(path: Path) -> object:
    result = read_measurements(path)
    for one in result.records:
        content_key(json.loads(json.dumps(asdict(one), default=str)))
    for problem in result.problems:
        assert "\n" not in problem.what
        problem.what.encode("utf-8", "surrogateescape")
    return result


def _logs(path: Path) -> object:
    _points(path)
    return conforming([path], ttft_ms=200.0, tpot_ms=50.0)


def _kernels(path: Path) -> object:
    return kernel_sets(read_tables(path), figures_of(load_device("h100_sxm", family="theoretical")))


def _manifest(path: Path) -> object:
    return read_manifest(path.parent)


EXPORTED = report_of(record(
    Item(model="Qwen/Qwen3-8B", mode="aggregated", input_length=1000.0, metrics={"ttft_ms_mean": 95.7, "itl_ms_p99": 20.0},
         definitions={"ttft_ms_mean": TTFT}, extra={"rack": "r7"}, measured_at=moment("at", "2026-02-03")),
    source="mine.csv:2", source_format="sweepdb_csv",
))  # fmt: skip


def _metrics(path: Path) -> object:
    return seen_over(readings_by_side({None: [str(path)]}, every=None, during=None, served_as=None)[None])


def _json(name: str, document: object, read: Callable[[Path], object], **more: object) -> ReaderCase:
    return ReaderCase(name=name, base=json.dumps(document, indent=1).encode(), document=document, read=read, **more)


def _yaml(name: str, document: object, read: Callable[[Path], object], **more: object) -> ReaderCase:
    return ReaderCase(name=name, base=yaml.safe_dump(document).encode(), document=document, read=read, **more)


def _csv(name: str, text: str, read: Callable[[Path], object], **more: object) -> ReaderCase:
    return ReaderCase(name=name, base=text.encode(), table=True, read=read, **more)


JOINT = {"name": "chat", "bins": [
    {"min_tokens": 0, "max_tokens": 500, "weight": 0.6, "prefix_cache_hit_rate": 0.5, "output_min_tokens": 0, "output_max_tokens": 90},
    {"min_tokens": 500, "max_tokens": 1500, "weight": 0.4, "output_min_tokens": 10, "output_max_tokens": 400},
]}  # fmt: skip
CATALOGUED = {
    f"{name}_sequence_length": {
        "min": 5,
        "max": 900,
        "mean": 300,
        "standard_deviation": 150,
        "distribution_type": family,
    }
    for name, family in (("input", "log_normal"), ("output", "normal"))
}
DAY = "minute,rate,input_length,output_length\n0,9.5,500,60\n0,0.5,8000,60\n1,12,500,60\n"
APART = {
    "bins": [{"min_tokens": 0, "max_tokens": 500, "weight": 3}, {"min_tokens": 500, "max_tokens": 900, "weight": 1}],
    "output_bins": [
        {"min_tokens": 10, "max_tokens": 20, "weight": 2},
        {"min_tokens": 20, "max_tokens": 60, "weight": 1},
    ],
}
SWEEP = {
    "model": ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"], "device": "TEST_DEVICE", "num_devices": [1, 2], "tp_sizes": [1, 2],
    "batch_range": [1, 4], "mode": "decode", "serving_model": "vllm", "client_lengths": 0.9, "seats": 64,
    "workloads": [{"input_length": 100, "output_length": 10, "prefix_cache_hit_rate": 0.1}],
    "precisions": [{"quantization": "FP8"}],
}  # fmt: skip
DEVICE = {
    "name": "made_up", "vendor": "nobody", "matrix_flops_per_s": {"bf16": 1e14, "fp8": 2e14},
    "vector_flops_per_s": {"fp32": 1e13}, "memory_bytes": 64 * 2**30, "memory_bandwidth_bytes_per_s": 2e12,
    "grid": [4, 8], "links": [
        {"bandwidth_bytes_per_s": 5e10, "latency_s": 1e-5, "efficiency": 0.8, "topology": "clos"},
        {"bandwidth_bytes_per_s": 4e11, "latency_s": 1e-6, "efficiency": 0.9, "topology": "full_mesh"},
    ],
    "compute_efficiency": 0.7, "memory_efficiency": 0.8, "matrix_static_s": 1e-6, "vector_static_s": 1e-6,
    "communication_static_s": 1e-6, "compute_units": 100, "watts": 500, "source": "made up", "aliases": ["mine"],
}  # fmt: skip
CALIBRATED = yaml.safe_load(profile_yaml(load_device("h100_sxm", family="calibrated")))
for part in ("kernels", "accuracy"):  # two of each are as good as a hundred
    CALIBRATED["calibration"][part] = dict(sorted(CALIBRATED["calibration"][part].items())[:2])
del CALIBRATED["calibration"]["hash"]  # it is of all of them
QUANTISED = {
    **config_of("Qwen/Qwen3-8B"),
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}},
        "ignore": ["lm_head"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
    },
}
MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {
    "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"],
    "quantized_layers": {"model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                         "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"}},
}}  # fmt: skip
QWEN2 = {**config_of("Qwen/Qwen3-8B"), "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4096,
         "max_window_layers": 20, "layer_types": ["full_attention"] * 20 + ["sliding_attention"] * 16}  # fmt: skip
GLM = {"model_type": "glm4_moe", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 4, "num_attention_heads": 8,
       "num_key_value_heads": 2, "intermediate_size": 128, "moe_intermediate_size": 32, "n_routed_experts": 8,
       "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1, "partial_rotary_factor": 0.5,
       "use_qk_norm": True, "attention_bias": True, "num_nextn_predict_layers": 1}  # fmt: skip
MODELS = (
    "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b", "MiniMaxAI/MiniMax-M2",
    "mistralai/Mixtral-8x7B-v0.1", "meta-llama/Meta-Llama-3.1-8B",
)  # fmt: skip
MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {
    "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"],
    "quantized_layers": {"model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                         "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"}},
}}  # fmt: skip
OPT = {"model_type": "opt", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4,
       "ffn_dim": 256, "max_position_embeddings": 128, "activation_function": "relu", "word_embed_proj_dim": 64}  # fmt: skip
BLOOM = {"model_type": "bloom", "hidden_size": 64, "vocab_size": 100, "n_layer": 2, "n_head": 4, "seq_length": 2048}
PEER = ("model,isl,osl,concurrency,ttft,tpot,tokens/s,tokens/s/gpu,num_total_gpus,system,backend,tp,pp,bs\n"
        "M,100,10,4,5,1,100,50,2,h200_sxm,vllm,2,1,4\nN,100,10,4,5,1,100,50,2,h200_sxm,vllm,2,1,4\n")  # fmt: skip
SERVING = ("id,backend,model_path,system,mode,precision,isl,osl,concurrency,tp_size,measured_ttft_ms,measured_tpot_ms\n"
           "a,vllm,Qwen/Qwen3-8B,h100_sxm,agg,bf16,1024,128,8,1,50.0,8.0\n")  # fmt: skip
PUBLISHED = ("source_kind,device,num_devices,model,weight_dtype,phase,metric,value,value_scope,priority,input_len,output_len\n"
             "paper,h100_sxm,8,Qwen/Qwen3-8B,bf16,decode,tokens_per_s,900,per_device,1,1024,128\n")  # fmt: skip
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"t{n},{100 * n},{10 * n}\n" for n in range(1, 30))
REQUESTS = "".join(json.dumps({"timestamp": n, "input_length": 100 * n, "output_length": 7, "hash_ids": [n]}) + "\n"
                   for n in range(1, 20))  # fmt: skip
PRICES = "device,effective_from,usd_per_device_hour,watts_per_device,source\nh100_sxm,2025-01-01,2.5,700,list\n"
KERNELS = "m,n,k,dtype,latency_us\n" + "".join(f"{m},4096,4096,bfloat16,{10 + m / 9}\n" for m in range(1, 40))
MANIFEST = {"format": 2, "retired": [["part-1.parquet", 1.5]], "parts": [{
    "name": "part-2.parquet", "size": 100, "mtime_ns": 5, "ctime_ns": 6, "sha256": "a" * 64,
    "contents": {"store_id": "b" * 32, "revision": "0002", "layout": "c" * 16, "blocks": [[1, 3]], "rows": 9,
                 "block_count": 3, "digests": "e" * 64, "models": [[1, 1]], "workloads": [[1, 2]],
                 "names": "d" * 16}}]}  # fmt: skip


WRITTEN = Path(__file__).parent / "written"  # by the release that brought these formats
BUNDLE = {path.name: path.read_bytes() for path in sorted((WRITTEN / "bundle_5").iterdir())}
PROOF = json.loads((WRITTEN / "proof_7.json").read_text())


def _bundle(path: Path) -> object:
    folder = path.parent
    if path.name != "bundle.json":
        described = json.loads(BUNDLE["bundle.json"])
        described["contents"][path.name] = {"sha256": whole_digest(path)}
        (folder / "bundle.json").write_text(json.dumps(described))
    bundle = Bundle(folder)
    beside = (bundle.operators(), bundle.prices(), bundle.measurements(), bundle.validations(), bundle.names())
    refuse_forged(bundle.scenarios().values(), engines_of(bundle.calibrations()))
    return list(bundle.sweeps()), [block_record(block) for block in bundle.blocks()], beside


def _proof(path: Path) -> object:
    with suppress(ValueError, TypeError, RecursionError):  # what cannot be hashed stays as it is
        path.write_text(spelled(sealed(json.loads(path.read_text()))))
    return proven(path, read_proof(path))


def _of_bundle(name: str) -> ReaderCase:
    beside = tuple(item for item in BUNDLE.items() if item[0] != name)
    lines = [json.loads(line) for line in BUNDLE[name].splitlines()] if name.endswith(".jsonl") else None
    return ReaderCase(name=name, base=BUNDLE[name], read=_bundle, beside=beside,
                      document=lines and lines[0] if len(lines or []) == 1 else None, table=name.endswith(".csv"))  # fmt: skip


def _parquet() -> bytes:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 + i AS m, 64 AS n, 32 AS k, 'fp8' AS dtype, 2.5 + i AS latency_us"
                           " FROM range(40) r(i)")  # fmt: skip
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            connection.execute(f"COPY t TO '{folder}/t.parquet' (FORMAT parquet)")
            return Path(folder, "t.parquet").read_bytes()


METRICS = Server("vllm").serve(30, prompt=500, output=20, ttft_ms=80, tpot_ms=9).page()
WATCHED = [
    {"metric": name, "measured": value, "error_percent": 1.5}
    for name, value in (("in_flight", 20.5), ("prompt_tokens", 500.0), ("output_tokens", 20.0), ("tpot_ms", 9.0))
]
EVALUATE = ("evaluate", "Qwen/Qwen3-0.6B", "--device", "TEST_DEVICE", "--batch-range", "2")
CASES = (
    _yaml("lengths.yaml", JOINT, _lengths, command=(*EVALUATE, "--input-length", "FILE")),
    _yaml("independent.yaml", APART, _lengths),
    _json("catalogue.json", CATALOGUED, _lengths),
    _csv("day.csv", DAY, _day,
         command=("schedule", "--trace", "FILE", "--ttft-limit", "500", "--tpot-limit", "50")),
    _csv("trace.csv", TRACE, _trace, command=("workloads", "add", "log", "--trace", "FILE")),
    ReaderCase(name="trace.jsonl", base=REQUESTS.encode(), read=_trace),
    _yaml("sweep.yaml", SWEEP, _sweep, command=("evaluate", "--sweep", "FILE")),
    _yaml("engine.yaml", yaml.safe_load(as_yaml(fitted_engine("vllm"))), _engine,
          command=(*EVALUATE, "--input-length", "100", "--output-length", "10", "--serving-model", "FILE")),
    _yaml("device.yaml", DEVICE, _device,
          command=("evaluate", "Qwen/Qwen3-0.6B", "--input-length", "9", "--output-length", "3", "--device", "FILE")),
    _yaml("calibrated.yaml", CALIBRATED, _device),
    *(_json(f"{name.rpartition('/')[2]}.json", config_of(name), _model) for name in MODELS),
    _json("config.json", QUANTISED, _model,
          command=("evaluate", "FILE", "--device", "TEST_DEVICE", "--input-length", "9", "--output-length", "3")),
    _json("qwen2.json", QWEN2, _model),
    _json("glm.json", GLM, _model),
    _json("opt.json", OPT, _model),
    _json("bloom.json", BLOOM, _model),
    _json("hf_quant_config.json", MODELOPT, lambda path: _model(path.parent),
          beside=(("config.json", json.dumps(config_of("Qwen/Qwen3-30B-A3B")).encode()),)),
    _json("vllm.json", VLLM, _points, command=("measurements", "import", "FILE")),
    _json("vllm-detailed.json", VLLM_DETAILED, _logs,
          command=("query", "conforming", "FILE", "--ttft-limit", "200")),
    _json("guidellm-requests.json", GUIDELLM_REQUESTS, _logs),
    ReaderCase(name="profile_export.jsonl", read=_logs,
               base="".join(json.dumps(one) + "\n" for one in AIPERF_REQUESTS).encode()),
    _json("per_request_lifecycle_metrics.json", LIFECYCLE, _logs),
    _json("failed.json", FAILED, _points),
    _json("inferencex.json", INFERENCEX, _points),
    _json("aiperf.json", AIPERF, _points),
    *(_json(f"guidellm-{layout}.json", document, _points) for layout, document in LAYOUTS.items()),
    _csv("benchmarks.csv", GUIDELLM_CSV, _points),
    _json("exported.json", EXPORTED, _points),
    _csv("mine.csv", "".join(OWN.splitlines(keepends=True)[:2]), _points),
    _csv("pareto.csv", PEER, _points),
    _csv("serving.csv", SERVING, _points),
    _csv("published.csv", PUBLISHED, _points),
    _csv("prices.csv", PRICES, read_prices, command=("prices", "import", "FILE")),
    _csv("gemm.csv", KERNELS, _kernels,
         command=("calibrate", "h100_sxm", "--kernels", "FILE", "--profile", "FOLDER/new.yaml")),
    ReaderCase(name="gemm.parquet", base=_parquet(), read=_kernels),
    _json("manifest.json", MANIFEST, _manifest, never_refuses=True),
    *map(_of_bundle, ("sweeps.jsonl", "scenarios.jsonl", "blocks.jsonl", "probes.csv", "operator_set.jsonl", "name.jsonl")),
    _json("bundle.json", json.loads(BUNDLE["bundle.json"]), _bundle,
          beside=tuple(item for item in BUNDLE.items() if item[0] != "bundle.json")),
    _json("proof.json", PROOF, _proof),
    ReaderCase(name="metrics.prom", base=METRICS.encode(), read=_metrics),
    _json("watched.json", WATCHED, lambda path: earlier_seen(path, "vllm", "aggregated")),
)  # fmt: skip
