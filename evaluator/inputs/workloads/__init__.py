"""Workloads: lengths of requests, their distributions, traces reduced to bins, and labels."""
