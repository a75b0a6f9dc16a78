"""Drafts of speculative decoding: how many tokens they gain, as measured, and layers of their own."""
