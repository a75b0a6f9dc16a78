"""A server of the OpenAI streaming API that is as fast as a server of that size was measured, by `vllm serve`'s flags.

Times come from a file of measured rows, `{"TP": {"USERS": [ttft_ms, tpot_ms]}}` in MEASURED_ROWS, between users evenly
in logarithms, and are divided by SPEED. FAULTS, `{"TP": "what goes wrong"}`, says what goes wrong. It has a worker in a
session of its own, which must end with it. `python tests/measured_server.py serve MODEL --port 8000 ...`"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

CHUNKS = 4  # after the first token: more are work for the machine of the test, and say nothing
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def flag(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Measured:
    def __init__(self, rows, speed, crash_at):
        self.rows = sorted((int(users), *times) for users, times in rows.items())
        self.speed, self.crash_at, self.in_flight = speed, crash_at, 0

    def times(self):
        """Seconds to the first token and between tokens, at what is in flight now."""
        at = math.log(max(self.in_flight, 1))
        pairs = list(zip(self.rows, self.rows[1:], strict=False))
        low, high = next((one for one in pairs if at <= math.log(one[1][0])), pairs[-1])
        share = (at - math.log(low[0])) / (math.log(high[0]) - math.log(low[0]))
        return [
            math.exp((1 - share) * math.log(low[i]) + share * math.log(high[i])) / 1000 / self.speed for i in (1, 2)
        ]

    async def connected(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        if "/health" in head[0]:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            length = next(int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:"))
            await self.generate(json.loads(await reader.readexactly(length)), writer)
        await writer.drain()
        writer.close()

    async def generate(self, body, writer):
        self.in_flight += 1
        if self.in_flight >= self.crash_at:
            print(OUT_OF_MEMORY, flush=True)
            os._exit(1)
        sent = asyncio.get_running_loop().time()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(0.002)  # those who came together see each other
        wanted, (first, each) = body["max_tokens"], self.times()
        parts, left = [1], wanted - 1
        for chunk in range(CHUNKS, 0, -1):
            parts.append(left // chunk)
            left -= parts[-1]
        due = sent + first
        for number, tokens in enumerate(part for part in parts if part):
            due += each * tokens if number else 0.0
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            text = json.dumps({"choices": [{"text": " t" * tokens}]})
            writer.write(f"data: {text}\n\n".encode())
            await writer.drain()
        writer.write(b"data: [DONE]\n\n")
        self.in_flight -= 1


def prepared():
    """The server before it listens: whatever goes wrong with a start goes wrong here."""
    size = flag("--tensor-parallel-size", "1")
    rows = json.loads(Path(os.environ["MEASURED_ROWS"]).read_text(encoding="utf-8"))
    fault = json.loads(os.environ.get("FAULTS", "{}")).get(size, "")
    if fault == "crash at start":
        raise SystemExit("RuntimeError: NCCL error: unhandled system error")
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if fault == "out of memory" or size not in rows:
        print(OUT_OF_MEMORY, flush=True)
        raise SystemExit(1)
    if fault.startswith("slow start"):
        time.sleep(float(fault.rpartition(" ")[2]))
    crash_at = int(fault.rpartition(" ")[2]) if fault.startswith("crash under load") else math.inf
    return Measured(rows[size], float(os.environ.get("SPEED", "1")), crash_at)


async def main(measured):
    server = await asyncio.start_server(measured.connected, "0.0.0.0", int(flag("--port", "8000")))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(prepared()))
