"""Kill processes at every line of the stores and of the agent: see `crash.run`."""
