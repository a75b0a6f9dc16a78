"""Result files of more benchmark clients, in the shapes that they write; every number here is made up."""

from __future__ import annotations

import copy

# SGLang's bench_serving: one line a run. 128 users at 4 requests/s: 32 s a request. `inf` is how JSON's Infinity is read.
SGLANG = {
    "tag": None, "backend": "sglang-oai", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 128,
    "server_info": {"model_path": "/models/org/Big-1T-FP8", "version": "0.5.9+gabc1234", "tp_size": 8, "dp_size": 4,
                    "ep_size": 8, "pp_size": 1, "enable_dp_attention": True, "kv_cache_dtype": "fp8_e4m3",
                    "quantization": None, "speculative_algorithm": "EAGLE", "disaggregation_mode": "null"},
    "duration": 128.0, "completed": 512, "total_input_tokens": 524288, "total_output_tokens": 262144,
    "request_throughput": 4.0, "input_throughput": 4096.0, "output_throughput": 2048.0, "total_throughput": 6144.0,
    "mean_e2e_latency_ms": 30000.0, "p90_e2e_latency_ms": 33000.0, "mean_ttft_ms": 2000.0, "median_ttft_ms": 1900.0,
    "std_ttft_ms": 100.0, "p95_ttft_ms": 2500.0, "mean_tpot_ms": 54.0, "mean_itl_ms": 53.0, "concurrency": 120.0,
    "accept_length": 2.5, "cache_report": {"total_prompt_tokens": 524288, "total_cached_tokens": 131072},
    "errors": ["", "timed out", ""],
}  # fmt: skip


def _spread(mean):
    return {"mean": mean, "min": mean / 2, "p5": 0.6 * mean, "median": 0.9 * mean, "p90": 1.2 * mean,
            "p99.9": 1.9 * mean, "max": 2 * mean}  # fmt: skip


# A stage of inference-perf: seconds. Its time per output token counts two pieces of the stream a token.
STAGE = {
    "load_summary": {"count": 600, "send_duration": 60.0, "requested_rate": 10.0, "achieved_rate": 9.9},
    "successes": {
        "count": 594,
        "latency": {"request_latency": _spread(1.05), "time_per_output_token": _spread(0.005),
                    "time_to_first_token": _spread(0.05), "inter_token_latency": _spread(0.005),
                    "normalized_time_per_output_token": _spread(0.0104)},
        "throughput": {"input_tokens_per_sec": 1980.0, "output_tokens_per_sec": 1000.0, "total_tokens_per_sec": 2980.0,
                       "requests_per_sec": 9.9},
        "prompt_len": _spread(200.0), "output_len": _spread(101.0),
    },
    "failures": {"count": 6, "request_latency": None, "prompt_len": None},
}  # fmt: skip

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - image: vllm/vllm-openai:v0.11.0
        command: [python3, -m, vllm.entrypoints.openai.api_server]
        args: ["--model=$(MODEL_ID)", "--tensor-parallel-size", "4", --kv-cache-dtype=fp8]
        env: [{name: MODEL_ID, value: org/model-8B}]
        resources: {limits: {nvidia.com/gpu: 4}}
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
---
kind: Service
spec: {ports: [{port: 8000}]}
"""

CONFIGURATION = """\
api: {type: completion}
data: {type: shared_prefix}
load: {type: constant}
server: {type: vllm, model_name: org/another-name}
"""

REPORT = {
    "version": "0.2.1",
    "run": {"uid": "1", "user": "ada", "keywords": ["nightly", "h100"],
            "time": {"start": "2026-02-03T04:05:06Z", "end": "2026-02-03T04:15:06Z"}},
    "scenario": {
        "stack": [
            {"metadata": {"label": "p"}, "native": {"args": {"--kv-cache-dtype": "fp8"}},
             "standardized": {"kind": "inference_engine", "role": "prefill", "replicas": 3, "tool": "llm-d",
                              "tool_version": "ghcr.io/llm-d/llm-d-cuda:0.3.1", "model": {"name": "org/model-8B"},
                              "accelerator": {"model": "NVIDIA-H200", "count": 2,
                                              "parallelism": {"tp": 2, "dp": 1, "pp": 1, "ep": 1}}}},
            {"metadata": {"label": "d"}, "standardized": {
                "kind": "inference_engine", "role": "decode", "replicas": 1, "tool": "llm-d", "model": {"name": "org/model-8B"},
                "accelerator": {"model": "NVIDIA-H200", "count": 8, "parallelism": {"tp": 1, "dp": 8, "pp": 1, "ep": 8}}}},
            {"metadata": {"label": "router"}, "standardized": {"kind": "generic", "tool": "scheduler"}},
        ],
        "load": {"standardized": {"tool": "guidellm", "concurrency": 32, "rate_qps": None,
                                  "input_seq_len": {"distribution": "fixed", "value": 1000}}},
    },
    "results": {"request_performance": {"aggregate": {
        "latency": {"time_to_first_token": {"units": "ms", "mean": 400.0, "p99": 900.0, "p0p1": 20.0, "p99p9": 990.0},
                    "time_per_output_token": {"units": "s/token", "mean": 0.02},
                    "request_latency": {"units": "s", "mean": 2.4}},
        "throughput": {"output_token_rate": {"units": "tokens/s", "mean": 1300.0},
                       "request_rate": {"units": "queries/s", "mean": 13.0}},
        "requests": {"total": 500, "failures": 20, "input_length": {"units": "count", "mean": 998.0},
                     "output_length": {"units": "count", "mean": 101.0}},
    }}},
}  # fmt: skip

GENAI = {
    "aggregated_metrics": {
        "scenario": "D(1000,100)", "num_concurrency": 16, "iteration_type": "num_concurrency", "run_duration": 60.0,
        "mean_output_throughput_tokens_per_s": 800.0, "mean_input_throughput_tokens_per_s": 8000.0,
        "mean_total_tokens_throughput_tokens_per_s": 8800.0, "requests_per_second": 8.0, "num_error_requests": 0,
        "num_completed_requests": 480,
        "stats": {"ttft": {"mean": 0.2, "p99": 0.5, "stddev": 0.05}, "tpot": {"mean": 0.018}, "e2e_latency": {"mean": 1.982},
                  "num_input_tokens": {"mean": 1000.0}, "num_output_tokens": {"mean": 100.0}},
    },
    "individual_request_metrics": [{"ttft": 0.2}],
}  # fmt: skip

EXPERIMENT = {"experiment_folder_name": "x", "server_engine": "SGLang", "server_version": "0.5.9", "model": "org/model-8B",
              "server_gpu_type": "H100", "server_gpu_count": "2"}  # fmt: skip

SWEEP = {
    "aggregation_type": "sweep",
    "per_combination_metrics": [
        {"parameters": {"phases.profiling.concurrency": users, "isl": 1000, "osl": 101},
         "metrics": {"time_to_first_token_avg": {"mean": ttft, "std": 1.0, "unit": "ms"},
                     "time_to_first_token_p99": {"mean": 3 * ttft, "unit": "ms"},
                     "inter_token_latency_avg": {"mean": 10.0, "unit": "ms"},
                     "request_throughput_avg": {"mean": rate, "unit": "requests/sec"}}}
        for users, ttft, rate in ((8, 100.0, 7.2), (16, 250.0, 12.7))
    ],
}  # fmt: skip

AIPERF_CSV = """\
Metric,avg,min,max,p99,p90,p50
Time to First Token (ms),"1,300.00",5.00,2000.00,1900.00,1500.00,1250.00
Inter Token Latency (ms),30.00,20.00,40.00,39.00,35.00,30.00
Input Sequence Length (tokens),512.00,512.00,512.00,512.00,512.00,512.00
Output Sequence Length (tokens),101.00,101.00,101.00,101.00,101.00,101.00

Metric,Value
Request Throughput (requests/sec),2.00
Output Token Throughput (tokens/sec),202.00
"""

# GuideLLM's CSV: two levels of a run of 8 and 16 users, which its profile names together. 8 users at 5.2 requests/s: 1.5 s.
GUIDELLM_CSV = """\
Run Info,Run Info,Run Info,Benchmark,Benchmark,Timings,Request Counts,Request Counts,Request Latency,Request Latency,\
Request Latency,Request Latency,Time to First Token,Time per Output Token,Inter Token Latency,Server Throughput,\
Server Throughput,Token Metrics,Token Metrics,Token Throughput,Token Throughput
Run ID,Profile,Backend,Type,Strategy,Start Time,Successful,Errored,Successful Sec,Successful Sec,\
Successful Sec,Successful Sec,Successful ms,Successful ms,Successful ms,Successful Requests/Sec,\
Successful Concurrency,Successful Input Tokens,Successful Output Tokens,Successful Output Tokens/Sec,Successful Total Tokens/Sec
,,,,,,,,Mean,Median,Std Dev,Percentiles,Mean,Mean,Mean,Mean,Mean,Mean,Mean,Mean,Mean
r1,"{""type_"": ""concurrent"", ""streams"": [8, 16]}","{""model"": ""org/model-8B""}",generative,concurrent,\
2026-02-03 04:05:06,300,2,1.5,1.45,0.12,"[0.9, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.7, 1.8, 1.9, 2.0]",110.0,11.7,10.9,5.2,\
7.9,512.0,128.0,665.6,3328.0
r1,"{""type_"": ""concurrent"", ""streams"": [8, 16]}","{""model"": ""org/model-8B""}",generative,concurrent,\
2026-02-03 04:15:06,500,0,1.8,1.75,0.14,"[0.9, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.7, 1.8, 1.9, 2.0]",150.0,14.1,13.0,8.6,\
15.5,512.0,128.0,1100.8,5504.0
"""


def changed(document, path, value):
    """A copy of a document with another value at a path of names."""
    made = copy.deepcopy(document)
    inside = made
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return made
