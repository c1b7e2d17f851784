"""Rules of the responses dialect."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
"""
