"""The providers that can be imitated: the rows of the catalog, in each dialect that they have; and lists of their models."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, get_args

import msgspec

from tenuto.catalog import PROVIDERS, build_target, find_provider, is_known_provider, resolve
from tenuto.catalog.models import model_hosts, model_owners, model_rows
from tenuto.catalog.providers import provider_or_default
from tenuto.core.provider import Dialect, Provider, Target

_OPENAI_DIALECTS: tuple[Dialect, ...] = ("openai-chat", "openai-responses")
_DEFAULTS: dict[Dialect, str] = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "chat",
    "gemini": "gemini",
}
"""The provider of a model that no provider claims. `chat` is a plain server of the chat dialect."""
_ERROR_FORMS = (
    "anthropic", "azure", "deepseek", "moonshot", "mistral", "groq", "xai", "zai", "alibaba", "minimax", "openrouter",
    "perplexity", "cohere", "fireworks", "ollama", "google",
)  # fmt: skip
"""Providers with error forms of their own; the others have that of OpenAI."""
_VERTEX_FORMS: dict[Dialect, tuple[str, bool]] = {
    "anthropic-messages": ("anthropic", False),
    "openai-chat": ("google", True),
    "gemini": ("google", False),
}
"""The error forms of Vertex AI, and whether its error is in a list."""


class SimulatedProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider in one of its dialects."""

    name: str
    """Its name in model names, such as `deepseek/deepseek-v4-pro`."""
    dialect: Dialect
    error_form: str = "openai"
    """The form of its errors (`tenuto.sim.errors`)."""
    error_list: bool = False
    """Whether the body of an error is a list with one object."""


def find(requested_model: str, dialect: Dialect, named: str = "") -> tuple[SimulatedProvider, str]:
    """Return the provider and the model that a model name means at an endpoint of a dialect.

    `named` is the provider that the request names; one without a row is a plain server of the dialect. If none is named,
    the model name decides.

    `deepseek` and `deepseek/deepseek-v4-pro` name a provider; the model is empty if none is named. Any other name is a
    model: of its vendor if the vendor has this dialect, else of the default provider of the dialect. A name such as
    `openai/gpt-oss-120b` that starts with a provider is the model of a host if the catalog lists it there.
    """
    requested_model = requested_model.removeprefix("models/")
    default = _simulated(_DEFAULTS[dialect], dialect)
    assert default is not None
    if named:
        return _simulated(named, dialect) or msgspec.structs.replace(default, name=named), requested_model
    first, _, rest = requested_model.partition("/")
    provider = _simulated(first, dialect)
    if provider is not None and exists(provider, rest):
        return provider, rest
    owners = model_hosts(requested_model) if provider is not None else _owners(requested_model)
    vendor = next((vendor for name in owners if (vendor := _simulated(name, dialect))), None)
    if vendor is not None:
        return vendor, requested_model
    if provider is not None:
        return provider, rest
    return default, requested_model


def _simulated(name: str, dialect: Dialect) -> SimulatedProvider | None:
    """Return a provider in a dialect; None if there is no such provider, or it does not have the dialect."""
    if not is_known_provider(name):
        return SimulatedProvider(name=name, dialect=dialect) if name == _DEFAULTS[dialect] else None
    row = find_provider(name)
    dialects = {row.dialect, *row.base_urls, *(_OPENAI_DIALECTS if row.dialect in _OPENAI_DIALECTS else ())}
    if dialect not in dialects or row.retired or row.plays:
        return None
    form, is_list = row.name if row.name in _ERROR_FORMS else "openai", False
    if row.gemini.vertex:
        form, is_list = _VERTEX_FORMS[dialect]
    name = "gemini" if row.name == "google" else row.name
    return SimulatedProvider(name=name, dialect=dialect, error_form=form, error_list=is_list)


def _owners(model: str) -> list[str]:
    """Return the providers that may have a model of this name: its vendors, then those whose pattern it fits.

    A host of other vendors' models claims only names with a vendor, such as `openai/gpt-oss-120b`.
    """
    rows = [row for row in PROVIDERS.values() if row.model_names and ("/" in model or not row.hosts_others)]
    owners = () if "/" in model else model_owners(model)
    return [*owners, *(row.name for row in rows if re.fullmatch(row.model_names, model))]


def exists(provider: SimulatedProvider, model: str) -> bool:
    """Tell whether a provider may have a model; empty: no particular model."""
    names = imitated_row(provider).model_names
    return not model or not names or re.fullmatch(names, model) is not None


@cache
def target(provider: SimulatedProvider, model: str) -> Target:
    if provider.name not in find_provider("sim").plays:
        return build_target(imitated_row(provider), model, provider.dialect)
    name = f"sim/{provider.name}/{model}" if model else f"sim/{provider.name}"
    return resolve(name, dialect=provider.dialect)


def imitated_row(provider: SimulatedProvider) -> Provider:
    return provider_or_default(provider.name, provider.dialect)


def all_providers() -> list[SimulatedProvider]:
    pairs = [(name, dialect) for dialect in _DEFAULTS for name in dict.fromkeys((*_DEFAULTS.values(), *PROVIDERS))]
    found = (provider for name, dialect in pairs if (provider := _simulated(name, dialect)) is not None)
    return list(dict.fromkeys(found))


# --- lists of models ---------------------------------------------------------------------------------------------------


def _listed_dialects(dialect: Dialect) -> tuple[Dialect, ...]:
    """Return the dialects whose models a list shows; clients of OpenAI read that of a gateway."""
    return (dialect,) if dialect in ("anthropic-messages", "gemini") else get_args(Dialect)


def list_ids(dialect: Dialect, only: SimulatedProvider | None = None) -> list[str]:
    """Return the ids of the providers that are listed and of their models; or the own ids of one provider's models."""
    if only is not None:
        return [id for row in model_rows(imitated_row(only).name) for id in row.ids]
    ids: dict[str, None] = {}
    for provider in all_providers():
        if provider.dialect in _listed_dialects(dialect):
            models = [id for row in model_rows(imitated_row(provider).name) for id in row.ids]
            ids |= dict.fromkeys((provider.name, *(f"{provider.name}/{model}" for model in models)))
    return list(ids)


def has_model(id: str, dialect: Dialect) -> bool:
    return any(exists(*find(id, listed)) for listed in _listed_dialects(dialect))


def model_entry(dialect: Dialect, id: str) -> dict[str, Any]:
    name = id.rpartition("/")[2]
    if dialect == "anthropic-messages":
        return {"type": "model", "id": id, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
    if dialect == "gemini":
        methods = ["generateContent", "countTokens", "embedContent", "batchEmbedContents"]
        window = target(*find(id, "gemini")).traits.context_window or 1_000_000
        return {
            "name": f"models/{id}", "version": "001", "displayName": name, "description": "A simulated model",
            "inputTokenLimit": window, "outputTokenLimit": 65_536, "supportedGenerationMethods": methods,
        }  # fmt: skip
    return {"id": id, "object": "model", "created": 1_767_225_600, "owned_by": id.partition("/")[0]}


def model_list(dialect: Dialect, ids: list[str]) -> dict[str, Any]:
    entries = [model_entry(dialect, id) for id in ids]
    if dialect == "anthropic-messages":
        first, last = (ids[0], ids[-1]) if ids else (None, None)
        return {"data": entries, "has_more": False, "first_id": first, "last_id": last}
    return {"models": entries} if dialect == "gemini" else {"object": "list", "data": entries}
