"""Measured points of serving: what deployment each is, what we predict for it, and how far off that is."""
