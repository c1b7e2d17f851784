"""The simulator on a loopback socket: read requests, ask the engine, write the response with its faults.

A stream is written several frames at a time, because each write costs as much as making many frames; with a `pace`, frame
by frame with a pause after each.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

from aiohttp import web

from tenuto.sim.engine import MAX_BODY, RawRequest, RawResponse, SimEngine, has_no_faults, without_faults
from tenuto.sim.script import Disconnect, Fault, SlowStream, Stall

HOST = "127.0.0.1"
_ACCEPT_STEPS = 3
"""Iterations of the loop from an accepted connection to its transport."""
_SHUTDOWN_TIMEOUT = 0.1
"""Seconds that a response in progress gets when the server stops."""


class Server:
    """Serve one engine on the loop in which it was started."""

    def __init__(self, engine: SimEngine, *, port: int = 0, pace: float | None = None, burst: int = 16) -> None:
        if burst < 1:
            raise ValueError(f"burst must be at least 1, not {burst}")
        if pace is not None and not pace >= 0:
            raise ValueError(f"pace must not be negative, not {pace}")
        if not 0 <= port < 65536:
            raise ValueError(f"port must be between 0 (any free port) and 65535, not {port}")
        self._engine = engine
        self._requested_port = port
        self._pace = pace or None
        self._burst = burst
        self._socket: socket.socket | None = None
        self._runner: web.ServerRunner | None = None
        self._stopping: asyncio.Event | None = None
        self.port = 0

    async def start(self) -> None:
        """Start to listen. Raise `OSError` if the port is in use."""
        bound = socket.create_server((HOST, self._requested_port), backlog=1024)
        self._socket, self._stopping = bound, asyncio.Event()
        self.port = bound.getsockname()[1]
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_TIMEOUT)
        await self._runner.setup()
        starting = asyncio.ensure_future(web.SockSite(self._runner, bound).start())
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:  # a start cannot be undone halfway: finish it, then stop
            await starting
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop to listen and abort responses in progress."""
        runner, self._runner = self._runner, None
        if self._stopping is not None:
            self._stopping.set()
        if runner is not None and (server := runner.server) is not None:
            await self._stop_accepting()
            transports = [handler.transport for handler in server.connections]
            await runner.cleanup()
            for transport in transports:
                if transport is not None:  # unread data would keep it open
                    transport.abort()
            await asyncio.sleep(0)
        self.close_socket()

    async def _stop_accepting(self) -> None:
        """Accept no connection any more, and wait for those that asyncio accepts: closing the server loses them."""
        if self._socket is not None:
            with contextlib.suppress(NotImplementedError):  # the proactor loop of Windows
                asyncio.get_running_loop().remove_reader(self._socket)
        for _ in range(_ACCEPT_STEPS):
            await asyncio.sleep(0)

    def close_socket(self) -> None:
        """Close the socket if the loop that served it no longer exists."""
        if self._socket is not None:
            self._socket.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await _read_body(request)
        raw = RawRequest(request.method, request.rel_url.raw_path, headers, dict(request.query), *body)
        answer = self._engine.answer(raw)
        if len(answer.pieces) == 1 and isinstance(content := answer.pieces[0], bytes) and not answer.stream:
            return web.Response(status=answer.status, headers=answer.headers, body=content)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        try:
            await self._write(request, response, answer)
        except ConnectionError:  # the client disconnected
            _disconnect(request)
        return response

    async def _write(self, request: web.BaseRequest, response: web.StreamResponse, answer: RawResponse) -> None:
        has_started, slow = False, SlowStream(bytes=0)
        for piece in _join(answer.pieces, 1 if self._pace else self._burst):
            if isinstance(piece, Disconnect):
                _disconnect(request)
                return
            if not has_started and (answer.stream or isinstance(piece, bytes)):
                await response.prepare(request)
                has_started = True
            if isinstance(piece, Stall):
                await self._stall(piece.seconds)
            elif isinstance(piece, SlowStream):
                slow = piece
            elif slow.bytes > 0:
                for start in range(0, len(piece), slow.bytes):
                    await response.write(piece[start : start + slow.bytes])
                    await asyncio.sleep(slow.seconds)
            else:
                await response.write(piece)
                if self._pace:
                    await asyncio.sleep(self._pace)

    async def _stall(self, seconds: float | None) -> None:
        """Wait; without a number, until the client disconnects or the server stops."""
        assert self._stopping is not None
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise ConnectionResetError("the server stops")


async def _read_body(request: web.BaseRequest) -> tuple[bytes | None, str]:
    """Return the body, None if it is too large; and the reason if it cannot be read."""
    if (request.content_length or 0) > MAX_BODY:
        return None, ""
    if request.headers.get("expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.content.iter_any():
            size += len(part)
            if size > MAX_BODY:
                return None, ""
            parts.append(part)
    except web.RequestPayloadError:
        request.content.feed_eof()  # the rest is not read
        return b"", "it is not encoded as its headers say"
    return b"".join(parts), ""


def _join(pieces: list[bytes | Fault], burst: int) -> Iterator[bytes | Fault]:
    start = 0
    for index, piece in [(len(pieces), None)] if has_no_faults(pieces) else enumerate([*pieces, None]):
        if not isinstance(piece, bytes):
            for first in range(start, index, burst):
                yield b"".join(without_faults(pieces[first : min(first + burst, index)]))
            start = index + 1
            if piece is not None:
                yield piece


def _disconnect(request: web.BaseRequest) -> None:
    """Close the connection before the response is complete; what was written before still arrives."""
    if request.transport is not None:
        request.transport.close()
