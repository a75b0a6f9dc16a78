"""Pages of metrics as engines write them, of requests that a test makes up: counters, gauges and histograms by engine.

Names, labels and bounds are those that vLLM 0.20, SGLang 0.5.9 and TensorRT-LLM 1.3 declare (AIPerf lists them, too);
the numbers are of no server."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

_LATENCIES = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)
FIRST_TOKENS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
_GAPS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_VLLM = {"ttft": FIRST_TOKENS, "tpot": _GAPS, "gap": _GAPS, "e2e": _LATENCIES, "queue": _LATENCIES}
_LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_SGLANG_LENGTHS = (100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 10000)
_SGLANG_TIMES = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
BOUNDS = {
    "vllm": {**_VLLM, "prompts": _LENGTHS, "outputs": _LENGTHS},
    "sglang": {"ttft": _SGLANG_TIMES, "e2e": _SGLANG_TIMES,
               "gap": (0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080, 0.1, 0.2),
               "queue": (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10),
               "prompts": _SGLANG_LENGTHS, "outputs": _SGLANG_LENGTHS},
    "trtllm": _VLLM,
}  # fmt: skip
LABELS = {"vllm": {"engine": "0"}, "sglang": {"engine_type": "unified"}, "trtllm": {"engine_type": "pytorch"}}
_RANKS = {"moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}  # of what SGLang's scheduler counts
_OF_SCHEDULER = {"running", "waiting", "use", "queue"}
NAMES = {
    "vllm": {"running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting", "use": "vllm:kv_cache_usage_perc",
             "ttft": "vllm:time_to_first_token_seconds", "gap": "vllm:inter_token_latency_seconds",
             "tpot": "vllm:request_time_per_output_token_seconds", "e2e": "vllm:e2e_request_latency_seconds",
             "queue": "vllm:request_queue_time_seconds", "prompts": "vllm:request_prompt_tokens",
             "outputs": "vllm:request_generation_tokens", "prompt_tokens": "vllm:prompt_tokens_total",
             "output_tokens": "vllm:generation_tokens_total", "finished": "vllm:request_success_total",
             "cached": "vllm:prefix_cache_hits_total", "looked": "vllm:prefix_cache_queries_total"},
    "sglang": {"running": "sglang:num_running_reqs", "waiting": "sglang:num_queue_reqs", "use": "sglang:token_usage",
               "ttft": "sglang:time_to_first_token_seconds", "gap": "sglang:inter_token_latency_seconds",
               "e2e": "sglang:e2e_request_latency_seconds", "queue": "sglang:queue_time_seconds",
               "prompts": "sglang:prompt_tokens_histogram", "outputs": "sglang:generation_tokens_histogram",
               "prompt_tokens": "sglang:prompt_tokens_total", "output_tokens": "sglang:generation_tokens_total",
               "finished": "sglang:num_requests_total", "cached": "sglang:cached_tokens_total"},
    "trtllm": {"running": "trtllm_num_requests_running", "waiting": "trtllm_num_requests_waiting",
               "use": "trtllm_kv_cache_utilization", "ttft": "trtllm_time_to_first_token_seconds",
               "tpot": "trtllm_time_per_output_token_seconds", "e2e": "trtllm_e2e_request_latency_seconds",
               "queue": "trtllm_request_queue_time_seconds", "prompt_tokens": "trtllm_prompt_tokens_total",
               "output_tokens": "trtllm_generation_tokens_total", "finished": "trtllm_request_success_total",
               "cached": "trtllm_prompt_cached_tokens_total"},
}  # fmt: skip
ROOM = {
    "vllm": 'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}",num_cpu_blocks="None",engine="0"}} 1.0\n',
    "sglang": 'sglang:max_total_num_tokens{{model_name="{model}",tp_rank="0"}} {tokens}\n',
    "trtllm": "trtllm_kv_cache_max_blocks {blocks}\ntrtllm_kv_cache_tokens_per_block 16\n",
}
COUNTED = ("prompt_tokens", "output_tokens", "finished", "cached", "looked")


@dataclass
class Server:
    """A server that has served some requests; `serve` adds what a stretch of time adds."""

    engine: str
    model: str = "Qwen/Qwen3-8B"
    seed: int = 1
    running: int = 8
    room_tokens: int = 160_000
    values: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0.0))

    def serve(self, requests, *, prompt, output, ttft_ms, tpot_ms, spread=0.1, cached=0.0):
        """Requests of about these means: each number by a normal, `spread` times its mean wide."""
        chance = random.Random(f"{self.seed} {self.engine} {len(self.values.get('e2e', ()))}")

        def about(mean):
            return mean * max(chance.gauss(1.0, spread), 0.2)

        for _ in range(requests):
            asked, answered = round(about(prompt)), max(2, round(about(output)))
            self.ended(asked, answered, about(ttft_ms) / 1e3, about(tpot_ms) / 1e3, cached)
        return self

    def ended(self, asked, answered, first, pace, cached=0.0):
        """One request that ended: its lengths, and its times in seconds."""
        for name, value in (("ttft", first), ("tpot", pace), ("e2e", first + (answered - 1) * pace), ("queue", 0.0),
                            ("prompts", asked), ("outputs", answered)):  # fmt: skip
            self.values.setdefault(name, []).append(value)
        self.values.setdefault("gap", []).extend([pace] * (answered - 1))  # each gap of a request alike
        for name, more in (("prompt_tokens", asked), ("output_tokens", answered), ("finished", 1),
                           ("cached", cached * asked), ("looked", asked)):  # fmt: skip
            self.counts[name] += more

    def page(self, **labels):
        """All of it as text; `labels` are further ones, such as those of a replica."""
        names, bounds = NAMES[self.engine], BOUNDS[self.engine]

        def labelled(name):
            ranks = _RANKS if self.engine == "sglang" and name in _OF_SCHEDULER else {}
            ended = {"finished_reason": "length"} if name == "finished" and self.engine != "sglang" else {}
            known = {**LABELS[self.engine], "model_name": self.model, **ranks, **ended, **labels}
            return ",".join(f'{label}="{value}"' for label, value in sorted(known.items()))

        use = self.running * 2000 / self.room_tokens
        text = '# HELP python_info Python platform information\n# TYPE python_info gauge\npython_info{version="3.12.3"} 1.0\n'
        for name, value in (("running", self.running), ("waiting", 0.0), ("use", use), *self.counts.items()):
            if name in names:
                kind = "counter" if name in COUNTED else "gauge"
                text += f"# HELP {names[name]} Of a server.\n# TYPE {names[name]} {kind}\n{names[name]}{{{labelled(name)}}} {value}\n"
                if kind == "counter":
                    text += f"{names[name].removesuffix('_total')}_created{{{labelled(name)}}} 1.7904341127318213e+09\n"
        for name, limits in bounds.items():
            if name in names:
                text += histogram(names[name], labelled(name), self.values.get(name, []), limits)
        return text + ROOM[self.engine].format(blocks=self.room_tokens // 16, tokens=self.room_tokens, model=self.model)


def histogram(name, label, values, bounds):
    counts = [int(one) for one in np.searchsorted(np.sort(values), bounds, side="right")]
    lines = [f"# HELP {name} Histogram of a server.", f"# TYPE {name} histogram"]
    for bound, count in zip((*map(float, bounds), "+Inf"), (*counts, len(values)), strict=True):
        lines.append(f'{name}_bucket{{{label},le="{bound}"}} {float(count)}')
    return (
        "\n".join([*lines, f"{name}_count{{{label}}} {float(len(values))}", f"{name}_sum{{{label}}} {sum(values)}"])
        + "\n"
    )
