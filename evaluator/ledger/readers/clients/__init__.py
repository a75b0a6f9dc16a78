"""Benchmark clients, a module each: where a fact stands in what they write. One reader reads them all (declared)."""
