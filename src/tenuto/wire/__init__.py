"""Translation between values and bytes. Pure: no clock, no randomness, no environment, no network, no logging."""
