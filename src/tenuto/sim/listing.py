"""The models that can be asked for: every style, and for some of them a few real models, in three forms of a list."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tenuto.core.provider import Dialect
from tenuto.sim.styles import STYLES, exists, find

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


def list_ids(dialects: Collection[Dialect]) -> list[str]:
    """Return the ids of all styles of these dialects and of their models."""
    styles = dict.fromkeys(style.name for style in STYLES if style.dialect in dialects)
    return [id for style in styles for id in (style, *(f"{style}/{model}" for model in MODELS.get(style, ())))]


def has_model(id: str, dialects: Collection[Dialect]) -> bool:
    """Whether one of these dialects has a style with such a model."""
    return any(exists(*find(id, dialect)) for dialect in dialects)


def openai_entry(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": _MADE, "owned_by": id.partition("/")[0]}


def openai_list(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": entries}


def anthropic_entry(id: str) -> dict[str, Any]:
    return {"type": "model", "id": id, "display_name": id.rpartition("/")[2], "created_at": "2026-01-01T00:00:00Z"}


def anthropic_list(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"data": entries, "has_more": False, "first_id": entries[0]["id"], "last_id": entries[-1]["id"]}


def gemini_entry(id: str) -> dict[str, Any]:
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


def gemini_list(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"models": entries}
