"""Every provider as a row, and the way from `provider/model` to a `Target`.

A row says where a provider is, how it is paid, which dialect it speaks and in what it differs from that dialect's
common form (`tenuto._provider_rows`); nothing else in the package knows a provider by name.
`python -m tenuto.providers` prints the table as the page `docs/providers.md`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from tenuto import models
from tenuto._provider_rows import ROWS
from tenuto.core.provider import Dialect, EmbeddingSwitches, Provider, Target
from tenuto.errors import UnknownProvider, UnsupportedModel

__all__ = [
    "PROVIDERS",
    "base_url",
    "fingerprint",
    "forced",
    "is_row",
    "page",
    "provider",
    "qualified",
    "resolve",
    "row_or_default",
    "target",
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

NOBODY: Mapping[str, Provider] = MappingProxyType({})

PROVIDERS: dict[str, Provider] = {row.name: row for row in ROWS}
PROVIDERS |= {name: replace(PROVIDERS[_HOME[dialect]], dialect=dialect) for name, dialect in _FORCED.items()}
_ALIASES = {alias: row.name for row in ROWS for alias in row.aliases}


def is_row(name: str) -> bool:
    """Tell whether a row has this name, or this alias."""
    return name in PROVIDERS or name in _ALIASES


def provider(name: str, own: Mapping[str, Provider] = NOBODY) -> Provider:
    """Return a row by its name or an alias; raise `UnknownProvider`, with names that look like it, if there is none.

    `own` are rows that stand before those of the table.
    """
    row = own.get(name) or own.get(_ALIASES.get(name, name)) or PROVIDERS.get(_ALIASES.get(name, name))
    if row is None:
        import difflib

        names = [*own, *PROVIDERS, *_ALIASES]
        raise UnknownProvider(name, tuple(difflib.get_close_matches(name.lower(), names, n=3)))
    return row


def row_or_default(name: str | None, dialect: Dialect) -> Provider:
    """Return a row by its name; a name that is no row gets the dialect's common form, and keeps its name.

    None is the row whose dialect it is.
    """
    if name is None:
        name = _HOME[dialect]
    if is_row(name):
        return provider(name)
    home = PROVIDERS[_HOME[dialect]]
    return Provider(name, dialect, "", auth=home.auth, headers=home.headers, hosts_others=True)


def resolve(
    model: str,
    *,
    default_provider: str | None = None,
    dialect: Dialect | None = None,
    own: Mapping[str, Provider] = NOBODY,
) -> Target:
    """Return the target of `provider/model`, split at the first slash, or of a bare model name (see `qualified`).

    `own` are rows that take precedence over those of the table.

    Raise `UnknownProvider` for a name without a row, and for a bare model name without one clear provider; its
    `suggestions` list the candidates.
    """
    name, _, rest = qualified(model, default_provider, own).partition("/")
    if not name or not rest:
        raise UnknownProvider(model, _candidates(model.strip("/")), bare=True)
    row = provider(name, own)
    if name in _FORCED and name not in own and row.name in own:
        row = own[row.name]  # a row of one's own, with its dialect nailed down
    return target(row, rest, dialect or _FORCED.get(name))


def qualified(model: str, default_provider: str | None = None, own: Mapping[str, Provider] = NOBODY) -> str:
    """Return a model name with its provider in front.

    A bare name gets `default_provider`, else the row of `own` whose default model it is, else the one vendor that owns
    it. A name without one clear provider is returned unchanged.
    """
    if "/" in model:
        return model
    named = {default_provider} if default_provider else {row.name for row in own.values() if row.default_model == model}
    found = tuple(named or models.owners(model))
    return f"{found[0]}/{model}" if len(found) == 1 else model


def _candidates(model: str) -> tuple[str, ...]:
    """Return `provider/model` names that a bare name could stand for: vendors first, then hosts."""
    if is_row(model):
        row = provider(model)
        return (f"{row.name}/{row.default_model}",) if row.default_model else ()
    names = (*models.owners(model), *models.hosts(model))
    return tuple(f"{name}/{model}" for name in names if not PROVIDERS[name].plays)[:_NAMED]


def target(row: Provider, model: str, dialect: Dialect | None = None) -> Target:
    """Put a row and a model together. Without a dialect, the model's own word counts, then the row's.

    Raise `UnsupportedModel` for a model of a simulator that begins with nobody whom it plays.
    """
    if row.plays:
        return _played(row, model, dialect)
    traits = models.traits(row.name, model)
    chosen = dialect or traits.dialect or row.dialect
    return Target(row, model, chosen, models.fitted(traits, chosen))


def _played(row: Provider, named: str, dialect: Dialect | None) -> Target:
    """Give a simulator the part that a model's name asks for: who it is, and which model of theirs, if any."""
    style, _, model = named.partition("/")
    part = style if style in row.plays else next((name for name in row.plays if _same_row(name, style)), "")
    if not part:
        raise UnsupportedModel(f"{row.name}/{named}", f"it plays {', '.join(row.plays)}")
    real = provider(part) if is_row(part) else row_or_default(part, row.dialect)
    traits = models.traits(real.name, model) if model else replace(models.traits(row.name, part), pattern="")
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
    return Target(played, f"{part}/{model}" if model else part, chosen, models.fitted(traits, chosen))


def _same_row(name: str, other: str) -> bool:
    return is_row(name) and is_row(other) and provider(name).name == provider(other).name


def forced(row: str, dialect: Dialect) -> str:
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


# --- the page ---------------------------------------------------------------------------------------------------------

_INTRODUCTION = """\
# Providers

Made from the table by `python -m tenuto.providers`; a test holds that it is current. Change the rows, not this page.

`provider/model` names a row and a model; the split is at the first slash. A bare model name goes to the `default_provider`,
else to the one vendor that owns it: `claude-sonnet-5-5` is `anthropic/claude-sonnet-5-5`. Where a row serves other vendors' models, the
vendor's table says what a model takes. Any other name works too, with an address of its own: it gets the common form of
its dialect. `openai-chat/` and `openai-responses/` are the row `openai` with its dialect nailed down. Where there is a key
and no model is named, the command asks the default model of the first row, in this order, that has one.
"""


def page() -> str:
    """Return the table as a page in Markdown."""
    lines = [_INTRODUCTION, "| name | dialect | address | key |", "|---|---|---|---|"]
    for row in ROWS:
        keys = ", ".join(f"`{name}`" for name in (*row.key_env, *row.bearer_env)) or "none"
        name = f"[{row.name}](#{row.name})" + (f" (ended {row.retired})" if row.retired else "")
        lines.append(f"| {name} | {row.dialect} | `{row.base_url}` | {keys} |")
    for row in ROWS:
        lines += ["", f"## {row.name}", "", *(f"* {fact}" for fact in _facts(row))]
    return "\n".join(lines) + "\n"


def _facts(row: Provider) -> Iterator[str]:
    if row.aliases:
        yield f"also called {', '.join(f'`{name}`' for name in row.aliases)}"
    yield f"authentication: {row.auth}" + _elsewhere(row)
    for dialect, address in row.base_urls.items():
        yield f"{dialect}: `{address}`"
    for name, value in row.headers.items():
        yield f"header `{name}: {value}`"
    for part in (row.anthropic, row.chat, row.responses, row.gemini):
        common = type(part)()
        for switch in part.__struct_fields__:
            value = getattr(part, switch)
            if value != getattr(common, switch):
                yield f"{switch}: {_shown(value)}"
    yield from _embeddings(row)
    yield from _models(row)
    if row.notes:
        yield row.notes
    yield f"sources: {row.source}, {row.as_of}"


def _models(row: Provider) -> Iterator[str]:
    """Say which model is asked unless one is named, which there are, and where they are listed."""
    if row.default_model:
        yield f"default model: `{row.default_model}`"
    if row.models_path != "/models":
        yield f"models: listed at `{row.models_path}`" if row.models_path else "models: no list"
    if row.hosts_others:
        yield "serves models of other vendors"
    if row.plays:
        yield f"plays {_shown(row.plays)}"


def _elsewhere(row: Provider) -> str:
    """Say which variables move the address."""
    names = " or ".join(f"`{name}`" for name in row.base_url_env)
    moved = f"; address from {names}" if names else ""
    if row.base_url_path:
        moved += f" (`{row.base_url_path}` is added where it is missing)"
    for word, held in row.fill.items():
        moved += f"; `{{{word}}}` from {' or '.join(f'`{name}`' for name in held)}"
    return moved


def _embeddings(row: Provider) -> Iterator[str]:
    """Say how texts are embedded, where it is not in the common way."""
    common = EmbeddingSwitches()
    if not row.embeddings.path:
        yield "embeddings: none"
        return
    told = [(switch, getattr(row.embeddings, switch)) for switch in common.__struct_fields__]
    shown = [f"{switch} {_shown(value)}" for switch, value in told if value != getattr(common, switch)]
    if shown:
        yield f"embeddings: {'; '.join(shown)}"


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"`{name}` {_shown(setting)}" for name, setting in value.items())
        case (int() | float() as low, int() | float() as high):
            return f"{low} to {high}"
        case tuple():
            return ", ".join(f"`{name}`" for name in value)
        case _:
            return f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(page())
