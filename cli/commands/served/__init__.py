"""Commands that stay and answer others: a page in a browser, tools of an assistant."""
