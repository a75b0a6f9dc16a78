"""Blocks of image encoders."""
