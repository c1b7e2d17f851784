"""Stored sessions as documents."""
