"""Speculative decoding: measured gains, and layers of drafts."""
