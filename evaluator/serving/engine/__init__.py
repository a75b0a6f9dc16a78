"""Serving engines: a closed loop against a scheduler, and fitted numbers."""
