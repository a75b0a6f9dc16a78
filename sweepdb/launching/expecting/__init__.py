"""Expectations of what is launched: numbers as a client sees the whole deployment, and the file that keeps them."""
