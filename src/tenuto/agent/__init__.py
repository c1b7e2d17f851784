"""The agent: what is owed, and doing it. `session` and `agent` are the doors; `machine` decides and knows nothing of IO."""
