"""Revisions, oldest first: one purpose each, its first line says why."""
