"""Offers of a shell while a command is typed. Nothing here writes, and nothing fails aloud."""
