"""What the doctor finds on the network: whether providers answer, and take the key. One list of models is asked for."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator

from tenuto.cli.checking import Finding
from tenuto.cli.configuring import own_providers
from tenuto.cli.having import with_key
from tenuto.cli.keyring import kept_keys
from tenuto.client.client import AsyncClient
from tenuto.errors import (
    AuthenticationFailed,
    LLMError,
    RateLimited,
    TenutoError,
    TimedOut,
    Unavailable,
    UnsupportedModel,
)

__all__ = ["online_findings"]

_PATIENCE = 15.0


def online_findings() -> Iterator[Finding]:
    """Ask every provider for which there is a key, all at once."""
    names = list(with_key())
    if not names:
        yield Finding("online", "note", "nobody is asked: there is no key")
        return
    yield from asyncio.run(_all(names))


async def _all(names: list[str]) -> list[Finding]:
    async with AsyncClient(keys=kept_keys(), providers=own_providers(), middleware=()) as client:
        return list(await asyncio.gather(*(_asked(client, name) for name in names)))


async def _asked(client: AsyncClient, name: str) -> Finding:
    try:
        listed = await client.models(name, timeout=_PATIENCE)
    except UnsupportedModel:
        return Finding(name, "note", "it has no list to ask for, so it was not asked")
    except TenutoError as exc:
        return _failed(name, exc)
    return Finding(name, "ok", f"answers, and takes the key; {len(listed)} models")


def _failed(name: str, exc: TenutoError) -> Finding:
    told = exc.message if isinstance(exc, LLMError) else str(exc)
    if isinstance(exc, AuthenticationFailed):
        code = f" ({exc.status})" if exc.status else ""
        return Finding(name, "problem", f"it refuses the key{code}: {told}", "look at the key, or make another")
    if isinstance(exc, RateLimited | Unavailable):
        return Finding(name, "warning", f"it answers, and is busy: {told}", "try again later")
    if isinstance(exc, TimedOut):
        return Finding(name, "problem", told, "look at the connection, and at the proxy if there is one")
    causes = list(_causes(exc))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        todo = "look at the clock, at the certificates (SSL_CERT_FILE), and at who stands between"
        return Finding(name, "problem", f"TLS: {told}", todo)
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return Finding(
            name, "problem", f"DNS: {told}", "look at the connection, and at the address if you have set one"
        )
    return Finding(name, "problem", told, "look at the connection, and at the address if you have set one")


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it came from; some libraries keep them in fields of their own."""
    left: list[object] = [exc]
    seen: set[int] = set()
    while left:
        one = left.pop()
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            fields = ("__cause__", "__context__", "os_error", "certificate_error")
            left += [getattr(one, field, None) for field in fields]
