"""Completion in shells: never writes, never fails aloud.

A shell's script sets VARIABLE, passes the words typed, and reads a candidate a line with its meaning behind a tab.
Without one the shell completes files. Bash splits words at `:` and `=` itself, which would tear probes and
`--option=value` apart: its script reads the line instead."""

from __future__ import annotations

from pathlib import Path

VARIABLE = "_SWEEPDB_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def completion_script(shell: str) -> str:
    return Path(__file__).with_name(f"offers.{shell}").read_text(encoding="utf-8").replace("VARIABLE", VARIABLE)
