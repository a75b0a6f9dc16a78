"""Workflows that need both evaluating and asking: typed in and out, without Typer and without printing."""
