"""kill -9 at every line of the stores: see `crash.run`."""
