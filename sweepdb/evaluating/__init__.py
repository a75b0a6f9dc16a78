"""Options and sweep files into requests, and requests into the store."""
