"""The OpenAI chat dialect, and the switches by which its providers differ."""
