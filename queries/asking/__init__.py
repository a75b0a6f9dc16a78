"""What can be asked: options and limits, headers of reports, checked questions and their SQL parameters."""
