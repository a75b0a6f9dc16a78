"""Serving in waves, as the seeds count it."""
