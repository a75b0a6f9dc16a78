"""The rules of llm-d's Benchmark Report 0.2.1 for what we write of one, as a JSON schema of our own."""

from __future__ import annotations


def _object(required=(), *, more=False, **properties):
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": more}


_NUMBERS = ("mean", "min", "max", "p0p1", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99p9")


def _statistics(*units):
    numbers = {name: {"type": "number"} for name in _NUMBERS}
    return _object(
        ("units", "mean"), more=True, units={"enum": list(units)}, stddev={"type": "number", "minimum": 0}, **numbers
    )


TEXT, ANYTHING, COUNT = {"type": "string"}, {}, {"type": "integer", "minimum": 0}
AT_LEAST_ONE = {"type": "integer", "minimum": 1}
_LENGTH = _object(("distribution", "value"), distribution={"enum": ["fixed", "gaussian", "uniform", "other"]},
                  value={"type": "number", "minimum": 0})  # fmt: skip
_NATIVE = _object(args={"type": "object"}, envars={"type": "object"}, config=ANYTHING)
_ENGINE = _object(
    ("kind", "tool", "tool_version", "role", "replicas", "model", "accelerator"),
    kind={"const": "inference_engine"}, tool=TEXT, tool_version=TEXT, role={"enum": ["replica", "prefill", "decode"]},
    replicas=AT_LEAST_ONE, model=_object(("name",), name=TEXT),
    accelerator=_object(
        ("model", "count", "parallelism"), model=TEXT, count=COUNT,
        parallelism=_object(tp=COUNT, dp=COUNT, dp_local=COUNT, workers=COUNT, ep=AT_LEAST_ONE, pp=AT_LEAST_ONE),
    ),
)  # fmt: skip
_LOAD = _object(
    ("tool", "tool_version", "source", "input_seq_len"),
    tool=TEXT, tool_version=TEXT, source={"enum": ["random", "sampled", "unknown"]}, input_seq_len=_LENGTH,
    output_seq_len=_LENGTH, rate_qps={"type": "number", "exclusiveMinimum": 0}, concurrency={"type": "number", "minimum": 1},
)  # fmt: skip
_PER_TOKEN, _TOKENS = _statistics("s/token", "ms/token"), _statistics("tokens/s")
_AGGREGATE = _object(
    requests=_object(("total",), total=COUNT, failures=COUNT, incomplete=COUNT, input_length=_statistics("count"),
                     output_length=_statistics("count")),
    latency=_object(time_to_first_token=_statistics("s", "ms"), request_latency=_statistics("s", "ms"),
                    time_per_output_token=_PER_TOKEN, inter_token_latency=_PER_TOKEN,
                    normalized_time_per_output_token=_PER_TOKEN),
    throughput=_object(input_token_rate=_TOKENS, output_token_rate=_TOKENS, total_token_rate=_TOKENS,
                       request_rate=_statistics("queries/s")),
)  # fmt: skip
REPORT_SCHEMA = _object(
    ("version", "run", "results"),
    version={"const": "0.2.1"},
    run=_object(("uid",), uid=TEXT, eid=TEXT, cid=TEXT, pid=TEXT, user=TEXT, keywords={"type": "array", "items": TEXT},
                time=_object(start={"type": "string", "format": "date-time"}, end=TEXT, duration=TEXT)),
    scenario=_object(
        stack={"type": "array", "items": _object(
            ("metadata", "standardized", "native"), native=_NATIVE, standardized=_ENGINE,
            metadata=_object(("label", "cfg_id"), schema_version=TEXT, label=TEXT, cfg_id=TEXT))},
        load=_object(("metadata", "standardized", "native"), standardized=_LOAD, native=_NATIVE,
                     metadata=_object(schema_version=TEXT, cfg_id=TEXT)),
    ),
    results=_object(request_performance=_object(aggregate=_AGGREGATE), profiling=ANYTHING),
)  # fmt: skip
