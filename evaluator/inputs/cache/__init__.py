"""Parts of a cache that a request states apart from keys and values."""
