"""The commands, one module a theme. Heavy packages are imported inside the functions that need them."""
