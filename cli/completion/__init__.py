"""Completion in shells: never writes, never fails aloud."""
