"""Load tests: with many concurrent sessions, no run fails, nothing leaks, and no turn is lost or doubled."""
