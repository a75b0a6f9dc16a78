"""Operators of a forward step with exact affine work, captured from torch blocks on the meta device."""
