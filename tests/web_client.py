"""Requests to an ASGI application in this process, header by header: no library that would mend them on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True)
class Got:
    """An answer: its status, headers in lower case, and body."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


async def send(app, path, parameters=(), *, method="GET", headers=(("host", "localhost:8787"),), body=b""):
    """One request to an application; parameters are a mapping or pairs."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": urlencode(parameters).encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8787),
    }
    told = {"body": b""}

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def answered(message):
        if message["type"] == "http.response.start":
            told["status"] = message["status"]
            told["headers"] = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            told["body"] += message.get("body", b"")

    await app(scope, receive, answered)
    return Got(told["status"], told["headers"], told["body"])
