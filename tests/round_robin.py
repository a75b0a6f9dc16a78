"""A router that stands in where vLLM's is not installed: by its flags, each connection to the next of several servers.

`python tests/round_robin.py --worker-urls http://127.0.0.1:8001 ... --policy round_robin --host 0.0.0.0 --port 8000`"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
from urllib.parse import urlsplit


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
    writer.close()


async def _routed(asked: argparse.Namespace) -> None:
    places = itertools.cycle([urlsplit(url) for url in asked.worker_urls])

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = next(places)
        inner_reader, inner_writer = await asyncio.open_connection(place.hostname, place.port)
        await asyncio.gather(_copied(reader, inner_writer), _copied(inner_reader, writer))

    async with await asyncio.start_server(connected, asked.host, asked.port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--worker-urls", nargs="+", required=True)
    parser.add_argument("--policy", choices=["round_robin"], required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(_routed(parser.parse_args()))
