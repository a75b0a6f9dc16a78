"""Requests that arrive: streams of arrivals, continuous batching played against a clock, and what is kept of a play."""
