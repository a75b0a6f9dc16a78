"""Translates options into calls and renders results; only here is anything printed."""

import gc

# Objects between searches for cycles, from the first import on: imports make many, and few that go again.
gc.set_threshold(50_000)
