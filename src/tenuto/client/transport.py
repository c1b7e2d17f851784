"""The transport over the network. Only this module imports aiohttp.

It adds nothing to a request: no redirects, no cookies, no passwords from files, no compression.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import ssl
import weakref
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.helpers import is_ip_address
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from tenuto import settings
from tenuto.client.http import HttpRequest
from tenuto.client.routing import check_network
from tenuto.errors import ConnectionFailed, FetchRefused, LLMError, ProtocolError, TimedOut

_SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_MAX_BYTES_BODY = 1 << 20  # a larger body is passed to aiohttp as a file: aiohttp warns about large bytes

_TRANSPORTS: weakref.WeakSet[AiohttpTransport] = weakref.WeakSet()
_INHERITED: list[object] = []
"""Sessions of the parent of a forked process. They must not be closed here, so they must not be collected."""


def _abandon_inherited() -> None:
    """In a forked process: leave the connections to the parent, which shares them, and its loop."""
    for transport in tuple(_TRANSPORTS):
        _INHERITED.append(transport.session)
        transport.session = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_inherited)


class AiohttpTransport:
    """Sends requests through one pool of connections. The first request opens the pool; it belongs to its loop.

    With a `guard`, only IP addresses for which it returns true are connected to: a name is resolved once, and the
    connection goes to the address that was checked. Then no proxy is used, because a proxy resolves names itself.
    """

    def __init__(self, *, guard: Callable[[str], bool] | None = None) -> None:
        self._guard = guard
        self._loop: asyncio.AbstractEventLoop | None = None
        self._proxies: dict[str, str | None] = {}
        self.session: aiohttp.ClientSession | None = None

    async def send(self, request: HttpRequest) -> _Reply:
        """Send a request and wait for the head of the response. Raise `NetworkForbidden` before a connection is opened."""
        check_network(request.url)
        session = self.session
        if session is None or self._loop is not asyncio.get_running_loop():
            session = await self._open_session()
        proxy = None
        if self._guard is None:
            origin = "/".join(request.url.split("/", 3)[:3])
            if origin not in self._proxies:
                self._proxies[origin] = settings.proxy(request.url)
            proxy = self._proxies[origin]
        else:
            host = URL(request.url).raw_host or ""  # as the connector reads it: yarl normalizes other digits and dots
            if is_ip_address(host) and not self._guard(host):  # aiohttp does not resolve it
                raise FetchRefused(f"{host} is not a public address: it is not fetched")
        body = io.BytesIO(request.body) if len(request.body) > _MAX_BYTES_BODY else request.body or None
        try:
            response = await session.request(
                request.method,
                request.url,
                data=body,
                headers=request.headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=request.connect_timeout),
                proxy=proxy,
            )
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            error = _translate_error(exc, request)
            # the message of aiohttp's ClientResponseError has the headers of the request, and so the key
            error.__cause__ = None if isinstance(exc, aiohttp.ClientResponseError) else exc
        else:
            return _Reply(response)
        raise error

    async def close(self) -> None:
        """Close all connections. The transport may be used again."""
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    async def _open_session(self) -> aiohttp.ClientSession:
        """Open a pool for the running loop, in place of that of another loop."""
        if self.session is not None:
            if self._loop is not None and not self._loop.is_closed():
                self.session.detach()  # its loop runs in another thread: its connections cannot be closed from here
            await self.close()
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=_GuardedResolver(self._guard) if self._guard else None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_SKIPPED_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._loop = asyncio.get_running_loop()
        _TRANSPORTS.add(self)
        return self.session


class _Reply:
    """A response of aiohttp. It has no connection if the whole body arrived with the head."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self._loop = asyncio.get_running_loop()
        self._error: ConnectionFailed | None = None
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        protocol = response.connection.protocol if response.connection is not None else None
        self._connection_closed = protocol.closed if protocol is not None else None
        if self._connection_closed is not None:
            # keep one callback that ignores errors of the idle connection: it serves many responses
            self._connection_closed.remove_done_callback(_ignore_error)
            self._connection_closed.add_done_callback(_ignore_error)
            self._connection_closed.add_done_callback(self._on_connection_closed)

    async def read(self) -> bytes:
        if self._error is not None:
            raise self._error
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError, ConnectionFailed) as exc:
            self._error = ConnectionFailed(f"connection lost: {_reason(exc)}")
            self._error.__cause__ = exc
        if rest := self._take_buffer():
            return rest
        raise self._error

    def close(self) -> None:
        if self._connection_closed is not None:
            self._connection_closed.remove_done_callback(self._on_connection_closed)
        if not self._loop.is_closed():  # otherwise the connection is closed, too
            self._response.close()

    def _take_buffer(self) -> bytes:
        """Return the bytes that arrived before the connection broke. aiohttp has no public way to them."""
        buffer = getattr(self._content, "_buffer", ())
        rest = b"".join(buffer)[getattr(self._content, "_buffer_offset", 0) :]
        if buffer:
            buffer.clear()
        return rest

    def _on_connection_closed(self, _: asyncio.Future[None]) -> None:
        """End a read that waits: after invalid chunks, aiohttp closes the connection and does not tell the reader."""
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(ConnectionFailed("closed in the middle of the response"))


def _ignore_error(connection_closed: asyncio.Future[None]) -> None:
    if not connection_closed.cancelled():
        connection_closed.exception()


class _GuardedResolver(AbstractResolver):
    """Resolve a name, and refuse it if one of its addresses is not allowed."""

    def __init__(self, guard: Callable[[str], bool]) -> None:
        self._guard = guard
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            if not self._guard(result["host"]):
                raise FetchRefused(f"{host} has the address {result['host']}, which is not public: it is not fetched")
        return results

    async def close(self) -> None:
        await self._resolver.close()


def _translate_error(exc: Exception, request: HttpRequest) -> LLMError:
    """Return the error of a request without a response. Its message has the host and no header."""
    host = request.url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if isinstance(exc, TimeoutError):
        seconds = request.connect_timeout
        return TimedOut(f"could not connect to {host}" + (f" within {seconds:g} s" if seconds else " in time"))
    if isinstance(getattr(exc, "os_error", exc), ConnectionRefusedError):
        refused = ConnectionFailed(f"cannot connect to {host} (connection refused)")
        refused.refused_locally = urlsplit(request.url).hostname in settings.LOCAL_HOSTS
        return refused
    if isinstance(exc, aiohttp.ClientConnectionError | OSError):
        return ConnectionFailed(f"no response from {host}: {_reason(exc)}")
    if isinstance(exc, aiohttp.ClientResponseError):
        return ProtocolError(f"the response of {host} is not HTTP: {exc.message}")
    return ConnectionFailed(f"cannot send a request to {host}: {_reason(exc)}", retryable=False)


def _reason(exc: BaseException) -> str:
    if isinstance(exc, aiohttp.ClientPayloadError):  # its text has the error of the parser
        return "closed in the middle of the response"
    error = getattr(exc, "os_error", None) or exc
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)  # asyncio has the address in its place
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
