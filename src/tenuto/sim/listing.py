"""The models that can be asked for: every style, and for some of them a few real models, in three forms of a list."""

from __future__ import annotations

from typing import Any

from tenuto.core.provider import Dialect
from tenuto.sim.styles import STYLES, exists, find

__all__ = ["MODELS", "entry", "listed"]

MODELS: dict[str, tuple[str, ...]] = {
    "anthropic": (
        *("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-opus-5", "claude-sonnet-5"),
        *("claude-opus-4-8", "claude-opus-4-6", "claude-sonnet-4-6", "claude-sonnet-4-5", "claude-haiku-4-5"),
    ),
    "openai": ("gpt-6-sol", "gpt-5.6", "gpt-5.5", "gpt-5.2", "gpt-5-mini", "gpt-4.1", "gpt-4o", "o3"),
    "gemini": ("gemini-3.5-flash", "gemini-3-pro-preview", "gemini-3-flash-preview", "gemini-2.5-pro"),
    "deepseek": ("deepseek-v4-pro", "deepseek-chat"),
    "moonshot": ("kimi-k3", "kimi-k2.6"),
    "mistral": ("mistral-medium-latest", "magistral-medium-latest"),
    "xai": ("grok-4.5",),
    "groq": ("openai/gpt-oss-120b", "llama-3.3-70b-versatile"),
    "zai": ("glm-5.3", "glm-4.7"),
}
"""Not all that are taken, only what a list shows; a style's pattern says what is."""
_MADE = 1_767_225_600  # the first of January 2026
_OUTPUT = 65_536


def listed(dialect: Dialect) -> dict[str, Any]:
    """Return the list in the form of a dialect. Anthropic's and Gemini's have only what can be asked in that dialect."""
    narrow = dialect in ("anthropic-messages", "gemini")
    styles = list(dict.fromkeys(style.name for style in STYLES if not narrow or style.dialect == dialect))
    ids = [id for style in styles for id in (style, *(f"{style}/{model}" for model in MODELS.get(style, ())))]
    if dialect == "anthropic-messages":
        told: dict[str, Any] = {"data": [_anthropic(id) for id in ids]}
        return {**told, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}
    if dialect == "gemini":
        return {"models": [_gemini(id) for id in ids]}
    return {"object": "list", "data": [_openai(id) for id in ids]}


def entry(id: str, dialect: Dialect) -> dict[str, Any] | None:
    """Return the entry of one model in the form of a dialect; None if its style has no such model."""
    narrow = dialect in ("anthropic-messages", "gemini")
    tried: tuple[Dialect, ...] = (dialect,) if narrow else ("openai-responses", "openai-chat")
    if not any(exists(*find(id, asked)) for asked in tried):
        return None
    return {"anthropic-messages": _anthropic, "gemini": _gemini}.get(dialect, _openai)(id)


def _openai(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": _MADE, "owned_by": id.partition("/")[0]}


def _anthropic(id: str) -> dict[str, Any]:
    return {"type": "model", "id": id, "display_name": id.rpartition("/")[2], "created_at": "2026-01-01T00:00:00Z"}


def _gemini(id: str) -> dict[str, Any]:
    style, _ = find(id, "gemini")
    return {
        "name": f"models/{id}",
        "version": "001",
        "displayName": id.rpartition("/")[2],
        "description": "A simulated model",
        "inputTokenLimit": style.window,
        "outputTokenLimit": _OUTPUT,
        "supportedGenerationMethods": ["generateContent", "countTokens", "embedContent", "batchEmbedContents"],
    }
