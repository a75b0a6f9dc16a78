"""Measured points that teach, made of stored rows."""

from __future__ import annotations

from queries.learning import OwnPoint, Server, Setting
from store.schema import OF_PLANS


def point_of(model_key, row, key, *, ttft=None, tpot=None, rate=None):
    """A measured point at a stored row: its values times these factors."""
    measured = {"ttft_ms": ttft and ttft * row["ttft_ms"], "tpot_exclusive_ms": tpot and tpot * row["tpot_exclusive_ms"],
                "output_tokens_per_s": rate and rate * 1000 * row["concurrency"] * row["output_length"] / row["e2e_ms"]}  # fmt: skip
    server = Server(
        model_key,
        row["device"],
        row["serving_model"],
        *(row[f"{part}_quantization"] for part in ("linear", "experts", "attention")),
    )
    setting = Setting(row["concurrency"], row["input_length"], row["output_length"], row["num_devices"], row["dp"],
                      row["ep"], " ".join(str(row[size.name]) for size in OF_PLANS))  # fmt: skip
    return OwnPoint(key=key, source=f"{key}.json", server=server, setting=setting, batch_size=row["batch_size"],
                    measured={name: value for name, value in measured.items() if value})  # fmt: skip
