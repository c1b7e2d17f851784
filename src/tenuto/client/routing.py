"""Find the provider row, the base URL and the key of a request.

A key is bound to a URL. A key from the environment is sent only to the URL of its own row, or to the URL that the
environment names for this row. A key that the caller passes is sent to the URL of its provider, whatever that is.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto import settings
from tenuto.client.http import Secret, safe_url
from tenuto.core.provider import Provider, Target
from tenuto.errors import ClosedError, LLMError, MissingKey, NetworkForbidden, TenutoError

# Imports inside functions: `Client()` loads neither the catalog nor asyncio nor urllib.
if TYPE_CHECKING:
    from tenuto.client.parameters import Key, ProviderConfig
    from tenuto.sim.simulator import Simulator
SETTINGS = ("api_key", "base_url", "dialect", "headers")
"""The names in `ProviderConfig`."""
_HEADERS = {
    "bearer": "authorization",
    "none": "authorization",
    "x-api-key": "x-api-key",
    "x-goog-api-key": "x-goog-api-key",
    "api-key": "api-key",
}
"""The header for each value of `Provider.auth`."""

_MAX_TARGETS = 1000  # the number of model names whose targets are cached

_PLACEHOLDER = r"\{(\w+)\}"


class Endpoint(msgspec.Struct, frozen=True):
    """The URL and the headers that reach a target."""

    base_url: str
    auth: dict[str, str]
    """The header with the key, empty without a key; at a simulator also the provider that it imitates."""
    account: str
    """The fingerprint of URL and key: tokens of one account are not valid in another."""
    platform: str = ""
    """Host and port; empty for a simulator, which imitates other hosts."""

    def url(self, path: str) -> str:
        """Append a path to the base URL. A query of the base URL stays at the end."""
        base, mark, query = self.base_url.partition("?")
        joined = base.rstrip("/") + path
        if not mark:
            return joined
        return f"{joined}{'&' if '?' in joined else '?'}{query}"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("base_url", safe_url(self.base_url)), ("account", self.account)]

    def __repr__(self) -> str:
        return f"Endpoint({safe_url(self.base_url)!r}, account={self.account!r})"


class Router:
    """The providers, keys and URLs of one client."""

    def __init__(
        self,
        keys: Mapping[str, Key],
        providers: Iterable[Provider] | Mapping[str, ProviderConfig],
        default_provider: str | None,
    ) -> None:
        self._default = default_provider
        self._keys: dict[str, Key] = {}
        self._custom: dict[str, Provider] = {}
        self._explicit_urls: set[str] = set()  # names of the providers whose base URL the caller passed
        self._simulator_url = ""
        self._simulator: LocalSimulator | None = None
        self._targets: dict[str, Target] = {}
        if isinstance(providers, Mapping):
            for name, config in providers.items():
                self._configure(name, config)
        else:
            for row in providers:
                self._add(row)
        if not isinstance(keys, Mapping):
            raise TypeError(f"keys= must be a dictionary with a key for each provider, not {type(keys).__name__}")
        for name, key in keys.items():
            self._add_key(self._row(name), key)
        if default_provider is not None:
            self._row(default_provider)

    def __repr__(self) -> str:
        return f"Router(custom={sorted(self._custom)!r}, keys={sorted(self._keys)!r})"

    def qualify(self, model: str) -> str:
        """Return a model name with its provider in front, unless the provider is ambiguous."""
        if "/" in model:
            return model
        from tenuto.catalog import qualify_model

        return qualify_model(model, self._default, self._custom)

    def target(self, model: str) -> Target:
        """Return the target of a model name. Raise `UnknownProvider` if its provider is unknown or ambiguous."""
        target = self._targets.get(model)
        if target is None:
            from tenuto.catalog import resolve

            target = resolve(model, default_provider=self._default, custom=self._custom)
            if len(self._targets) < _MAX_TARGETS:
                self._targets[model] = target
        return target

    def row(self, name: str) -> Target:
        """Return the target of requests that concern a provider and no model."""
        from tenuto import catalog

        row = self._row(name)
        return Target(row, "", row.dialect if name in (row.name, *row.aliases) else catalog.find_provider(name).dialect)

    async def check_key(self, target: Target, headers: Iterable[str]) -> None:
        """Raise `MissingKey` if a request has no key. Call no key function and start no simulator."""
        if not target.provider.plays and not callable(self._keys.get(target.provider.name)):
            await self.endpoint(target, {name.lower() for name in headers})

    async def endpoint(self, target: Target, header_names: Collection[str]) -> Endpoint:
        """Return the endpoint. Raise `MissingKey` (unless `header_names` has it), `NetworkForbidden`, `TenutoError`."""
        from urllib.parse import quote, urlsplit

        row = target.provider
        written_url = base_url = row.base_urls.get(target.dialect, row.base_url)
        simulator_url = "" if row.plays and "{" in written_url else simulator_for(written_url)
        if not simulator_url:
            base_url = await self._base_url(target, written_url)
        key, header = await self._key(row, written_url, simulated=bool(simulator_url))
        if not key and row.auth != "none" and (row.key_env or row.bearer_env):
            accepted = {header, "authorization"} if row.bearer_env else {header}
            if accepted.isdisjoint(map(str.lower, header_names)):
                check_network(written_url)  # where the network is forbidden, a key would not help
                raise self._missing_key(row, written_url)
        auth: dict[str, str] = {header: Secret(f"Bearer {key}" if header == "authorization" else key)} if key else {}
        if simulator_url and not row.plays:
            auth["x-tenuto-provider"] = quote(row.name, safe="")
        host = "" if row.plays else urlsplit(base_url).netloc.rpartition("@")[2].lower()
        return Endpoint(simulator_url or base_url, auth, fingerprint(row, base_url, key), host)

    async def close(self) -> None:
        """Stop the simulator, if this router started one."""
        if self._simulator is not None:
            await self._simulator.close()

    # --- provider rows ------------------------------------------------------------------------------------------------

    def _row(self, name: str) -> Provider:
        from tenuto.catalog import find_provider

        return self._custom[name] if name in self._custom else find_provider(name, self._custom)

    def _add(self, row: Provider) -> None:
        if not isinstance(row, Provider):
            raise TypeError(f"providers= takes Provider rows, or settings by name, not {type(row).__name__}")
        if row.name in self._custom:
            raise ValueError(f"two providers have the name {row.name!r}")
        if "/" in row.name or not row.name:
            raise ValueError(f"invalid provider name {row.name!r}: a name is not empty and has no slash")
        self._custom[row.name] = row
        self._explicit_urls.add(row.name)
        for alias in row.aliases:
            self._custom.setdefault(alias, row)

    def _configure(self, name: str, config: ProviderConfig) -> None:
        from tenuto.catalog import find_provider, is_known_provider, provider_or_default
        from tenuto.wire.codec import dialect_names

        if not isinstance(config, Mapping):
            raise TypeError(f"providers[{name!r}] must be settings such as base_url, not {type(config).__name__}")
        if unknown := set(config) - set(SETTINGS):
            raise TypeError(f"providers[{name!r}]: unknown setting {min(unknown)!r}; known: {', '.join(SETTINGS)}")
        base_url, dialect = config.get("base_url", ""), config.get("dialect")
        if dialect is not None and dialect not in dialect_names():
            raise ValueError(f"providers[{name!r}]: unknown dialect {dialect!r}; known: {', '.join(dialect_names())}")
        if is_known_provider(name):
            row = find_provider(name)
            if row.plays:  # the row's own URL has a placeholder for the simulator's
                self._simulator_url, base_url = base_url, ""
            urls = {"base_url": base_url, "base_urls": {}} if base_url else {}
            row = msgspec.structs.replace(row, **urls, **({"dialect": dialect} if dialect else {}))
        elif base_url:
            row = msgspec.structs.replace(provider_or_default(name, dialect or "openai-chat"), base_url=base_url)
        else:
            raise ValueError(f"unknown provider {name!r}: pass its base_url")
        self._add(msgspec.structs.replace(row, headers={**row.headers, **config.get("headers", {})}))
        if not base_url:
            self._explicit_urls.discard(row.name)
        if "api_key" in config:
            self._add_key(row, config["api_key"])

    def _add_key(self, row: Provider, key: Key) -> None:
        if not callable(key) and not isinstance(key, str):
            raise TypeError(f"the key of {row.name!r} must be a string or a function, not {type(key).__name__}")
        self._keys[row.name] = key

    # --- keys ---------------------------------------------------------------------------------------------------------

    async def _key(self, row: Provider, written_url: str, *, simulated: bool) -> tuple[str, str]:
        """Return the key, empty without one, and the name of its header. A simulator gets a key that is made up."""
        key, header = self._keys.get(row.name, ""), _HEADERS[row.auth]
        if simulated:
            key = key if isinstance(key, str) and key else "made-up" if row.auth != "none" else ""
        elif callable(key):
            key = await _call_key(key, row.name)
        elif row.name not in self._keys and (row.key_env or row.bearer_env) and self._is_trusted(row, written_url):
            key = settings.first_set(row.key_env)
            if not key and (key := settings.first_set(row.bearer_env)):
                header = "authorization"
        key = key.strip()
        if not key.isascii() or not key.isprintable():
            message = f"the key of {row.name!r} has characters that are not printable ASCII; check that it is the key"
            raise LLMError(message, provider=row.name)
        return key, header

    def _is_trusted(self, row: Provider, written_url: str) -> bool:
        """Tell whether keys from the environment may be sent to a URL of a row."""
        return row.name not in self._explicit_urls or _origin(written_url) in _trusted_origins(row)

    def _missing_key(self, row: Provider, written_url: str) -> MissingKey:
        variables = (*row.key_env, *row.bearer_env)
        variable = next((name for name in variables if settings.getenv(name)), "")
        if not variable or self._is_trusted(row, written_url):
            return MissingKey(row.name, variables)
        reason = (
            f"the one in {variable} belongs to another URL than {safe_url(written_url)}; pass "
            f"keys={{{row.name!r}: ...}} to send it there"
        )
        return MissingKey(row.name, variables, reason=reason)

    # --- URLs ---------------------------------------------------------------------------------------------------------

    async def _base_url(self, target: Target, url: str) -> str:
        """Return the complete base URL. Raise `TenutoError` if a placeholder has no value, or if it is not an HTTP URL."""
        row = target.provider
        if row.plays and "{" in url:
            if self._simulator is None:
                self._simulator = LocalSimulator(self._simulator_url)
            simulator_url = await self._simulator.url()
            return re.sub(_PLACEHOLDER, lambda _: simulator_url, url)
        if row.name not in self._explicit_urls and target.dialect not in row.base_urls:
            variable = settings.first_set(row.base_url_env)
            url = _complete_url(variable, row) if variable else url
        if "{" in url:
            url = _fill_placeholders(row, url)
        if missing := dict.fromkeys(re.findall(_PLACEHOLDER, url)):
            check_network(url)
            variables = " and ".join(" or ".join(row.fill.get(name, (name.upper(),))) for name in missing)
            raise TenutoError(
                f"the base URL of {row.name!r} is {url}: set {variables}, or pass "
                f"providers={{{row.name!r}: {{'base_url': ...}}}}"
            )
        if not url.lower().startswith(("http://", "https://")):
            raise TenutoError(f"the base URL of {row.name!r}, {safe_url(url)!r}, must start with http:// or https://")
        return url


def fingerprint(row: Provider, base_url: str, key: str) -> str:
    """Return 16 hex digits that identify an account without revealing its key or URL; a simulator counts at any URL."""
    import hashlib

    if row.plays:
        base_url = ",".join(row.plays)
    return hashlib.sha256("\0".join((row.name, base_url.rstrip("/"), key)).encode()).hexdigest()[:16]


async def _call_key(function: Callable[[], str | Awaitable[str]], name: str) -> str:
    """Return the key that a function returns or awaits. A plain function runs in a thread, because it may block."""
    import asyncio
    import inspect

    def call() -> str | Awaitable[str]:
        try:
            return function()
        except StopIteration as exc:  # a coroutine cannot raise StopIteration
            raise LLMError(f"the key function of {name!r} has no more keys", provider=name) from exc

    result = function() if inspect.iscoroutinefunction(function) else await asyncio.to_thread(call)
    key = await result if inspect.isawaitable(result) else result
    if not isinstance(key, str):
        raise TypeError(f"the key function of {name!r} returned {type(key).__name__}, not a string")
    return key


def _trusted_origins(row: Provider) -> set[str]:
    """Return the origins that keys from the environment may be sent to.

    For a custom row these are its own: it names its variables for its own URLs. For a row with the name of a catalog row
    they are those of the catalog row.
    """
    from tenuto.catalog import find_provider, is_known_provider

    if not is_known_provider(row.name):
        return {_origin(url) for url in (row.base_url, *row.base_urls.values())}
    known = find_provider(row.name)
    urls = [_fill_placeholders(known, url) for url in (known.base_url, *known.base_urls.values())]
    if variable := settings.first_set(known.base_url_env):
        urls.append(_complete_url(variable, known))
    return set(map(_origin, urls))


def _origin(url: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port and (parts.scheme, parts.port) not in (("https", 443), ("http", 80)) else ""
    return f"{parts.scheme}://{parts.hostname}{port}".lower()


def _complete_url(url: str, row: Provider) -> str:
    """Complete a URL from the environment with scheme, port, and the path that the vendor's SDK adds."""
    from urllib.parse import urlsplit

    url = url.rstrip("/")
    if "://" not in url:
        own = urlsplit(row.base_url)
        host, slash, path = url.partition("/")
        port = "" if urlsplit(f"//{host}").port or not own.port else f":{own.port}"
        url = f"{own.scheme}://{host}{port}{slash}{path}"
    return url if url.endswith(row.base_url_path) else url + row.base_url_path


def _fill_placeholders(row: Provider, url: str) -> str:
    """Fill the placeholders in braces from the environment; those without a value stay."""
    for name in re.findall(_PLACEHOLDER, url):
        if value := settings.first_set(row.fill.get(name, ())):
            url = url.replace(f"{{{name}}}", value)
    return url


# --- simulators in place of providers ---------------------------------------------------------------------------------


class Override(msgspec.Struct, eq=False, frozen=True):
    """A simulator that answers every model name: see `tenuto.testing.override`."""

    url: str
    network: bool | Collection[str]
    """The hosts that are reached as usual; True allows all."""

    def allows(self, url: str) -> bool:
        """Tell whether the test lists the host of a URL."""
        host = _host(url)
        return not isinstance(self.network, bool) and not {host, host.rpartition(":")[0]}.isdisjoint(self.network)


overrides: list[Override] = []
"""The active overrides of this process. The last one is in effect."""
_simulator_hosts: dict[int, str] = {}
"""Host and port of the simulator on this machine that each open `LocalSimulator` uses, by its `id`."""


def simulator_for(url: str) -> str:
    """Return the URL of the simulator that answers in place of a URL; empty if none does."""
    return next((active.url for active in overrides[-1:] if not active.allows(url)), "")


def check_network(url: str) -> None:
    """Raise `NetworkForbidden` if an override or `TENUTO_OFFLINE` forbids a request to a URL."""
    is_forbidden = any(active.network is not True and not active.allows(url) for active in overrides[-1:])
    if not is_forbidden and not settings.is_offline():
        return
    if _host(url) not in [*_simulator_hosts.values(), *(_host(active.url) for active in overrides)]:
        raise NetworkForbidden(safe_url(url))


def _host(url: str) -> str:
    """Return host and port of a URL as it has them; empty for an invalid URL."""
    from urllib.parse import urlsplit

    return urlsplit(safe_url(url)).netloc.lower()


class LocalSimulator:
    """Find the simulator: at the passed URL, of an override, at `TENUTO_SIM_URL`, or in a thread (`greeting`)."""

    def __init__(self, url: str = "", greeting: str = "") -> None:
        self._url = url
        self._greeting = greeting
        self._lock = threading.Lock()
        self._simulator: Simulator | None = None
        self._pid = 0
        self._is_closed = False
        weakref.finalize(self, _simulator_hosts.pop, id(self), None)  # for clients that are never closed

    async def url(self) -> str:
        """Return the URL. Raise `TenutoError` if the simulator cannot start with the settings of the environment."""
        from urllib.parse import urlsplit

        url = self._url or simulator_for("") or settings.getenv("TENUTO_SIM_URL")
        if url:
            url = url.rstrip("/").removesuffix("/v1").removesuffix("/v1beta")  # some SDKs need these
            url = url if "://" in url else f"http://{url}"
        else:
            if self._simulator is None or self._pid != os.getpid():  # a forked process has no threads of its parent
                import asyncio

                await asyncio.to_thread(self._start)
            if self._simulator is None:  # closed while it started
                raise ClosedError("the client is closed")
            url = self._simulator.base_url
        if urlsplit(url).hostname in settings.LOCAL_HOSTS:
            _simulator_hosts[id(self)] = _host(url)
        return url

    async def close(self) -> None:
        """Stop the simulator, if it was started here."""
        self._is_closed = True
        _simulator_hosts.pop(id(self), None)
        if self._simulator is not None or self._lock.locked():  # locked: it starts in another thread
            import asyncio

            await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        with self._lock:
            simulator, self._simulator = self._simulator, None
            if simulator is not None and self._pid == os.getpid():
                simulator.__exit__(None, None, None)

    def _start(self) -> None:
        from pathlib import Path

        from tenuto.sim.script import load
        from tenuto.sim.simulator import Simulator, parse_pace

        with self._lock:
            if self._is_closed:
                raise ClosedError("the client is closed")
            if self._simulator is not None and self._pid == os.getpid():
                return
            path = settings.getenv("TENUTO_SIM_SCRIPT")
            try:
                script = load(Path(path).read_bytes()) if path else ()
            except (OSError, ValueError) as exc:
                reason = exc.strerror if isinstance(exc, OSError) else exc
                raise TenutoError(f"TENUTO_SIM_SCRIPT: cannot load {path}: {reason}") from exc
            try:
                pace = parse_pace(settings.getenv("TENUTO_SIM_PACE"))
            except ValueError as exc:
                raise TenutoError(f"TENUTO_SIM_PACE: {exc}") from exc
            seed = settings.getenv("TENUTO_SIM_SEED") or "tenuto"
            simulator = Simulator(seed, script, pace, greeting=self._greeting)
            simulator.__enter__()
            self._simulator, self._pid = simulator, os.getpid()
