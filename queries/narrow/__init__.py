"""Probes of a scope in memory: what a second question finds there, so that a moved limit costs milliseconds."""
