"""Snapshots of a store: laying committed blocks down as Parquet, reading them back, and blocks that none holds yet.

Not here: questions over them (queries.connect)."""

from store.sealing.laying_down import SealReport, check_snapshots, seal, seal_location

__all__ = ["SealReport", "check_snapshots", "seal", "seal_location"]
