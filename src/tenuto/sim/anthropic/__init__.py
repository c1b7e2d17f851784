"""The Anthropic Messages dialect, as the provider speaks it."""
