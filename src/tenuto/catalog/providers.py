"""Look up a provider, and resolve `provider/model` to a `Target`."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from tenuto.catalog.models import model_hosts, model_owners, model_traits, traits_for_dialect
from tenuto.catalog.provider_rows import ROWS
from tenuto.core.provider import Dialect, Provider, Target
from tenuto.errors import UnknownProvider, UnsupportedModel

_FIXED_DIALECT: dict[str, Dialect] = {"openai-chat": "openai-chat", "openai-responses": "openai-responses"}
"""Further names of a row that select one of its dialects."""
_HOME: dict[Dialect, str] = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai",
    "gemini": "google",
}
"""The provider that defines each dialect."""
_IMITATED = ("dialect", "anthropic", "chat", "responses", "gemini", "embeddings", "hosts_others")
"""The fields that a simulator takes from the provider that it imitates."""
_MAX_SUGGESTIONS = 3

NO_PROVIDERS: Mapping[str, Provider] = MappingProxyType({})
PROVIDERS: dict[str, Provider] = {row.name: row for row in ROWS}
"""The rows by name. Under `openai-chat` and `openai-responses` the row `openai` has that dialect."""
PROVIDERS |= {name: replace(PROVIDERS[_HOME[dialect]], dialect=dialect) for name, dialect in _FIXED_DIALECT.items()}
_ALIASES = {alias: row.name for row in ROWS for alias in row.aliases}


def add_provider(row: Provider) -> None:
    """Add a provider row in this process, or replace the row of the same name. The simulator can imitate it."""
    PROVIDERS[row.name] = row
    _ALIASES.update(dict.fromkeys(row.aliases, row.name))
    for name, other in list(PROVIDERS.items()):
        if other.plays and not row.plays and row.name not in other.plays:
            PROVIDERS[name] = replace(other, plays=(*other.plays, row.name))


def is_known_provider(name: str) -> bool:
    return name in PROVIDERS or name in _ALIASES


def find_provider(name: str, custom: Mapping[str, Provider] = NO_PROVIDERS) -> Provider:
    """Return the row with this name or alias; rows of `custom` take precedence. Raise `UnknownProvider` if unknown."""
    row = custom.get(name) or custom.get(_ALIASES.get(name, name)) or PROVIDERS.get(_ALIASES.get(name, name))
    if row is None:
        import difflib

        names = [*custom, *PROVIDERS, *_ALIASES]
        raise UnknownProvider(
            name, tuple(difflib.get_close_matches(name.lower(), names, n=_MAX_SUGGESTIONS, cutoff=0.65))
        )
    return row


def provider_or_default(name: str | None, dialect: Dialect) -> Provider:
    """Return the row with this name, or a new row with the defaults of the dialect; for None, the dialect's own."""
    home = PROVIDERS[_HOME[dialect]]
    if name is None:
        return home
    if is_known_provider(name):
        return find_provider(name)
    return Provider(name, dialect, "", auth=home.auth, headers=home.headers, hosts_others=True)


def provider_for_dialect(provider: str, dialect: Dialect) -> str:
    """Return the name that selects a row in this dialect, as `openai-chat`, or an empty string."""
    names = (name for name, fixed in _FIXED_DIALECT.items() if fixed == dialect and PROVIDERS[name].name == provider)
    return next(names, "")


def resolve(
    model: str,
    *,
    default_provider: str | None = None,
    dialect: Dialect | None = None,
    custom: Mapping[str, Provider] = NO_PROVIDERS,
) -> Target:
    """Return the target of `provider/model`, split at the first slash, or of a bare model name (see `qualify_model`).

    Rows of `custom` take precedence. Without `dialect`, the model's row decides, then the provider's. Raise
    `UnknownProvider` for a name without a row, and for a bare model name without exactly one provider.
    """
    name, _, rest = qualify_model(model, default_provider, custom).partition("/")
    if not name or not rest:
        raise UnknownProvider(model, _suggest(model.strip("/")), bare=True)
    row = find_provider(name, custom)
    if name in _FIXED_DIALECT and name not in custom and row.name in custom:
        row = custom[row.name]
    return build_target(row, rest, dialect or _FIXED_DIALECT.get(name))


SHORT_NAMES = {
    "opus": "anthropic",
    "sonnet": "anthropic",
    "haiku": "anthropic",
    "gpt": "openai",
    "gemini": "google",
    "sim": "",
}
"""Short names for the newest model of a family, and its provider; empty: the simulator. The command expands them."""
TAGGED = ("ollama", "openrouter", "huggingface")
"""Providers whose model names may end in a tag after a colon: `llama3:8b`, `deepseek-r1:free`."""


def qualify_model(
    model: str, default_provider: str | None = None, custom: Mapping[str, Provider] = NO_PROVIDERS
) -> str:
    """Return a model name as `provider/model`.

    The provider of a bare name is `default_provider`, else the row of `custom` whose default model it is, else the one
    vendor that owns it. A name without exactly one provider is returned unchanged.
    """
    if "/" in model:
        return model
    if default_provider:
        return f"{default_provider}/{model}"
    names = {row.name for row in custom.values() if row.default_model == model} or model_owners(model)
    return f"{next(iter(names))}/{model}" if len(names) == 1 else model


def _suggest(model: str) -> tuple[str, ...]:
    """Return `provider/model` names for a bare name: of vendors, then of hosts."""
    if is_known_provider(model):
        row = find_provider(model)
        return (f"{row.name}/{row.default_model}",) if row.default_model else ()
    names = (*model_owners(model), *model_hosts(model))
    return tuple(f"{name}/{model}" for name in names[:_MAX_SUGGESTIONS])


def build_target(row: Provider, model: str, dialect: Dialect | None = None) -> Target:
    """Return the target; raise `UnsupportedModel` if a simulator cannot imitate the provider that `model` names."""
    if row.plays:
        return _simulated_target(row, model, dialect)
    traits = model_traits(row.name, model)
    dialect = dialect or traits.dialect or row.dialect
    return Target(row, model, dialect, traits_for_dialect(traits, dialect))


def _simulated_target(row: Provider, path: str, dialect: Dialect | None) -> Target:
    """Return the target of `PROVIDER` or `PROVIDER/MODEL` at a simulator: its row with that provider's switches."""
    name, _, model = path.partition("/")
    part = name if name in row.plays else next((one for one in row.plays if _row_name(one) == _row_name(name)), "")
    if not part:
        raise UnsupportedModel(f"{row.name}/{path}", f"after {row.name}/ use one of: {', '.join(row.plays)}")
    real = provider_or_default(part, row.dialect)
    traits = model_traits(real.name, model) if model else replace(model_traits(row.name, part), pattern="")
    dialect = dialect or _FIXED_DIALECT.get(name) or traits.dialect or real.dialect
    imitated = {field: getattr(real, field) for field in _IMITATED}
    row = replace(row, headers={**real.headers, **row.headers}, plays=(part,), **imitated)
    return Target(row, f"{part}/{model}" if model else part, dialect, traits_for_dialect(traits, dialect))


def _row_name(name: str) -> str:
    return find_provider(name).name if is_known_provider(name) else name


def base_url(target: Target) -> str:
    """Return the URL of the target; it may contain placeholders, which `Provider.fill` explains."""
    return target.provider.base_urls.get(target.dialect, target.provider.base_url)
