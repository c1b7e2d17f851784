"""Whom to ask for vectors: the model that is named, that of what is there, or that of a provider for which there is a key."""

from __future__ import annotations

import sys
from typing import NamedTuple

import click

from tenuto.cli.embedding.keeping import Kept
from tenuto.cli.exits import Told, explained
from tenuto.cli.screen import complain
from tenuto.client.client import AsyncClient
from tenuto.core.embedding import EmbedResponse
from tenuto.errors import LLMError, MissingKey, TenutoError, UnknownProvider, UnsupportedModel

__all__ = ["SIMULATED", "Asked", "asked", "check", "client", "complained", "defaults", "said", "told_of", "vector_of"]

SIMULATED = "sim/openai"
_NAMED = 3
"""How many variables are named to somebody who has none."""
_SESSION = "go on with the session"


class Asked(NamedTuple):
    """Whom to ask, for how many dimensions (0: as many as the model has), and what is to be said of the choice."""

    model: str
    dimensions: int = 0
    note: str = ""


def client() -> AsyncClient:
    """Make a client, with the keys that are kept and the servers that are configured."""
    from tenuto.cli.configuring import own_providers
    from tenuto.cli.keyring import kept_keys

    return AsyncClient(keys=kept_keys(), providers=own_providers(), on_loss="keep")


def asked(ai: AsyncClient, kept: Kept | None, model: str | None, dimensions: int | None, where: str) -> Asked:
    """Return whom to ask. What is kept already decides: a place has one model, and one number of dimensions.

    Raise `click.UsageError` for a model that cannot be meant, and for one that what is there was not made with.
    """
    named = _full_name(ai, model) if model else ""
    if kept is None:
        return Asked(named, dimensions or 0) if named else _default()._replace(dimensions=dimensions or 0)
    if (named and named != kept.model) or (dimensions and dimensions != kept.dimensions):
        asked_for = f"{named or kept.model}{f', {dimensions} dimensions' if dimensions else ''}"
        raise click.UsageError(
            f"{where} was made with {kept.model}, {kept.dimensions} dimensions, and cannot be mixed with {asked_for}: "
            "leave -m and --dimensions out, or choose another --into"
        )
    return Asked(kept.model, kept.asked or (dimensions or 0))


def _full_name(ai: AsyncClient, model: str) -> str:
    try:
        target = ai._target(model)
    except UnknownProvider as exc:
        if not exc.bare:
            raise
        raise click.UsageError(
            f"no provider in {model!r}: use provider/model, such as {next(iter(defaults().values()))} or {SIMULATED}"
        ) from None
    return f"{target.provider.name}/{target.model}"


def defaults() -> dict[str, str]:
    """Return who embeds if nobody is named, by provider: the first for whom there is a key, in the order of the table."""
    from tenuto.catalog import PROVIDERS

    rows = {row.name: row for row in PROVIDERS.values()}
    return {
        name: f"{name}/{row.embeddings.default_model}" for name, row in rows.items() if row.embeddings.default_model
    }


def _default() -> Asked:
    from tenuto.cli.keyring import key_source, variables_of

    providers = defaults()
    for name, model in providers.items():
        if key_source(name):
            return Asked(model)
    *first, last = [variables_of(name)[0] for name in [*providers][:_NAMED]]
    return Asked(
        SIMULATED,
        note=f"no key is set, so the simulator embeds, which is good for trying things out; set {', '.join(first)} or "
        f"{last}, or name a model with -m",
    )


# --- asking ----------------------------------------------------------------------------------------------------------


async def vector_of(ai: AsyncClient, who: Asked, text: str) -> EmbedResponse:
    """Ask for one vector."""
    await check(ai, who)
    return await ai.embed(who.model, [text], dimensions=who.dimensions or None)


async def check(ai: AsyncClient, who: Asked) -> None:
    """Make sure that the model can be asked for vectors at all; nothing is sent."""
    try:
        await ai.embed(who.model, ())
    except UnsupportedModel as exc:
        raise click.UsageError(f"{exc.model} cannot embed: {exc.reason}") from None


def said(text: str, option: str) -> str:
    """Return a text that was typed for an option, or stdin for -. Raise `click.UsageError` if it is none, or empty."""
    if text == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise click.UsageError("stdin is closed: there is nothing to read")
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise click.UsageError(f"what is piped in is no UTF-8 text (byte {exc.start + 1}): convert it") from None
    if not text.strip():
        raise click.UsageError(f"{option} is empty: there is nothing to embed")
    return text


def told_of(error: TenutoError, going_on: str) -> Told:
    """Say what an error means here: the words of the common table are about sessions, which can be gone on with."""
    told = explained(error)
    if isinstance(error, MissingKey):
        return told._replace(next=told.next.replace("sim/anthropic", SIMULATED))
    if isinstance(error, LLMError):
        return told._replace(next=told.next.replace(_SESSION, going_on) or going_on)
    return told


def complained(error: TenutoError) -> int:
    """Say what went wrong; return the exit code."""
    told = told_of(error, "try again")
    complain(told, error)
    return int(told.code)
