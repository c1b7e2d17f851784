"""Where requests go out: whose row it is, at which address, with which key.

A key is bound to its endpoint. One from the environment goes to the address of its own row, or to the one that the
environment names beside it, and to no other; one that was passed goes where its row's requests go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto import settings
from tenuto.core.provider import Provider, Target

if TYPE_CHECKING:
    from tenuto.client.parameters import Key, ProviderConfig
    from tenuto.client.simulator import LocalSimulator

__all__ = ["SETTINGS", "Endpoint", "Router"]

SETTINGS = ("api_key", "base_url", "dialect", "headers")
"""The names in `ProviderConfig`."""

_HEADERS = {
    "bearer": "authorization",
    "none": "authorization",
    "x-api-key": "x-api-key",
    "x-goog-api-key": "x-goog-api-key",
    "api-key": "api-key",
}


_TARGETS = 1000
"""So many models are remembered; whoever asks more looks them up each time."""


class Endpoint(msgspec.Struct, frozen=True):
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
        from tenuto.client.http import safe_url

        return [("base_url", safe_url(self.base_url)), ("account", self.account)]

    def __repr__(self) -> str:
        (_, base_url), (_, account) = self.__rich_repr__()
        return f"Way({base_url!r}, account={account!r})"


class Router:
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
        self._simulator = ""
        """The address of the simulator, if one was given."""
        self._simulated: LocalSimulator | None = None
        self._targets: dict[str, Target] = {}
        self._ways: dict[str, Endpoint] = {}
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
        """Return a model name with its provider in front, as far as one is clear."""
        from tenuto.catalog import qualify_model

        return qualify_model(model, self._default, self._own)

    def target(self, model: str) -> Target:
        """Return the target of a model name. Raise `UnknownProvider` if its provider is unknown or not clear."""
        found = self._targets.get(model)
        if found is None:
            from tenuto.catalog import resolve

            found = resolve(model, default_provider=self._default, custom=self._own)
            if len(self._targets) < _TARGETS:
                self._targets[model] = found
        return found

    def row(self, name: str) -> Target:
        """Return the target for what is asked of a provider, not of a model."""
        from tenuto import catalog

        row = self._row(name)
        return Target(row, "", row.dialect if name in (row.name, *row.aliases) else catalog.find_provider(name).dialect)

    def needs_await(self, target: Target) -> bool:
        """Tell whether finding the way takes time."""
        return bool(target.provider.plays) or callable(self._keys.get(target.provider.name))

    async def endpoint(self, target: Target, given: Collection[str]) -> Endpoint:
        """Find the address and the key for a target. `given` names headers that the caller wrote: one may hold the key.

        Raise `MissingKey`, which names the variable, or `TenutoError` for an address with a gap.
        """
        import tenuto.client.endpoints as places  # who only makes a client needs none of it

        row = target.provider
        written = row.base_urls.get(target.dialect, row.base_url)
        if row.plays and places.has_gaps(written):
            base_url, bound = places.joined(written, await self._simulators().address()), True
        else:
            base_url, bound = places.address(row, target.dialect, placed=row.name in self._placed)
        held, bearer = self._key(row, bound=bound)
        key = places.clean(await places.called(held, row.name) if callable(held) else held, row.name)
        header = "authorization" if bearer else _HEADERS[row.auth]
        if not key and header not in given and (row.key_env or row.bearer_env) and row.auth != "none":
            raise places.missing(row, base_url, bound=bound)
        last = self._ways.get(row.name)
        if last is None or (last.base_url, last.secret, last.header, last.row) != (base_url, key, header, row):
            last = self._ways[row.name] = _endpoint(row, base_url, key, header)
        return last

    async def close(self) -> None:
        """Stop what was started to be asked."""
        if self._simulated is not None:
            await self._simulated.close()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _row(self, name: str) -> Provider:
        from tenuto.catalog import find_provider

        return self._own[name] if name in self._own else find_provider(name, self._own)

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
        from tenuto.catalog import find_provider, is_known_provider, provider_or_default
        from tenuto.wire.registry import dialect_names

        if not isinstance(config, Mapping):
            raise TypeError(
                f"providers[{name!r}] is a dictionary of settings, such as base_url; not {type(config).__name__}"
            )
        strange = set(config) - set(SETTINGS)
        if strange:
            raise TypeError(f"providers[{name!r}] has no setting {min(strange)!r}; there are {', '.join(SETTINGS)}")
        base_url, dialect = config.get("base_url", ""), config.get("dialect")
        if dialect is not None and dialect not in dialect_names():
            raise ValueError(f"providers[{name!r}]: unknown dialect {dialect!r}; known: {', '.join(dialect_names())}")
        if is_known_provider(name):
            row = find_provider(name)
            if row.plays:  # its address depends on whose part it plays
                self._simulator, base_url = base_url, ""
            changed = {"base_url": base_url, "base_urls": {}} if base_url else {}
            row = msgspec.structs.replace(row, **changed, **({"dialect": dialect} if dialect else {}))
        elif base_url:
            row = msgspec.structs.replace(provider_or_default(name, dialect or "openai-chat"), base_url=base_url)
        else:
            raise ValueError(f"{name!r} is no known provider: give its base_url")
        self._add(msgspec.structs.replace(row, headers={**row.headers, **config.get("headers", {})}))
        if not base_url:  # where it is, is left to the environment and the table
            self._placed.discard(row.name)
        if "api_key" in config:
            self._keys[row.name] = _checked(config["api_key"], name)

    # --- addresses and keys -------------------------------------------------------------------------------------------

    def _simulators(self) -> LocalSimulator:
        if self._simulated is None:
            from tenuto.client.simulator import LocalSimulator

            self._simulated = LocalSimulator()
            self._simulated.given = self._simulator
        return self._simulated

    def _key(self, row: Provider, *, bound: bool) -> tuple[Key, bool]:
        """Return the key, empty if there is none, and whether it goes out as a bearer token whatever the row says."""
        key = self._keys.get(row.name)
        if key is not None:
            return key, False
        if not bound or (row.name in self._own and not row.key_env):
            return "", False
        held = settings.first_set(row.key_env)
        return held or settings.first_set(row.bearer_env), not held


def _endpoint(row: Provider, base_url: str, key: str, header: str) -> Endpoint:
    from tenuto.catalog import fingerprint
    from tenuto.client.endpoints import host

    auth = {header: f"Bearer {key}" if header == "authorization" else key} if key else {}
    platform = "" if row.plays else host(base_url)  # a simulator is whom it plays
    return Endpoint(base_url, auth, key, fingerprint(row, base_url, key), platform, header, row)


def _checked(key: Key, name: str) -> Key:
    if not callable(key) and not isinstance(key, str):
        raise TypeError(f"the key for {name!r} is a string, or a function that gives one; not {type(key).__name__}")
    return key
