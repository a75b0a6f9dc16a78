"""The parts of asking: options and limits, headers of reports, checked questions and their SQL parameters."""
