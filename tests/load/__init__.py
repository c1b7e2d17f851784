"""Many sessions at once: nothing fails, nothing leaks, no turn is lost or doubled."""
