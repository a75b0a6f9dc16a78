"""Mixers of tokens other than full attention, with operators and formulas."""
