"""The interface of a transport, which sends one HTTP request and returns the response.

The client uses the network only through this interface, so a transport can be replaced: by a script in tests, by a
recorder, by another HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec

_SECRET_WORDS = ("auth", "key", "token", "secret", "cookie", "credential", "password")


class Secret(str):
    """A string with a masked `repr`: error reporters show the `repr` of local variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@lru_cache(maxsize=256)
def is_secret(name: str) -> bool:
    lowered = name.casefold()
    return any(word in lowered for word in _SECRET_WORDS)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with their secrets replaced by `***`."""
    return {name: "***" if is_secret(name) else value for name, value in headers.items()}


def safe_url(url: str) -> str:
    """Return a URL without password, query and fragment."""
    from urllib.parse import urlsplit  # `Client()` does not load it

    try:
        parts = urlsplit(url)
    except ValueError:
        return "(invalid URL)"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class HttpRequest(msgspec.Struct, frozen=True):
    """An HTTP request with its key. Its `repr` shows neither key nor query nor body."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""
    connect_timeout: float | None = None
    """The seconds to wait for a connection; None: no limit."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("url", safe_url(self.url)), ("headers", mask_headers(self.headers))]

    def __repr__(self) -> str:
        headers = mask_headers(self.headers)
        return f"HttpRequest({self.method} {safe_url(self.url)}, headers={headers!r}, {len(self.body)} bytes)"


class HttpReply(Protocol):
    """A response whose body is still to be read."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case."""

    async def read(self) -> bytes:
        """Return the next bytes as soon as some arrive; empty at the end.

        Raise `ConnectionFailed` if the connection breaks. A call may be cancelled; no other call follows then.
        """

    def close(self) -> None:
        """Release the connection: for the next request if the body was read to its end, otherwise close it."""


class Transport(Protocol):
    """Sends requests, several at the same time."""

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request and wait for the head of the response. Do not follow redirects.

        Raise `ConnectionFailed` if there is no connection or it breaks, `TimedOut` if it is not opened in time.
        """

    async def close(self) -> None:
        """Close all connections."""
