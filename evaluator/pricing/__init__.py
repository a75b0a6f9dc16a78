"""Operators to seconds and bytes."""
