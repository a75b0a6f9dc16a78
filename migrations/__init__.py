"""Alembic environment and revisions. Run by store.migrating from code; opening a store never runs them."""
