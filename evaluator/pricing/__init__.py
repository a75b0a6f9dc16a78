"""Operators to seconds and bytes: cost families, steps, memory."""
