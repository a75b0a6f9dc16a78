"""Serving engines: a closed loop of users played against a scheduler, and the few fitted numbers of each engine."""
