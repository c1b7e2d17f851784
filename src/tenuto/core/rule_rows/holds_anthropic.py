"""For whom rules of the Messages dialect hold, in patterns of `row/model`.

Most are told by the model's traits: what it thinks, samples, forces, binds. What is here has no trait.
"""

from __future__ import annotations

__all__ = ["HOLDS"]

HOLDS = r"""
ANT-THINK-19 || deepseek/*
ANT-PARAM-15 || anthropic/*
ANT-PARAM-17 || */claude-opus-4-7*
ANT-TOOL-17 || anthropic/claude-opus-5-5* vertex/claude-opus-5-5*
"""
