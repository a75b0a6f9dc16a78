"""Translates options into calls and renders results; only here is anything printed."""
