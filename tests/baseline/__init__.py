"""The baseline: what the project does today, recorded so that a redesign can be compared with it."""
