"""A day of requests: replicas by minute, and what requests get."""
