"""Running sessions."""
