"""The Chat Completions dialect, as OpenAI and those who speak it after them."""

from __future__ import annotations

__all__: list[str] = []
