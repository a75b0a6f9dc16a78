"""Help texts: options under headings, reports with what they take, examples. Plain text, without heavy packages."""
