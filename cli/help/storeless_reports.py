"""Reports that read no store, with their summaries. Answering them: cli.commands.storeless."""

from __future__ import annotations

STORELESS = {
    "bandwidth": "when fetching a prefix beats computing it: the least bandwidth, a closed form over no store",
    "conforming": "the share of the requests of measured logs (FILE...) that met limits, read from the files",
}
