"""Asking: the client, its transport, its middleware and the door for code that does not await."""
