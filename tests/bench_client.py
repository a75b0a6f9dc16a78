"""A client that asks as `vllm bench serve` does, by the same flags, and writes a result in the same layout.

It stands in where vLLM is not installed: so many users at once, each with its next request when it is answered, lengths
drawn evenly around their means. Where SPEED is set, the server is that many times too fast, and what is measured is
told as of one that is not. `python tests/bench_client.py bench serve --base-url URL ...`"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit


def parsed(arguments):
    """The flags that bench.sh writes; a flag that it does not is an error."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["bench"])
    parser.add_argument("what", choices=["serve"])
    for name in ("base-url", "model", "tokenizer", "result-dir", "result-filename", "percentile-metrics",
                 "metric-percentiles"):  # fmt: skip
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--backend", choices=["openai"], required=True)
    parser.add_argument("--dataset-name", choices=["random"], required=True)
    for name in ("random-input-len", "random-output-len", "num-prompts"):
        parser.add_argument(f"--{name}", type=int, required=True)
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--max-concurrency", type=int)
    load.add_argument("--request-rate", type=float)
    parser.add_argument("--random-range-ratio", type=float, required=True)
    for name in ("ignore-eos", "save-result", "save-detailed"):
        parser.add_argument(f"--{name}", action="store_true", required=True)
    return parser.parse_args(arguments)


async def answered(url, model, prompt, output):
    body = json.dumps({"model": model, "prompt": "w1 " * prompt, "max_tokens": output, "stream": True}).encode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    sent = last = time.perf_counter()
    writer.write(head.encode() + body)
    times = []
    assert b" 200 " in await reader.readline()
    await reader.readuntil(b"\r\n\r\n")
    while (line := await reader.readline()) != b"data: [DONE]\n":
        assert line, "the server closed a connection"
        if line.startswith(b"data: "):
            now = time.perf_counter()
            new = json.loads(line[6:])["choices"][0]["text"].count("t")
            times += [now - last, *[0.0] * (new - 1)]
            last = now
    writer.close()
    return sent, times


async def measured(asked):
    """Every request: as many at once as there are users, or at random moments of a rate."""
    url, draw = urlsplit(asked.base_url), random.Random(0)
    free = asyncio.Semaphore(asked.max_concurrency or asked.num_prompts)

    def length(mean):
        least, most = int(mean * (1 - asked.random_range_ratio)), -int(-mean * (1 + asked.random_range_ratio) // 1)
        return draw.randint(least, most)

    moments, moment = [], 0.0
    for _ in range(asked.num_prompts):
        moments.append(moment)
        moment += (
            draw.expovariate(asked.request_rate) / float(os.environ.get("SPEED", "1")) if asked.request_rate else 0
        )

    async def one(after, prompt, output):
        await asyncio.sleep(after)
        async with free:
            sent, times = await answered(url, asked.model, prompt, output)
            return prompt, sent, times

    lengths = [(length(asked.random_input_len), length(asked.random_output_len)) for _ in range(asked.num_prompts)]
    return await asyncio.gather(*(one(after, *both) for after, both in zip(moments, lengths, strict=True)))


def result(asked, rows, seconds):
    speed = float(os.environ.get("SPEED", "1"))
    seconds, rows = (
        speed * seconds,
        [(prompt, speed * sent, [speed * one for one in times]) for prompt, sent, times in rows],
    )
    ttfts, itls = [times[0] for *_, times in rows], [times[1:] for *_, times in rows]
    tpots = [sum(gaps) / len(gaps) for gaps in itls if gaps]
    tokens = sum(len(times) for *_, times in rows)
    means = {"ttft": ttfts, "tpot": tpots, "itl": [gap for gaps in itls for gap in gaps],
             "e2el": [sum(times) for *_, times in rows]}  # fmt: skip
    return {
        "endpoint_type": "openai", "backend": "openai", "model_id": asked.model, "num_prompts": asked.num_prompts,
        "request_rate": asked.request_rate or "inf", "max_concurrency": asked.max_concurrency, "duration": seconds, "completed": len(rows),
        "failed": 0, "total_input_tokens": sum(prompt for prompt, *_ in rows), "total_output_tokens": tokens,
        "request_throughput": len(rows) / seconds, "output_throughput": tokens / seconds,
        "input_lens": [prompt for prompt, *_ in rows], "output_lens": [len(times) for *_, times in rows],
        "ttfts": ttfts, "itls": itls, "start_times": [sent for _, sent, _ in rows], "errors": [""] * len(rows),
        **{f"mean_{name}_ms": 1000 * statistics.mean(values) for name, values in means.items()},
        **{f"median_{name}_ms": 1000 * statistics.median(values) for name, values in means.items()},
    }  # fmt: skip


if __name__ == "__main__":
    ASKED = parsed(sys.argv[1:])
    START = time.perf_counter()
    ROWS = asyncio.run(measured(ASKED))
    DOCUMENT = result(ASKED, ROWS, time.perf_counter() - START)
    (Path(ASKED.result_dir) / ASKED.result_filename).write_text(json.dumps(DOCUMENT), encoding="utf-8")
