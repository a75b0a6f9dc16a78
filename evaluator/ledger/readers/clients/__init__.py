"""Benchmark clients: where facts stand in their files. One reader reads all (declared)."""
