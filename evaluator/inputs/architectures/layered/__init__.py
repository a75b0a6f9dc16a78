"""Readers of models whose layers differ one by one."""
