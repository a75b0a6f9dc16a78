"""The command line: translates options into calls and renders results. The only package that prints."""
