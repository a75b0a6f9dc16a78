"""Measured points of a store as answers read them, kept between questions, and what they say of one row.

Not here: the statistics (queries.learning)."""
