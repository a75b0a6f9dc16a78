"""Help texts, without heavy packages."""
