"""A connection that sends no whole request is closed; one that is asked over is not."""

from __future__ import annotations

import asyncio

import pytest

uvicorn = pytest.importorskip("uvicorn")
from sweepdb.web import serving  # noqa: E402  not without uvicorn


async def _app(scope, receive, send):
    await asyncio.sleep(0.6)  # longer than headers may take
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_half_a_request_is_closed_and_a_slow_answer_is_not(monkeypatch):
    monkeypatch.setattr(serving, "_HEADERS_S", 0.3)

    async def asking():
        config = uvicorn.Config(_app, http=serving.PromptProtocol, log_level="error", lifespan="off", port=0)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  uvicorn tells nobody
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        half, halves = await asyncio.open_connection("127.0.0.1", port)
        halves.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
        whole, wholes = await asyncio.open_connection("127.0.0.1", port)
        wholes.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        ended = await asyncio.wait_for(half.read(), 10)
        answered = await asyncio.wait_for(whole.read(200), 10)
        server.should_exit = True
        halves.close()
        wholes.close()
        await running
        return ended, answered

    ended, answered = asyncio.run(asking())
    assert ended == b""
    assert answered.startswith(b"HTTP/1.1 200")
