"""The address of a row, and whether its keys may go there; what a key may be.

Nobody needs it before something is asked: `Door` loads it then.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from functools import cache
from urllib.parse import urlsplit

from tenuto import settings
from tenuto.catalog import find_provider, is_known_provider
from tenuto.client.http import safe_url
from tenuto.core.provider import Dialect, Provider
from tenuto.errors import LLMError, MissingKey, TenutoError

__all__ = ["address", "called", "clean", "has_gaps", "host", "joined", "missing"]

_WORD = r"\{(\w+)\}"  # compiled when an address has a brace


# --- addresses --------------------------------------------------------------------------------------------------------


def address(row: Provider, dialect: Dialect, *, placed: bool) -> tuple[str, bool]:
    """Return the address, and whether it is one to which the row's keys from the environment may go.

    `placed`: whoever made the client said where it is. Raise `TenutoError` for an address with a gap.
    """
    written = row.base_urls.get(dialect, row.base_url)
    if placed and _origin(written) not in _known(row):
        return _filled(row, written), False
    named = settings.first_set(row.base_url_env) if not placed and dialect not in row.base_urls else ""
    return _filled(row, _completed(named, row) if named else written), True


def has_gaps(written: str) -> bool:
    """Tell whether an address has words in braces."""
    return "{" in written and re.search(_WORD, written) is not None


def joined(written: str, simulator: str) -> str:
    """Put the address of a simulator where the words in braces are."""
    return re.sub(_WORD, lambda _: simulator, written)


def host(base_url: str) -> str:
    """Return host and port, without the name and password that may stand before them."""
    return urlsplit(base_url).netloc.rpartition("@")[2].lower()


def _known(row: Provider) -> set[str]:
    """Return the origins to which this row's keys from the environment belong."""
    table = find_provider(row.name) if is_known_provider(row.name) else None
    if table is None:  # a row of one's own that names variables names them for its own address
        return {_origin(row.base_url), *map(_origin, row.base_urls.values())}
    addresses = [_filled(table, address, strict=False) for address in (table.base_url, *table.base_urls.values())]
    named = settings.first_set(table.base_url_env)
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
    for word in dict.fromkeys(re.findall(_WORD, address)):
        if held := settings.first_set(row.fill.get(word, ())):
            address = address.replace(f"{{{word}}}", held)
    gaps = dict.fromkeys(re.findall(_WORD, address))
    if gaps and strict:
        variables = [" or ".join(row.fill.get(word, (word.upper(),))) for word in gaps]
        raise TenutoError(
            f"the address of {row.name!r} is {address}: set {' and '.join(variables)}, or pass "
            f"providers={{{row.name!r}: {{'base_url': ...}}}}"
        )
    if strict and not _is_web(address):
        raise TenutoError(f"the address of {row.name!r}, {safe_url(address)!r}, is not one of http:// or https://")
    return address


# --- keys -------------------------------------------------------------------------------------------------------------


def missing(row: Provider, base_url: str, *, bound: bool) -> MissingKey:
    """Say that there is no key, and how one is given. `bound`: those from the environment might go to this address."""
    variables = (*row.key_env, *row.bearer_env)
    held = next((name for name in variables if settings.getenv(name)), "")
    if bound or not held:
        return MissingKey(row.name, variables)
    why = (
        f"the one in {held} belongs to another address than {safe_url(base_url)}; pass keys={{{row.name!r}: ...}} if it "
        "is to go there"
    )
    return MissingKey(row.name, variables, reason=why)


async def called(key: Callable[[], str | Awaitable[str]], name: str) -> str:
    """Return what a function for a key gives, which may be awaited.

    One that does not await may wait all the same: for a token, for a keyring. It must not hold up the loop.
    """
    made = key() if inspect.iscoroutinefunction(key) else await asyncio.to_thread(_given, key, name)
    return await made if inspect.isawaitable(made) else made


def _given(key: Callable[[], str | Awaitable[str]], name: str) -> str | Awaitable[str]:
    try:
        return key()
    except StopIteration as exc:  # no thread can hand that on
        raise LLMError(f"the function for the key of {name!r} has no more keys", provider=name) from exc


def clean(key: str, name: str) -> str:
    """Return a key as it goes out. Raise `LLMError` for one that cannot be a key, `TypeError` for what is no string."""
    if not isinstance(key, str):
        raise TypeError(f"the function for the key of {name!r} gave {type(key).__name__}, not a string")
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise LLMError(f"the key for {name!r} holds characters that no key has; is it the right one?", provider=name)
    return key
