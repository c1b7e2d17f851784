"""Styles of the simulator that name no model: everything is taken, nothing is paid."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
[sim] price=0/0 continuity=yes others=yes
anthropic | a Claude, simulated | output=128_000 thinking=adaptive|budget|disabled|between_tools | - | inf | high | -
gemini|vertex | a Gemini, simulated | thinking=level|budget | - | inf | high | -
openai|azure|xai|meta | a model that is asked by Responses, simulated | thinking=effort | - | inf | high | -
(?:[a-z]+) | a model that is asked by Chat Completions, simulated | thinking=toggle|effort | - | inf | high | -
"""
