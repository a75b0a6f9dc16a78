"""Alembic environment and revisions, run by store.migrating; opening a store never runs them."""
