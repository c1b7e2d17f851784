"""Agents: `agent` and `session` are the public classes, `machine` computes the next step, `runner` does it."""
