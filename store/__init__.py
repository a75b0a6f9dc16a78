"""Schema, opening, writing, sealing, snapshots, migrating. Imports nothing of ours.

Importing `store` stays light: SQLAlchemy is imported where it is used."""
