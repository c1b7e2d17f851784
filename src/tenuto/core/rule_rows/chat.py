"""Rules of the chat dialect."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
"""
