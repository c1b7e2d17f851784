"""Whose vectors: the model that is named, that of the collection, or that of a provider for which there is a key."""

from __future__ import annotations

from typing import NamedTuple

import click

from tenuto.cli.embed_keeping import Kept
from tenuto.client.client import AsyncClient
from tenuto.errors import LLMError

__all__ = ["DEFAULTS", "SIMULATED", "Asked", "asked", "client"]

DEFAULTS = (
    "openai/text-embedding-3-small",
    "google/gemini-embedding-2",
    "mistral/mistral-embed",
    "cohere/embed-v4.0",
    "perplexity/pplx-embed-v1-0.6b",
)
"""Who embeds if nobody is named: the first for whose provider there is a key."""
SIMULATED = "sim/openai"
_NAMED = 3
"""How many variables are named to somebody who has none."""


class Asked(NamedTuple):
    """Whom to ask, for how many dimensions (0: as many as the model has), and what is to be said of the choice."""

    model: str
    dimensions: int = 0
    note: str = ""


def client() -> AsyncClient:
    """Make a client, with the keys that are kept and the servers that are configured."""
    from tenuto.cli.configuring import own_providers
    from tenuto.cli.keyring import kept_keys

    return AsyncClient(keys=kept_keys(), providers=own_providers())


def asked(ai: AsyncClient, kept: Kept | None, model: str | None, dimensions: int | None, where: str) -> Asked:
    """Return whom to ask. What is kept already decides: a collection has one model, and one number of dimensions.

    Raise `click.UsageError` for a model that cannot be meant, and for one that the collection was not made with.
    """
    named = _full_name(ai, model) if model else ""
    if kept is None:
        return Asked(named, dimensions or 0) if named else _default()._replace(dimensions=dimensions or 0)
    if (named and named != kept.model) or (dimensions and dimensions != kept.dimensions):
        asked_for = f"{named or kept.model}{f', {dimensions} dimensions' if dimensions else ''}"
        raise click.UsageError(
            f"{where} was made with {kept.model}, {kept.dimensions} dimensions, and cannot be mixed with {asked_for}: "
            "leave -m and --dimensions out, or choose another --collection or --into"
        )
    return Asked(kept.model, kept.asked or (dimensions or 0))


def _full_name(ai: AsyncClient, model: str) -> str:
    try:
        target = ai.target(model)
    except LLMError as exc:
        raise click.UsageError(f"{exc}, such as {DEFAULTS[0]} or {SIMULATED}") from None
    return f"{target.provider.name}/{target.model}"


def _default() -> Asked:
    from tenuto.cli.keyring import key_source, variables_of

    providers = {model.partition("/")[0]: model for model in DEFAULTS}
    for name, model in providers.items():
        if key_source(name):
            return Asked(model)
    *first, last = [variables_of(name)[0] for name in [*providers][:_NAMED]]
    return Asked(
        SIMULATED,
        note=f"no key is set, so the simulator embeds, which is good for trying things out; set {', '.join(first)} or "
        f"{last}, or name a model with -m",
    )
