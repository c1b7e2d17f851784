"""Where requests go out: whose row it is, at which address, with which key.

A key is bound to its endpoint. One from the environment goes to the address of its own row, or to the one that the
environment names beside it, and to no other; one that was passed goes where its row's requests go.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

import msgspec

from tenuto import settings
from tenuto.client.http import shown
from tenuto.client.simulated import Simulated
from tenuto.core.target import Dialect, Provider, Target
from tenuto.errors import LLMError, MissingKey, TenutoError

if TYPE_CHECKING:
    from tenuto.client.parameters import Key, ProviderConfig

__all__ = ["SETTINGS", "Door", "Way"]

SETTINGS = ("api_key", "base_url", "dialect", "headers")
"""The names in `ProviderConfig`."""

_HEADERS = {
    "bearer": "authorization",
    "none": "authorization",
    "x-api-key": "x-api-key",
    "x-goog-api-key": "x-goog-api-key",
    "api-key": "api-key",
}
_WORD = re.compile(r"\{(\w+)\}")


class Way(msgspec.Struct, frozen=True):
    """How to reach a target: its address, the header that pays, and what tells the account and the host from others."""

    base_url: str
    auth: dict[str, str]
    secret: str
    account: str
    platform: str = ""
    header: str = ""
    row: Provider | None = None
    """Whose way it is: a simulator is another for each part that it plays."""

    def url(self, path: str) -> str:
        """Put a path below the address; a query that the address ends in stays at the end."""
        base, mark, query = self.base_url.partition("?")
        joined = base.rstrip("/") + path
        if not mark:
            return joined
        return f"{joined}{'&' if '?' in joined else '?'}{query}"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("base_url", shown(self.base_url)), ("account", self.account)]

    def __repr__(self) -> str:
        return f"Way({shown(self.base_url)!r}, account={self.account!r})"


class Door:
    """The rows, keys and addresses of one client."""

    def __init__(
        self,
        keys: Mapping[str, Key],
        providers: Iterable[Provider] | Mapping[str, ProviderConfig],
        default_provider: str | None,
    ) -> None:
        self._default = default_provider
        self._keys: dict[str, Key] = {}
        self._own: dict[str, Provider] = {}
        self._placed: set[str] = set()
        self._simulated = Simulated()
        self._ways: dict[str, Way] = {}
        """The last way to each row: it is the same as long as address and key are."""
        if isinstance(providers, Mapping):
            for name, config in providers.items():
                self._configure(name, config)
        else:
            for row in providers:
                self._add(row)
        if not isinstance(keys, Mapping):
            raise TypeError(f"keys= is a dictionary, a key for each provider; not {type(keys).__name__}")
        for name, key in keys.items():
            self._keys[self._row(name).name] = _checked(key, name)
        if default_provider is not None:
            self._row(default_provider)

    def __repr__(self) -> str:
        return f"Door(own={sorted(self._own)!r}, keys={sorted(self._keys)!r})"

    def qualified(self, model: str) -> str:
        """Return the model with its provider's name in front."""
        if "/" in model or not self._default:
            return model
        return f"{self._default}/{model}"

    def target(self, model: str) -> Target:
        """Find whom a model is asked of. Raise `UnknownProvider`, or `LLMError` if no provider is named at all."""
        from tenuto import providers

        return providers.resolve(model, default_provider=self._default, own=self._own)

    def row(self, name: str) -> Target:
        """Return the target for what is asked of a provider, not of a model."""
        from tenuto import providers

        row = self._row(name)
        return Target(row, "", row.dialect if name in (row.name, *row.aliases) else providers.provider(name).dialect)

    def waits(self, target: Target) -> bool:
        """Tell whether finding the way takes time."""
        return bool(target.provider.plays) or callable(self._keys.get(target.provider.name))

    async def way(self, target: Target, given: Collection[str]) -> Way:
        """Find the address and the key for a target. `given` names headers that the caller wrote: one may hold the key.

        Raise `MissingKey`, which names the variable, or `TenutoError` for an address with a gap.
        """
        row = target.provider
        written = row.base_urls.get(target.dialect, row.base_url)
        if row.plays and _WORD.search(written):
            simulator, bound = await self._simulated.address(), True
            base_url = _WORD.sub(lambda _: simulator, written)
        else:
            base_url, bound = self._address(row, target.dialect)
        key, bearer = await self._key(row, bound=bound)
        header = "authorization" if bearer else _HEADERS[row.auth]
        if not key and header not in given and (row.key_env or row.bearer_env) and row.auth != "none":
            raise _missing(row, base_url, bound=bound)
        last = self._ways.get(row.name)
        if last is None or (last.base_url, last.secret, last.header, last.row) != (base_url, key, header, row):
            last = self._ways[row.name] = _way(row, base_url, key, header)
        return last

    async def close(self) -> None:
        """Stop what was started to be asked."""
        await self._simulated.close()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _row(self, name: str) -> Provider:
        from tenuto.providers import provider

        return self._own[name] if name in self._own else provider(name, self._own)

    def _add(self, row: Provider) -> None:
        if not isinstance(row, Provider):
            raise TypeError(f"providers= takes Provider rows, or settings by name; not {type(row).__name__}")
        if row.name in self._own:
            raise ValueError(f"two providers are called {row.name!r}")
        if "/" in row.name or not row.name:
            raise ValueError(f"{row.name!r} is no name for a provider: it stands before the slash of provider/model")
        self._own[row.name] = row
        self._placed.add(row.name)
        for alias in row.aliases:
            self._own.setdefault(alias, row)

    def _configure(self, name: str, config: ProviderConfig) -> None:
        from tenuto.providers import is_row, provider, row_or_default

        if not isinstance(config, Mapping):
            raise TypeError(
                f"providers[{name!r}] is a dictionary of settings, such as base_url; not {type(config).__name__}"
            )
        strange = set(config) - set(SETTINGS)
        if strange:
            raise TypeError(f"providers[{name!r}] has no setting {min(strange)!r}; there are {', '.join(SETTINGS)}")
        base_url, dialect = config.get("base_url", ""), config.get("dialect")
        if dialect is not None and dialect not in get_args(Dialect):
            raise ValueError(
                f"providers[{name!r}]: {dialect!r} is no dialect; there are {', '.join(get_args(Dialect))}"
            )
        if is_row(name):
            row = provider(name)
            if row.plays:  # its address depends on whose part it plays
                self._simulated.given, base_url = base_url, ""
            changed = {"base_url": base_url, "base_urls": {}} if base_url else {}
            row = msgspec.structs.replace(row, **changed, **({"dialect": dialect} if dialect else {}))
        elif base_url:
            row = msgspec.structs.replace(row_or_default(name, dialect or "openai-chat"), base_url=base_url)
        else:
            raise ValueError(f"{name!r} is no known provider: give its base_url")
        self._add(msgspec.structs.replace(row, headers={**row.headers, **config.get("headers", {})}))
        if not base_url:  # where it is, is left to the environment and the table
            self._placed.discard(row.name)
        if "api_key" in config:
            self._keys[row.name] = _checked(config["api_key"], name)

    # --- addresses ----------------------------------------------------------------------------------------------------

    def _address(self, row: Provider, dialect: Dialect) -> tuple[str, bool]:
        """Return the address, and whether it is one to which the row's keys from the environment may go."""
        written = row.base_urls.get(dialect, row.base_url)
        if row.name in self._placed and _origin(written) not in _known(row):
            return _filled(row, written), False
        named = (
            settings.found(row.base_url_env) if row.name not in self._placed and dialect not in row.base_urls else ""
        )
        return _filled(row, _completed(named, row) if named else written), True

    async def _key(self, row: Provider, *, bound: bool) -> tuple[str, bool]:
        """Return the key, and whether it goes out as a bearer token whatever the row says."""
        key = self._keys.get(row.name)
        if key is None and row.name in self._own and not row.key_env:
            return "", False
        if key is None:
            if not bound:
                return "", False
            held = settings.found(row.key_env)
            return (_clean(held, row.name), False) if held else (_clean(settings.found(row.bearer_env), row.name), True)
        if not callable(key):
            return _clean(key, row.name), False
        # A function that does not await may wait all the same: for a token, for a keyring. It must not hold up the loop.
        made = key() if inspect.iscoroutinefunction(key) else await asyncio.to_thread(_given, key, row.name)
        return _clean(await made if inspect.isawaitable(made) else made, row.name), False


def _way(row: Provider, base_url: str, key: str, header: str) -> Way:
    from tenuto.providers import fingerprint

    auth = {header: f"Bearer {key}" if header == "authorization" else key} if key else {}
    host = "" if row.plays else urlsplit(base_url).netloc.rpartition("@")[2].lower()  # a simulator is whom it plays
    return Way(base_url, auth, key, fingerprint(row, base_url, key), host, header, row)


def _known(row: Provider) -> set[str]:
    """Return the origins to which this row's keys from the environment belong."""
    from tenuto.providers import is_row, provider

    table = provider(row.name) if is_row(row.name) else None
    if table is None:  # a row of one's own that names variables names them for its own address
        return {_origin(row.base_url), *map(_origin, row.base_urls.values())}
    addresses = [_filled(table, address, strict=False) for address in (table.base_url, *table.base_urls.values())]
    named = settings.found(table.base_url_env)
    return {_origin(address) for address in (*addresses, *([_completed(named, table)] if named else []))}


@cache
def _is_web(address: str) -> bool:
    return urlsplit(address).scheme in ("http", "https")


@cache
def _origin(url: str) -> str:
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port and (parts.scheme, parts.port) not in (("https", 443), ("http", 80)) else ""
    return f"{parts.scheme}://{parts.hostname}{port}".lower()


def _completed(address: str, row: Provider) -> str:
    """Add what an address from the environment leaves out: the scheme and port, and the path that SDKs add themselves."""
    address, path = address.rstrip("/"), row.base_url_path
    if "://" not in address:
        own = urlsplit(row.base_url)
        place, slash, rest = address.partition("/")
        port = "" if urlsplit(f"//{place}").port or not own.port else f":{own.port}"
        address = f"{own.scheme}://{place}{port}{slash}{rest}"
    return address if not path or address.endswith(path) else address + path


def _filled(row: Provider, address: str, *, strict: bool = True) -> str:
    """Fill the words in braces from the environment."""
    if "{" not in address and (not strict or _is_web(address)):
        return address
    for word in dict.fromkeys(_WORD.findall(address)):
        if held := settings.found(row.fill.get(word, ())):
            address = address.replace(f"{{{word}}}", held)
    gaps = dict.fromkeys(_WORD.findall(address))
    if gaps and strict:
        variables = [" or ".join(row.fill.get(word, (word.upper(),))) for word in gaps]
        raise TenutoError(
            f"the address of {row.name!r} is {address}: set {' and '.join(variables)}, or pass "
            f"providers={{{row.name!r}: {{'base_url': ...}}}}"
        )
    if strict and not _is_web(address):
        raise TenutoError(f"the address of {row.name!r}, {shown(address)!r}, is not one of http:// or https://")
    return address


def _missing(row: Provider, base_url: str, *, bound: bool) -> MissingKey:
    variables = (*row.key_env, *row.bearer_env)
    held = next((name for name in variables if settings.value(name)), "")
    if bound or not held:
        return MissingKey(row.name, variables)
    why = (
        f"the one in {held} belongs to another address than {shown(base_url)}; pass keys={{{row.name!r}: ...}} if it "
        "is to go there"
    )
    return MissingKey(row.name, variables, why=why)


def _given(key: Callable[[], str | Awaitable[str]], name: str) -> str | Awaitable[str]:
    try:
        return key()
    except StopIteration as exc:  # no thread can hand that on
        raise LLMError(f"the function for the key of {name!r} has no more keys", provider=name) from exc


def _checked(key: Key, name: str) -> Key:
    if not callable(key) and not isinstance(key, str):
        raise TypeError(f"the key for {name!r} is a string, or a function that gives one; not {type(key).__name__}")
    return key


def _clean(key: str, name: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the function for the key of {name!r} gave {type(key).__name__}, not a string")
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise LLMError(f"the key for {name!r} holds characters that no key has; is it the right one?", provider=name)
    return key
