"""What a transport is: it sends one HTTP request and hands out the bytes of the answer.

The client knows nothing else of the network, so a transport can be replaced: by a script in tests, by a recorder, by
another HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

__all__ = ["HttpReply", "HttpRequest", "Transport"]

_SECRET = ("auth", "key", "token", "secret", "cookie", "credential", "password")
_MARKS = str.maketrans(dict.fromkeys(';,="', " "))
"""What stands between the pieces of a header, besides space."""
_SHORTEST = 8
"""How long a secret is at least: shorter ones would be found in any text."""


class Secret(str):
    """A string whose `repr` is covered: error reporters show the `repr` of local variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@lru_cache(maxsize=256)
def _is_secret(name: str) -> bool:
    small = name.casefold()
    return any(word in small for word in _SECRET)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with their secrets covered, to be shown."""
    return {name: "***" if _is_secret(name) else value for name, value in headers.items()}


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what stands in the headers and must be shown to nobody, whoever quotes it."""
    held = [piece for name, value in headers.items() if _is_secret(name) for piece in value.translate(_MARKS).split()]
    if not held:
        return ()
    return tuple(sorted({Secret(piece) for piece in held if len(piece) >= _SHORTEST}, key=len, reverse=True))


def with_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with a covered `repr` of their secrets."""
    return {name: Secret(value) if _is_secret(name) else value for name, value in headers.items()}


def safe_url(url: str) -> str:
    """Show an address without the password and the query it may hold."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


class HttpRequest(msgspec.Struct, frozen=True):
    """One request as it goes out, key and all. Its `repr` shows neither key nor query nor body."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""
    connect_timeout: float | None = None

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("url", safe_url(self.url)), ("headers", mask_headers(self.headers))]

    def __repr__(self) -> str:
        return f"HttpRequest({self.method} {safe_url(self.url)}, headers={mask_headers(self.headers)!r}, {len(self.body)} bytes)"


class HttpReply(Protocol):
    """An answer that is being read. `headers` have lower-case names."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case."""

    async def read(self) -> bytes:
        """Return the next bytes, as they come; empty at the end.

        Raise `ConnectionFailed` if the line breaks, and whatever `abort` was given.
        """

    def abort(self, error: BaseException) -> None:
        """Break the line: a `read` that waits, and every later one, raises `error`."""

    def close(self) -> None:
        """Let the line go: it is kept for the next request if the answer was read to its end, and cut off if not."""


class Transport(Protocol):
    """Sends requests. One transport serves many requests at once."""

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request and wait for the head of the answer. No redirect is followed.

        Raise `ConnectionFailed` if the line cannot be opened or breaks, `TimedOut` if it does not open in time.
        """

    async def close(self) -> None:
        """Close every line."""
