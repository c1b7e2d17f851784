"""Text on the terminal."""
