"""Lengths of requests: fixed, distributions, and traces."""
