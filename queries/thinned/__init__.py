"""Rows that can win: what is left of a part where others cannot be an answer's row, whatever limits are asked."""
