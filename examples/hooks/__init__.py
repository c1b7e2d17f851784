"""Hooks: redaction, an approval policy from a database, timing. `docs/agent.md` explains the methods."""
