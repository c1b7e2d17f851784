"""Keeping sessions: the journal in memory, in SQLite, in Postgres."""
