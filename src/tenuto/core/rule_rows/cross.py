"""Rules of the cross dialect."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
"""
