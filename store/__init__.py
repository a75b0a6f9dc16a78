"""The store: schema, opening, writing, sealing, snapshots, migrating. Imports nothing of ours.

Importing `store` stays light: submodules that need SQLAlchemy are imported where they are used."""
