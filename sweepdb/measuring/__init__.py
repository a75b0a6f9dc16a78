"""Measured points: kept, compared with predictions, fitted to, summed up as errors by region."""
