"""Files of measured points in the layouts that their writers use; every number here is made up."""

from __future__ import annotations

import json

from evaluator.ledger.readers import read_measurements

# What `vllm bench serve --save-result` writes, with --metadata device=h100_sxm tensor_parallel_size=2.
VLLM = {
    "date": "20260203-040506",
    "endpoint_type": "vllm",
    "backend": "vllm",
    "label": None,
    "model_id": "Qwen/Qwen3-32B",
    "tokenizer_id": "Qwen/Qwen3-32B",
    "num_prompts": 640,
    "device": "h100_sxm",
    "tensor_parallel_size": "2",
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 64,
    "duration": 80.0,
    "completed": 640,
    "failed": 0,
    "total_input_tokens": 655360,
    "total_output_tokens": 81920,
    "request_throughput": 8.0,
    "request_goodput": None,
    "output_throughput": 1024.0,
    "total_token_throughput": 9216.0,
    "mean_ttft_ms": 420.5,
    "median_ttft_ms": 400.0,
    "std_ttft_ms": 55.0,
    "p99_ttft_ms": 900.0,
    "mean_tpot_ms": 21.5,
    "median_tpot_ms": 21.0,
    "std_tpot_ms": 0.0,
    "p99.9_tpot_ms": 40.0,
    "mean_itl_ms": 21.25,
    "mean_e2el_ms": 3151.0,
    "probe_median_e2el_ms": 12.0,
    "some_new_field": {"kept": True},
}

# One node with attention data parallelism, as utils/process_result.py writes it now.
INFERENCEX = {
    "hw": "h200", "conc": 32, "image": "x:1", "model": "deepseek-ai/DeepSeek-R1", "framework": "sglang",
    "precision": "fp8", "spec_decoding": "none", "disagg": False, "isl": 1024, "osl": 1024, "is_multinode": False,
    "tp": 8, "dp": 1, "ep": 8, "dp_attention": "true", "num_gpus": 8,
    "tput_per_gpu": 200.0, "output_tput_per_gpu": 100.0, "input_tput_per_gpu": 100.0,
    "mean_ttft": 0.5, "median_ttft": 0.45, "p99_ttft": 1.5,
    "mean_tpot": 0.02, "mean_intvty": 50.0, "mean_e2el": 20.96,
}  # fmt: skip


def block(unit, **statistics):
    return {"unit": unit, **statistics}


AIPERF = {
    "schema_version": "1.0",
    "aiperf_version": "0.8.0",
    "request_throughput": block("requests/sec", avg=2.0),
    "request_latency": block("ms", avg=3000.0, p50=2900.0, p99=5000.0, min=1.0, max=9.0, std=10.0, count=100),
    "time_to_first_token": block("ms", avg=300.0, p99=700.0, adj_p99=800.0),
    "inter_token_latency": block("us", avg=27000.0),
    "output_token_throughput": block("tokens/sec", avg=200.0),
    "input_sequence_length": block("tokens", avg=512.0),
    "output_sequence_length": block("tokens", avg=101.0),
    "input_config": {
        "models": {"items": [{"name": "org/model"}]},
        "phases": [
            {"name": "warmup", "kind": "warmup", "concurrency": 1},
            {"name": "profiling", "kind": "profiling", "concurrency": 6},
        ],
    },
    "telemetry_data": {"endpoints": {"n0": {"gpus": {"0": {"gpu_name": "H100"}, "1": {"gpu_name": "H100"}}}}},
    "was_cancelled": False,
}


def spread(mean):
    """A distribution as GuideLLM writes it, once for each fate of requests."""
    one = {
        "mean": mean,
        "median": mean - 1,
        "std_dev": 0.5,
        "count": 9,
        "percentiles": {"p90": mean + 1, "p99": mean + 2},
    }
    return {"successful": one, "errored": {**one, "mean": 1e9}, "incomplete": {**one, "mean": 1e9}}


GUIDELLM_METRICS = {
    "time_to_first_token_ms": spread(200.0),
    "inter_token_latency_ms": spread(10.0),
    "time_per_output_token_ms": spread(12.0),
    "request_latency": spread(3.0),
    "output_tokens_per_second": spread(800.0),
    "requests_per_second": spread(4.0),
    "request_concurrency": spread(7.5),
    "prompt_token_count": spread(512.0),
    "output_token_count": spread(256.0),
}

CONCURRENT = {"type_": "concurrent", "streams": 8}

FAILED = {
    "server_failed": "out of memory: did not start (exit status 1)", "probe": "a1b2c3d4:16", "scenario": "a1b2c3d4",
    "model": "org/model", "input_length": 1024.0, "output_length": 128.0, "concurrency": 64.0, "log": ["last line"],
}  # fmt: skip

LAYOUTS = {
    "until 0.3": {
        "benchmarks": [
            {"args": {"strategy": CONCURRENT}, "run_stats": {}, "worker": {"backend_model": "org/model"},
             "metrics": GUIDELLM_METRICS}
        ]
    },
    "0.4 to 0.6": {
        "metadata": {"version": 1, "guidellm_version": "0.6.0"},
        "args": {"model": "org/model", "profile": "concurrent"},
        "benchmarks": [{"config": {"strategy": CONCURRENT}, "metrics": GUIDELLM_METRICS, "requests": {"successful": []}}],
    },
    "from 0.7": {
        "metadata": {"version": 2, "guidellm_version": "0.7.3"},
        "config": {"spec": {"backend": {"model": "org/model"}, "profile": {"kind": "concurrent"}}},
        "benchmarks": [
            {"config": {"strategy": {"kind": "concurrent", "streams": 8}}, "metrics": GUIDELLM_METRICS}
        ],
    },
}  # fmt: skip

# What `vllm bench serve --save-result --save-detailed` adds: a place in each list for every request, failed ones too.
VLLM_DETAILED = VLLM | {
    "num_prompts": 4, "completed": 3, "failed": 1, "duration": 2.0, "request_rate": 2.0, "max_concurrency": None,
    "total_input_tokens": 3000, "total_output_tokens": 13,
    "input_lens": [1000, 1000, 1000, 900], "output_lens": [5, 5, 3, 0], "ttfts": [0.1, 0.3, 0.15, 0.0],
    "itls": [[0.02, 0.02, 0.02, 0.02], [0.06, 0.06, 0.06, 0.06], [0.03, 0.03], []],
    "start_times": [50.0, 50.5, 51.0, 51.5], "generated_texts": ["a", "b", "c", ""],
    "errors": ["", "", "", "timed out"],
}  # fmt: skip


def guidellm_request(start, first_ms, gap_ms, tokens):
    return {"request_start_time": start, "prompt_tokens": 1000, "output_tokens": tokens, "time_to_first_token_ms": first_ms,
            "inter_token_latency_ms": gap_ms, "request_latency": 1e-3 * (first_ms + gap_ms * (tokens - 1))}  # fmt: skip


GUIDELLM_REQUESTS = {
    **LAYOUTS["0.4 to 0.6"],
    "benchmarks": [
        {
            **LAYOUTS["0.4 to 0.6"]["benchmarks"][0],
            "metrics": GUIDELLM_METRICS | {"request_totals": {"successful": 3, "errored": 1, "incomplete": 0}},
            "requests": {
                "successful": [guidellm_request(50.0, 100.0, 20.0, 5), guidellm_request(50.5, 300.0, 60.0, 5),
                               guidellm_request(51.0, 150.0, 30.0, 3)],
                "errored": [{"request_start_time": 51.5, "prompt_tokens": 900, "output_tokens": None}],
                "incomplete": [],
            },
        }
    ],
}  # fmt: skip


def aiperf_request(start, first_ms, whole_ms, tokens, *, phase="profiling", error=None):
    metrics = {"input_sequence_length": {"value": 1000, "unit": "tokens"}} | ({} if error else {
        "time_to_first_token": {"value": first_ms, "unit": "ms"}, "request_latency": {"value": 1e-3 * whole_ms, "unit": "s"},
        "output_sequence_length": {"value": tokens, "unit": "tokens"},
    })  # fmt: skip
    return {"metadata": {"request_start_ns": int(1e9 * start), "benchmark_phase": phase, "was_cancelled": error is not None},
            "metrics": metrics, "error": error}  # fmt: skip


AIPERF_REQUESTS = [
    aiperf_request(49.0, 900.0, 980.0, 5, phase="warmup"),
    aiperf_request(50.0, 100.0, 180.0, 5),
    aiperf_request(50.5, 300.0, 540.0, 5),
    aiperf_request(51.0, 150.0, 210.0, 3),
    aiperf_request(51.5, 0.0, 0.0, 0, error={"code": 499, "type": "RequestCancellationError", "message": "late"}),
]


def lifecycle(start, first_s, end_s, tokens, *, error=None):
    """A request as inference-perf writes it; the stream has two pieces for each token."""
    times = [start + first_s + (end_s - first_s) * place / max(2 * tokens - 1, 1) for place in range(2 * tokens)]
    return {"start_time": start, "end_time": start + end_s, "request": '{"model": "Qwen/Qwen3-32B"}', "response": "",
            "info": {"input_tokens": 1000, "output_tokens": tokens, "output_token_times": times}, "error": error}  # fmt: skip


LIFECYCLE = [
    lifecycle(50.0, 0.1, 0.18, 5),
    lifecycle(50.5, 0.3, 0.54, 5),
    lifecycle(51.0, 0.15, 0.21, 3),
    lifecycle(51.5, 0.0, 0.1, 0, error={"error_type": "TimeoutError", "error_msg": ""}),
]

OWN = """model,device,engine,precision,num_devices,input_length,output_length,concurrency,tp,ttft_ms,tpot_exclusive_ms_p50,rack
Qwen/Qwen3-32B,h100_sxm,vllm,fp8,2,1024,128,16,2,180.5,12.25,r7
Qwen/Qwen3-32B,h100_sxm,vllm,fp8,2,1024,128,32,2,,,r7
Qwen/Qwen3-32B,h100_sxm,vllm,fp8,2,1024,128,many,2,200,13,r7
Qwen/Qwen3-32B,h100_sxm,vllm,fp8,2,1024
Qwen/Qwen3-32B,h100_sxm,vllm,,,1024,128,64,,nan,15,r7
"""


def write(folder, content, name="result.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def only(path):
    result = read_measurements(path)
    assert result.problems == ()
    (record,) = result.records
    return record
