"""Commands, a module a theme. Heavy packages are imported inside functions."""
