"""The list of models: every provider, and the models of the catalog that it serves, in three forms."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tenuto.catalog.models import model_rows
from tenuto.core.provider import Dialect
from tenuto.sim.providers import SimulatedProvider, all_providers, exists, find, imitated_row, target

_CREATED = 1_767_225_600  # 2026-01-01
_MAX_OUTPUT = 65_536
_WINDOW = 1_000_000


def list_ids(dialects: Collection[Dialect], only: SimulatedProvider | None = None) -> list[str]:
    """Return the ids of all providers of these dialects and of their models; or the own ids of one provider's models."""
    if only is not None:
        return [id for row in model_rows(imitated_row(only).name) for id in row.ids]
    ids: dict[str, None] = {}
    for provider in all_providers():
        if provider.dialect in dialects:
            models = [id for row in model_rows(imitated_row(provider).name) for id in row.ids]
            ids |= dict.fromkeys((provider.name, *(f"{provider.name}/{model}" for model in models)))
    return list(ids)


def has_model(id: str, dialects: Collection[Dialect]) -> bool:
    """Tell whether a provider of one of these dialects may have the model."""
    return any(exists(*find(id, dialect)) for dialect in dialects)


def openai_entry(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": _CREATED, "owned_by": id.partition("/")[0]}


def openai_list(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": entries}


def anthropic_entry(id: str) -> dict[str, Any]:
    return {"type": "model", "id": id, "display_name": id.rpartition("/")[2], "created_at": "2026-01-01T00:00:00Z"}


def anthropic_list(entries: list[dict[str, Any]]) -> dict[str, Any]:
    first, last = (entries[0]["id"], entries[-1]["id"]) if entries else (None, None)
    return {"data": entries, "has_more": False, "first_id": first, "last_id": last}


def gemini_entry(id: str) -> dict[str, Any]:
    provider, model = find(id, "gemini")
    return {
        "name": f"models/{id}",
        "version": "001",
        "displayName": id.rpartition("/")[2],
        "description": "A simulated model",
        "inputTokenLimit": target(provider, model).traits.context_window or _WINDOW,
        "outputTokenLimit": _MAX_OUTPUT,
        "supportedGenerationMethods": ["generateContent", "countTokens", "embedContent", "batchEmbedContents"],
    }


def gemini_list(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"models": entries}
