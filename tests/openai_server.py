"""A server that answers the OpenAI streaming API as a stored row predicts: real requests, real time, no model.

It plays the row's engine step by step and sleeps as long as each step is predicted to take, so that clients of any make
measure what the prediction says. Words of a prompt are its tokens.

`PYTHONPATH=.:tests python tests/openai_server.py a1b2c3d4:8 --store sqlite:///store.sqlite --port 8000`"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from arrival_player import Arrived, Server

from evaluator.arrivals.loads import kv_room
from evaluator.arrivals.play_rules import PlayRules
from evaluator.arrivals.prices import prices_of
from evaluator.evaluate import cost_of
from evaluator.graph import operators_from_json
from evaluator.request import PlannedScenario
from evaluator.scenario import serving_engine
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import SPACING
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from evaluator.together import captures
from store.location import parse_url
from store.opening import open_store
from store.writing import get_operators
from sweepdb.launching.stored_instance import StoredInstance, read_instance

SEATS = 256
_HEAD = "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}\r\n"


@dataclass
class Player(Server):
    """The engine's steps, and which requests got a token in the last of them."""

    fresh: Counter[int] = field(default_factory=Counter)

    def begin(self, one: Arrived, moment: float, generated: int = 0) -> None:
        super().begin(one, moment, generated)
        self.fresh[one.number] += 1

    def generate(self, decoding: list[Arrived]) -> None:
        super().generate(decoding)
        self.fresh.update(one.number for one in decoding)


class Served:
    """Requests in real time through the player: a coroutine takes a request's tokens as its steps end."""

    def __init__(self, url: str, probe: str) -> None:
        self.instance = read_instance(parse_url(url), probe)
        scenario = self.instance.scenario
        if scenario.phase != "aggregated" or scenario.plan.dp > 1 or scenario.workload.mtp_tokens:
            raise SystemExit("an aggregated row of one replica without drafts is served")
        run = _run(url, self.instance)
        engine = serving_engine(scenario)
        longest = self.instance.longest_tokens
        kinds = (RequestKind(new_tokens=longest, output_length=self.instance.workload.output_length),)
        self.stretch = -(-longest // SPACING) / longest
        prices, _ = prices_of(run, engine, SEATS, kinds, stretches=-(-longest // SPACING))
        rules = PlayRules(
            admission=engine.admission,
            token_budget=engine.token_budget,
            seats=self.instance.seats or SEATS,
            poll_steps=engine.client.poll_steps if engine.admission == "prefill_first" else 1,
            kv_tokens=kv_room(run, kinds, SEATS),
            reject_s=inf,
        )
        self.player = Player(rules, prices, [])
        self.received_s = (engine.request_ms + scenario.serving_cost_ms) / 1000
        self.waiting: dict[int, asyncio.Queue[int]] = {}
        self.asked = 0
        self.came = asyncio.Event()

    def submit(self, prompt: int, output: int) -> asyncio.Queue[int]:
        """A request that comes now; its queue gets a number of new tokens at each step."""
        now = asyncio.get_running_loop().time() + self.received_s
        one = Arrived(
            number=self.asked, arrive=now, prompt=max(prompt, 1), cached=0, steps=max(output, 1), node=0,
            stretch=self.stretch, service=0.0, ready=False,
        )  # fmt: skip
        self.asked += 1
        self.player.unseen.append(one)
        self.waiting[one.number] = asyncio.Queue()
        self.came.set()
        return self.waiting[one.number]

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.came.wait()
            self.came.clear()
            self.player.clock = max(self.player.clock, loop.time())
            for _ in self.player.steps():
                await asyncio.sleep(max(0.0, self.player.clock - loop.time()))
                for number, tokens in self.player.fresh.items():
                    self.waiting[number].put_nowait(tokens)
                    if number in self.player.end:
                        self.waiting.pop(number)
                self.player.fresh.clear()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answered(reader, writer):
                await writer.drain()
        writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        length = next((int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")), 0)
        method, path = head[0].split(" ")[:2]
        body = json.loads(await reader.readexactly(length)) if length else {}
        if method == "POST" and path in {"/v1/completions", "/v1/chat/completions"}:
            await self._generate(body, path.startswith("/v1/chat"), writer)
        elif path == "/v1/models":
            model = {"id": self.instance.model_name, "object": "model", "max_model_len": self.instance.longest_tokens}
            _whole(writer, {"object": "list", "data": [model]})
        elif path == "/health":
            _whole(writer, {})
        else:
            _whole(writer, {"error": f"{path} is not served"}, status="404 Not Found")
        return True

    async def _generate(self, body: dict, chat: bool, writer: asyncio.StreamWriter) -> None:
        prompt, wanted = _prompt_tokens(body), body.get("max_completion_tokens") or body.get("max_tokens") or 16
        longest = self.instance.longest_tokens
        if prompt + wanted > longest:
            what = f"{prompt} and {wanted} tokens are more than the {longest} of this server"
            _whole(writer, {"error": {"message": what}}, status="400 Bad Request")
            return
        tokens = self.submit(prompt, wanted)
        usage = {"prompt_tokens": prompt, "completion_tokens": wanted, "total_tokens": prompt + wanted}
        if not body.get("stream"):
            for _ in range(wanted):
                await tokens.get()
            _whole(writer, {**_choice(chat, " t" * wanted, last=True, whole=True), "usage": usage})
            return
        writer.write(
            _HEAD.format(status="200 OK", kind="text/event-stream", more="Transfer-Encoding: chunked\r\n").encode()
        )
        sent = 0
        while sent < wanted:
            new = await tokens.get()
            sent += new
            _event(writer, json.dumps(_choice(chat, " t" * new, last=sent == wanted)))
            await writer.drain()
        if (body.get("stream_options") or {}).get("include_usage"):
            _event(writer, json.dumps({**_choice(chat, "", last=True), "choices": [], "usage": usage}))
        _event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")


def _run(url: str, instance: StoredInstance) -> Run:
    wanted = captures(PlannedScenario(model_name=instance.model_name, scenario=instance.scenario))
    with open_store(url, read_only=True) as store:
        payloads = get_operators(store, [item.key for item in wanted.values()])
    scenario = instance.scenario
    return Run(
        scenario=scenario,
        operators={name: operators_from_json(payloads[item.key]) for name, item in wanted.items()},
        source=serving_model_of(scenario).source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([1], dtype=np.int64),
    )


def _prompt_tokens(body: dict) -> int:
    """Words of a prompt; a list of numbers is one prompt of tokens."""
    if "messages" in body:
        parts = [one["content"] for one in body["messages"]]
        texts = [part if isinstance(part, str) else " ".join(item.get("text", "") for item in part) for part in parts]
        return sum(len(text.split()) for text in texts)
    prompt = body["prompt"]
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        return len(prompt)
    return len((prompt[0] if isinstance(prompt, list) else prompt).split())


def _choice(chat: bool, text: str, *, last: bool, whole: bool = False) -> dict:
    said = {"message" if whole else "delta": {"role": "assistant", "content": text}} if chat else {"text": text}
    choice = {"index": 0, **said, "finish_reason": "length" if last else None}
    kind = ("chat.completion" if whole else "chat.completion.chunk") if chat else "text_completion"
    return {"id": "answer", "object": kind, "created": 0, "model": "served", "choices": [choice]}


def _whole(writer: asyncio.StreamWriter, document: dict, status: str = "200 OK") -> None:
    text = json.dumps(document).encode()
    head = _HEAD.format(status=status, kind="application/json", more=f"Content-Length: {len(text)}\r\n")
    writer.write(head.encode() + text)


def _event(writer: asyncio.StreamWriter, text: str) -> None:
    data = f"data: {text}\n\n".encode()
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Serve a stored row: the OpenAI API in predicted time.")
    parser.add_argument("probe")
    parser.add_argument("--store", required=True)
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    asked = parser.parse_args(arguments)
    served = Served(asked.store, asked.probe)
    server = await asyncio.start_server(served.connected, "127.0.0.1", asked.port)
    port = server.sockets[0].getsockname()[1]
    print(f"{served.instance.model_name} as {asked.probe} predicts: http://127.0.0.1:{port}", flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    steps = asyncio.create_task(served.serve())
    await asyncio.wait({steps, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
    if steps.done():
        steps.result()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
