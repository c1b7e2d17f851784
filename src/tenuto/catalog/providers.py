"""Every provider as a row, and the way from `provider/model` to a `Target`.

A row says where a provider is, how it is paid, which dialect it speaks and in what it differs from that dialect's
common form (`tenuto.catalog.provider_rows`); nothing else in the package knows a provider by name.
`python -m tenuto.catalog` prints the table as the page `docs/providers.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from tenuto.catalog import models
from tenuto.catalog.provider_rows import ROWS
from tenuto.core.target import Dialect, Provider, Target
from tenuto.errors import UnknownProvider, UnsupportedModel

__all__ = [
    "PROVIDERS",
    "base_url",
    "build_target",
    "find_provider",
    "fingerprint",
    "is_known_provider",
    "provider_for_dialect",
    "provider_or_default",
    "qualify_model",
    "resolve",
]

_FORCED: dict[str, Dialect] = {"openai-chat": "openai-chat", "openai-responses": "openai-responses"}
"""Names that are one row with its dialect nailed down. Replies and errors report the row."""
_HOME: dict[Dialect, str] = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai",
    "gemini": "google",
}
"""Whose dialect it is."""

_NAMED = 3
"""How many candidates an error lists."""

NO_PROVIDERS: Mapping[str, Provider] = MappingProxyType({})

PROVIDERS: dict[str, Provider] = {row.name: row for row in ROWS}
PROVIDERS |= {name: replace(PROVIDERS[_HOME[dialect]], dialect=dialect) for name, dialect in _FORCED.items()}
_ALIASES = {alias: row.name for row in ROWS for alias in row.aliases}


def is_known_provider(name: str) -> bool:
    """Tell whether a row has this name, or this alias."""
    return name in PROVIDERS or name in _ALIASES


def find_provider(name: str, own: Mapping[str, Provider] = NO_PROVIDERS) -> Provider:
    """Return a row by its name or an alias; raise `UnknownProvider`, with names that look like it, if there is none.

    `own` are rows that stand before those of the table.
    """
    row = own.get(name) or own.get(_ALIASES.get(name, name)) or PROVIDERS.get(_ALIASES.get(name, name))
    if row is None:
        import difflib

        names = [*own, *PROVIDERS, *_ALIASES]
        raise UnknownProvider(name, tuple(difflib.get_close_matches(name.lower(), names, n=3)))
    return row


def provider_or_default(name: str | None, dialect: Dialect) -> Provider:
    """Return a row by its name; a name that is no row gets the dialect's common form, and keeps its name.

    None is the row whose dialect it is.
    """
    if name is None:
        name = _HOME[dialect]
    if is_known_provider(name):
        return find_provider(name)
    home = PROVIDERS[_HOME[dialect]]
    return Provider(name, dialect, "", auth=home.auth, headers=home.headers, hosts_others=True)


def resolve(
    model: str,
    *,
    default_provider: str | None = None,
    dialect: Dialect | None = None,
    own: Mapping[str, Provider] = NO_PROVIDERS,
) -> Target:
    """Return the target of `provider/model`, split at the first slash, or of a bare model name (see `qualify_model`).

    `own` are rows that take precedence over those of the table.

    Raise `UnknownProvider` for a name without a row, and for a bare model name without one clear provider; its `near`
    lists the candidates.
    """
    name, _, rest = qualify_model(model, default_provider, own).partition("/")
    if not name or not rest:
        raise UnknownProvider(model, _candidates(model.strip("/")), bare=True)
    row = find_provider(name, own)
    if name in _FORCED and name not in own and row.name in own:
        row = own[row.name]  # a row of one's own, with its dialect nailed down
    return build_target(row, rest, dialect or _FORCED.get(name))


def qualify_model(model: str, default_provider: str | None = None, own: Mapping[str, Provider] = NO_PROVIDERS) -> str:
    """Return a model name with its provider in front.

    A bare name gets `default_provider`, else the row of `own` whose default model it is, else the one vendor that owns
    it. A name without one clear provider is returned unchanged.
    """
    if "/" in model:
        return model
    named = {default_provider} if default_provider else {row.name for row in own.values() if row.default_model == model}
    found = tuple(named or models.model_owners(model))
    return f"{found[0]}/{model}" if len(found) == 1 else model


def _candidates(model: str) -> tuple[str, ...]:
    """Return `provider/model` names that a bare name could stand for: vendors first, then hosts."""
    if is_known_provider(model):
        row = find_provider(model)
        return (f"{row.name}/{row.default_model}",) if row.default_model else ()
    names = (*models.model_owners(model), *models.model_hosts(model))
    return tuple(f"{name}/{model}" for name in names if not PROVIDERS[name].plays)[:_NAMED]


def build_target(row: Provider, model: str, dialect: Dialect | None = None) -> Target:
    """Put a row and a model together. Without a dialect, the model's own word counts, then the row's.

    Raise `UnsupportedModel` for a model of a simulator that begins with nobody whom it plays.
    """
    if row.plays:
        return _played(row, model, dialect)
    traits = models.model_traits(row.name, model)
    chosen = dialect or traits.dialect or row.dialect
    return Target(row, model, chosen, models.traits_for_dialect(traits, chosen))


def _played(row: Provider, named: str, dialect: Dialect | None) -> Target:
    """Give a simulator the part that a model's name asks for: who it is, and which model of theirs, if any."""
    style, _, model = named.partition("/")
    part = style if style in row.plays else next((name for name in row.plays if _same_row(name, style)), "")
    if not part:
        raise UnsupportedModel(f"{row.name}/{named}", f"it plays {', '.join(row.plays)}")
    real = find_provider(part) if is_known_provider(part) else provider_or_default(part, row.dialect)
    traits = (
        models.model_traits(real.name, model) if model else replace(models.model_traits(row.name, part), pattern="")
    )
    chosen = dialect or _FORCED.get(style) or traits.dialect or real.dialect
    played = replace(
        row,
        dialect=real.dialect,
        headers={**real.headers, **row.headers},
        anthropic=real.anthropic,
        chat=real.chat,
        responses=real.responses,
        gemini=real.gemini,
        embeddings=real.embeddings,
        hosts_others=real.hosts_others,
        plays=(part,),
    )
    return Target(played, f"{part}/{model}" if model else part, chosen, models.traits_for_dialect(traits, chosen))


def _same_row(name: str, other: str) -> bool:
    return (
        is_known_provider(name) and is_known_provider(other) and find_provider(name).name == find_provider(other).name
    )


def provider_for_dialect(row: str, dialect: Dialect) -> str:
    """Return the provider name that selects a row in this dialect; empty if there is none."""
    names = (name for name, spoken in _FORCED.items() if spoken == dialect and PROVIDERS[name].name == row)
    return next(names, "")


def base_url(target: Target) -> str:
    """Return the address below which the target's paths are; words in braces are the user's to fill in."""
    return target.provider.base_urls.get(target.dialect, target.provider.base_url)


def fingerprint(row: Provider | str, base_url: str, key: str) -> str:
    """Return 16 hex digits that tell one account from another, and give neither the key nor the address away.

    A simulator is whoever it plays, wherever it runs: its tokens are good at another address, too.
    """
    name = row if isinstance(row, str) else row.name
    if isinstance(row, Provider) and row.plays:
        base_url = ",".join(row.plays)
    return hashlib.sha256("\0".join((name, base_url.rstrip("/"), key)).encode()).hexdigest()[:16]
