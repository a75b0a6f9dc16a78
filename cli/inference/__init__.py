"""The seeds' command line, unchanged: python -m cli.inference.throughput_optimizer."""
