"""A day of requests: how many replicas serve in each minute, and what requests get of them."""
