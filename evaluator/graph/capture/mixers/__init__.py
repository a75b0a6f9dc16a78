"""Blocks of what mixes tokens in other ways than full attention, with their operators and formulas."""
