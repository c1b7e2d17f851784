"""The network, by aiohttp; nothing else in the package imports it.

One pool of lines serves a client. Nothing is followed, kept or unpacked that was not asked for: no redirects, no
cookies, no passwords from files, no compressed bodies.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.helpers import is_ip_address
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from tenuto import settings
from tenuto.client.http import HttpRequest
from tenuto.errors import ConnectionFailed, FetchRefused, LLMError, ProtocolError, TimedOut

__all__ = ["AiohttpTransport"]

_NO_AUTO = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


_LIVE: weakref.WeakSet[AiohttpTransport] = weakref.WeakSet()
_LEFT: list[object] = []
"""What must not be closed here, and so must not be collected."""


_HEARD: weakref.WeakSet[asyncio.Future[None]] = weakref.WeakSet()
"""The ends of lines that somebody listens for."""


def _ignore_idle_error(line: asyncio.Future[None]) -> None:
    """A line that nobody uses may break in whichever way it likes: that is no news."""
    if not line.cancelled():
        line.exception()


def _forked() -> None:
    for transport in tuple(_LIVE):
        transport.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


_WHOLE = 1 << 20
"""A body with more bytes than this is handed to aiohttp as a file, to be sent piece by piece: it warns of others."""


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    return io.BytesIO(body) if len(body) > _WHOLE else body or None


class AiohttpTransport:
    """Sends requests through one pool of lines. The pool is opened by the first request, and belongs to its loop.

    With a `guard`, only addresses for which it says yes are connected to: a name is looked up once, and the line goes
    to the address that was checked. Proxies are not used then, because they look up names themselves.
    """

    def __init__(self, *, guard: Callable[[str], bool] | None = None) -> None:
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._proxies: dict[str, str | None] = {}

    async def send(self, request: HttpRequest) -> _Reply:
        """Send a request and wait for the head of the answer."""
        session = self._session
        if session is None or self._loop is not asyncio.get_running_loop():
            session = await self._opened()
        if self._guard is not None:
            _check_literal(request.url, self._guard)
        try:
            response = await session.request(
                request.method,
                request.url,
                data=_payload(request.body),
                headers=request.headers,
                allow_redirects=False,
                timeout=_connecting(request.connect_timeout),
                proxy=self._proxy(request.url),
            )
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            error = _failure(exc, request.url)
            # aiohttp's error for an answer that is no HTTP shows the request's headers, and so the key
            error.__cause__ = None if isinstance(exc, aiohttp.ClientResponseError) else exc
        else:
            return _Reply(response)
        raise error

    async def close(self) -> None:
        """Close every line. The transport may be used again afterwards."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _opened(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is not None and self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                self._session.detach()  # its loop runs in another thread: its lines cannot be closed from here
            await self.close()
        if self._session is None:
            resolver = _GuardedResolver(self._guard) if self._guard is not None else None
            connector = aiohttp.TCPConnector(limit=0, resolver=resolver)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_NO_AUTO,
                timeout=aiohttp.ClientTimeout(total=None),
            )
            self._loop = loop
            _LIVE.add(self)
        return self._session

    def leave(self) -> None:
        """Let the lines be, in a process that was forked off: they are the parent's, and so is what wakes its loop."""
        _LEFT.append(self._session)
        self._session = None

    def _proxy(self, url: str) -> str | None:
        if self._guard is not None:
            return None
        origin = url[: url.find("/", 8)] if url.find("/", 8) > 0 else url
        if origin not in self._proxies:
            self._proxies[origin] = settings.proxy(url)
        return self._proxies[origin]


class _Reply:
    """A response of aiohttp's. It has no connection if the whole body arrived with the head."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        content, connection = response.content, response.connection
        self._content = content
        self._cut: Callable[[], None] | None = response.close if connection is not None else None
        self._loop = asyncio.get_running_loop()
        # aiohttp does not tell whoever reads a body of every way in which its line can end
        protocol = connection.protocol if connection is not None else None
        self._line: asyncio.Future[None] | None = getattr(protocol, "closed", None)
        if self._line is not None:
            if self._line not in _HEARD:  # a line serves many answers, and may break behind the last of them
                _HEARD.add(self._line)
                self._line.add_done_callback(_ignore_idle_error)
            self._line.add_done_callback(self._lost)
        self._error: ConnectionFailed | None = None
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    async def read(self) -> bytes:
        if self._error is not None:
            raise self._error
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError, ConnectionFailed) as exc:
            self._error = error = ConnectionFailed(f"the line broke: {_reason(exc)}")
            error.__cause__ = exc
        left = self._left()
        if left:
            return left
        raise self._error

    def _left(self) -> bytes:
        """Return the bytes that arrived before the connection broke: aiohttp raises first and has no public way to them."""
        buffer = getattr(self._content, "_buffer", ())
        left = b"".join(buffer)[getattr(self._content, "_buffer_offset", 0) :]
        if buffer:
            buffer.clear()
        return left

    def abort(self, error: BaseException) -> None:
        self._content.set_exception(error)

    def close(self) -> None:
        cut, self._cut = self._cut, None
        if cut is None:
            return
        if self._line is not None:
            self._line.remove_done_callback(self._lost)
        if self._loop.is_closed():
            return  # its lines went with it
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        cut()

    def _lost(self, _line: asyncio.Future[None]) -> None:
        content = self._content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(ConnectionFailed("it was closed in the middle of the answer"))


class _GuardedResolver(AbstractResolver):
    """Looks a name up and hands out only addresses that may be connected to."""

    def __init__(self, guard: Callable[[str], bool]) -> None:
        self._guard = guard
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        refused = [entry["host"] for entry in found if not self._guard(entry["host"])]
        if refused:
            raise FetchRefused(f"{host} is at {refused[0]}, which is no public address: it is not fetched")
        return found

    async def close(self) -> None:
        await self._resolver.close()


def _check_literal(url: str, guard: Callable[[str], bool]) -> None:
    """An address that is written out is not looked up, so the resolver never sees it."""
    host = URL(url).raw_host or ""  # as the connector will read it: other spellings of digits and dots are mapped
    if is_ip_address(host) and not guard(host):
        raise FetchRefused(f"{host} is no public address: it is not fetched")


@lru_cache(maxsize=16)
def _connecting(seconds: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=seconds)  # with looking up the name, and shaking hands


def _failure(exc: Exception, url: str) -> LLMError:
    """Say which way the line failed; the text names the host and never a header."""
    place = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if isinstance(exc, TimeoutError):
        return TimedOut(f"no line to {place} was opened in time")
    if isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ClientConnectionError | OSError):
        return ConnectionFailed(f"no answer from {place}: {_reason(exc)}")
    if isinstance(exc, aiohttp.ClientResponseError):
        return ProtocolError(f"{place} does not answer in HTTP: {exc.message}")
    error = ConnectionFailed(f"no request can be sent to {place}: {_reason(exc)}")
    error.retryable = False
    return error


def _reason(exc: Any) -> str:
    told = getattr(exc, "os_error", None) or exc
    return str(told) or type(exc).__name__
