"""Rules of the anthropic dialect."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
"""
