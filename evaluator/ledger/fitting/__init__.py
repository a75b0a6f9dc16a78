"""Engines' numbers fitted to measured points."""
