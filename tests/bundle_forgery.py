"""What a forger does to a bundle: changes lines or rows, then makes every digest and hash of it right again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from store.digests import DigestedRows, rows_digest
from store.placing import whole_digest
from store.sealing import fetched_arrays


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def with_lines(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    items = lines(folder, name)
    change(items)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))


def with_rows(folder: Path, statement: str) -> None:
    path = folder / "probes.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE probes AS FROM '{path}'")
        connection.execute(statement)
        connection.execute(f"COPY (FROM probes ORDER BY scenario, batch_size) TO '{path}' (FORMAT parquet)")


def made_right(folder: Path) -> None:
    """Give blocks the digests of the rows that are there now, and files their hashes."""

    def digests(blocks: list[dict[str, Any]]) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE probes AS FROM '{folder}/probes.parquet'")
            connection.execute(f"CREATE TABLE compositions AS FROM '{folder}/compositions.parquet'")
            for item in blocks:
                where = [item["scenario"], item["first_batch_size"], item["last_batch_size"]]
                within = "scenario = ? AND batch_size BETWEEN ? AND ? ORDER BY batch_size"
                rows = fetched_arrays(connection.execute(f"FROM probes WHERE {within}", where))
                composed = fetched_arrays(connection.execute(f"FROM compositions WHERE {within}", where))
                parts = (composed["batch_size"], composed["bin_index"], composed["samples"])
                try:
                    item["digest"] = rows_digest(
                        item["scenario"],
                        DigestedRows.of_columns(rows["batch_size"], rows),
                        parts if len(composed["batch_size"]) else None,
                    )
                except (TypeError, ValueError):  # text among numbers has no digest
                    continue

    with_lines(folder, "blocks", digests)
    described = json.loads((folder / "bundle.json").read_text())
    described["contents"] = {name: {"sha256": whole_digest(folder / name)} for name in described["contents"]}
    (folder / "bundle.json").write_text(json.dumps(described))
