"""The schema, declared once: tables and columns with name, type, unit and meaning.

Databases, records, snapshots, raw relations and the reference page all follow from `store.schema.tables`. Limits are
never stored; the database is the only truth. Light: only `store.schema.sql_tables` imports SQLAlchemy."""
