"""API keys of `tenuto keys set`, in a private file. Environment variables override it; the library does not read it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from tenuto import settings
from tenuto.catalog import PROVIDERS, find_provider, is_known_provider, provider_or_default
from tenuto.cli.config import ConfigError, config_path, configured_providers, load_config, read_json, read_once
from tenuto.cli.files import file_lock, write_private
from tenuto.cli.terminal.text import similar_names
from tenuto.core.provider import ModelInfo, Provider
from tenuto.errors import TenutoError, UnknownProvider


def keys_path() -> Path:
    return config_path().with_name("keys.json")


def read_keys(*, strict: bool = True) -> dict[str, str]:
    """Return all keys by provider. Raise `ConfigError` for a bad file; with `strict`, also if others can read it."""
    path = keys_path()
    hint = "fix or delete it, then set the keys again: tenuto keys set PROVIDER"
    keys = read_json(path, dict[str, str], hint)
    if keys is not None and strict and os.name == "posix" and (mode := path.stat().st_mode & 0o777) & 0o077:
        problem = f"{path} can be read by others (mode {mode:04o}), so its keys are not used"
        raise ConfigError(problem, hint=f"chmod 600 {shlex.quote(str(path))}")
    return keys or {}


def save_key(name: str, key: str) -> bool:
    """Save a key, or delete it (empty); return whether there was one."""
    if not key and name not in read_keys(strict=False):
        return False
    with file_lock(keys_path()):
        keys = read_keys(strict=False)
        existed = keys.pop(name, None) is not None
        write_private(keys_path(), json.dumps({**keys, name: key} if key else keys, indent=2) + "\n")
    return existed


def canonical_provider(name: str) -> str:
    """Return a provider's name for any of its aliases. Raise `UnknownProvider` with suggestions."""
    if is_known_provider(name):
        return find_provider(name).name
    custom = load_config().document.get("providers", {})
    if name not in custom:
        raise UnknownProvider(name, tuple(similar_names(name, [*custom, *PROVIDERS], 3)))
    return name


def key_variables(name: str) -> tuple[str, ...]:
    """Return the environment variables for a provider's key, in order of precedence.

    The catalog's variables do not count if the config file changes the host: those keys are for the provider's own hosts.
    """
    row = find_provider(name) if is_known_provider(name) else None
    custom = load_config().document.get("providers", {})
    same = [one for one in custom if one == name or (row and is_known_provider(one) and find_provider(one) is row)]
    table = custom[same[0]] if same else {}
    variables: tuple[str, ...] = (table["key_env"],) if table.get("key_env") else ()
    hosts = {urlsplit(url).netloc for url in (row.base_url, *row.base_urls.values())} if row else set()
    if row and urlsplit(table.get("base_url") or row.base_url).netloc in hosts:
        variables += (*row.key_env, *row.bearer_env)
    return variables


def key_source(name: str) -> str:
    """Return where a provider's key comes from: a variable, `keys.json`, or "" without a key."""
    variable = next(filter(settings.getenv, key_variables(name)), "")
    return variable or (keys_path().name if _stored_keys().get(name) else "")


def load_keys() -> dict[str, str]:
    """Return the stored keys that the environment does not override, as `keys=` of a client."""
    custom = load_config().document.get("providers", {})
    return {
        name: key
        for name, key in _stored_keys().items()
        if (name in custom or is_known_provider(name)) and not any(map(settings.getenv, key_variables(name)))
    }


_stored_keys = read_once(read_keys)
KeyState = Literal["set", "kept", "missing", "not needed"]


class ProviderStatus(NamedTuple):
    """A provider and the state of its key, which is never included."""

    name: str
    row: Provider
    base_url: str
    key: KeyState  # `set` in an environment variable, `kept` in the file
    where: str  # the variable or file
    variables: tuple[str, ...]
    custom: bool  # whether the config file has it

    @property
    def default_model(self) -> str:
        return f"{self.name}/{self.row.default_model}" if self.row.default_model else ""


def provider_statuses() -> Iterator[ProviderStatus]:
    """Yield the providers of the config file, then those of the catalog. Raise `ConfigError` for unusable files."""
    custom = configured_providers()
    for name in (*custom, *(name for name, row in PROVIDERS.items() if name == row.name and name not in custom)):
        config, known = custom.get(name, {}), is_known_provider(name)
        row = find_provider(name) if known else provider_or_default(name, config.get("dialect") or "openai-chat")
        where = key_source(name)
        needs_key = row.auth != "none" and ("api_key" in config or known)
        key: KeyState = "missing" if needs_key else "not needed"
        if where:
            key = "kept" if where == keys_path().name else "set"
        base_url = config.get("base_url") or row.base_url
        yield ProviderStatus(name, row, base_url, key, where, key_variables(name), name in custom)


def providers_with_key() -> Iterator[str]:
    """Yield the providers that can be used now: those with a key, and custom ones that need none."""
    for provider in provider_statuses():
        if provider.key in ("set", "kept") or (provider.custom and provider.key == "not needed"):
            yield provider.name


def fetch_models(names: Iterable[str], timeout: float | None = None) -> dict[str, Sequence[ModelInfo] | TenutoError]:
    """Return the model list of each provider, or why there is none. Requests are not repeated."""
    import asyncio

    from tenuto.client.client import AsyncClient

    async def fetch(client: AsyncClient, name: str) -> tuple[str, Sequence[ModelInfo] | TenutoError]:
        try:
            return name, await client.models(name, timeout=timeout)
        except TenutoError as exc:
            return name, exc

    async def fetch_all() -> dict[str, Sequence[ModelInfo] | TenutoError]:
        async with AsyncClient(keys=load_keys(), providers=configured_providers(), middleware=()) as client:
            return dict(await asyncio.gather(*(fetch(client, name) for name in names)))

    return asyncio.run(fetch_all())
