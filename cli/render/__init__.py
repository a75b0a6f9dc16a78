"""Rows as text: tables, CSV, JSON. No command and no SQL here."""
