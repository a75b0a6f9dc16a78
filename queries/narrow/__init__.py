"""A scope's probes in memory, so that a new limit costs milliseconds."""
