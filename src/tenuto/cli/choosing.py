"""Which model is asked if nobody names one: that of a provider for which there is a key, else the simulator's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from tenuto.cli.config_keys import EFFORTS

if TYPE_CHECKING:
    from tenuto.core.provider import Target

__all__ = ["SIMULATED", "Chosen", "chosen", "finding", "going_on", "split_effort", "target_of"]

SIMULATED = "sim/anthropic"
"""Who answers where there is no key."""
_NAMED = 3
"""How many variables are named to somebody who has none."""


class Chosen(NamedTuple):
    """A model, and what is to be said of why it is that one; empty if that needs no words."""

    model: str
    note: str = ""


def chosen(given_model: str | None) -> Chosen:
    """Return the model that is meant: the one that is named, with `:effort` if it has one; else the default of the first
    provider, as `tenuto providers` lists them, that has one and for which there is a key; else the simulator's.

    Raise `click.UsageError` for a file of keys, or a configuration, that cannot be used.
    """
    if given_model:
        return Chosen(given_model)
    from tenuto.catalog import PROVIDERS
    from tenuto.cli.keyring import key_source

    rows = [row for name, row in PROVIDERS.items() if name == row.name and row.default_model]
    for row in rows:
        if key_source(row.name):
            return Chosen(f"{row.name}/{row.default_model}")
    *first, last = [row.key_env[0] for row in rows[:_NAMED]]
    return Chosen(
        SIMULATED,
        f"no key is set, so the simulator answers; set {', '.join(first)} or {last}, or name a model with -m",
    )


def split_effort(model: str) -> tuple[str, str | None]:
    """Split `provider/model:effort` where it ends in an effort that there is: `ollama/llama3:8b` stays whole."""
    name, colon, effort = model.rpartition(":")
    return (name, effort) if colon and effort in EFFORTS and name else (model, None)


def finding() -> Callable[[str], Target]:
    """Return what finds whom a model is asked of, servers of one's own included; nobody is asked, so no key is needed."""
    from tenuto.cli.configuring import own_providers
    from tenuto.client.routing import Router

    return Router({}, own_providers(), None).target


def target_of(model: str, find: Callable[[str], Target]) -> Target:
    """Return the target of a model name.

    Raise `UnknownProvider`, and for a model name without a clear provider a usage error that lists candidates.
    """
    from tenuto.errors import UnknownProvider

    try:
        return find(model)
    except UnknownProvider as exc:
        if not exc.bare:
            raise
        from tenuto.cli.catalogue import near_models

        near = [] if exc.suggestions else near_models(model) or [SIMULATED]
        raise click.UsageError(f"{exc}, such as {' or '.join(near)}" if near else str(exc)) from None


def going_on(model: str, find: Callable[[str], Target]) -> str:
    """Return the model, with its provider, that an existing session switches to.

    Raise what `target_of` raises, and a usage error for an effort.
    """
    from tenuto.catalog import qualify_model

    _, effort = split_effort(model)
    if effort is not None:
        raise click.UsageError(
            f"{model}: a session that goes on keeps the effort it was begun with; leave :{effort} out"
        )
    target_of(model, find)
    return qualify_model(model)
