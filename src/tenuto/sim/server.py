"""The simulator on a socket of this machine: reads requests, lets the brain answer, writes the answer as it is told.

A stream is written in handfuls of frames, because each write costs as much as making many frames; with a `pace`, frame
by frame with a pause between them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

from aiohttp import web

from tenuto.sim.brain import LARGEST, Answer, Brain, Call, frames, whole
from tenuto.sim.script import Cut, Drip, Fault, Stall

__all__ = ["HOST", "Server"]

HOST = "127.0.0.1"
_LAST_WORDS = 0.1
"""How long an answer that is under way may take when the server stops."""


class Server:
    """Serves one brain, on the loop in which it was started. Only this machine can reach it."""

    def __init__(self, brain: Brain, *, port: int = 0, pace: float | None = None, burst: int = 16) -> None:
        if burst < 1:
            raise ValueError(f"burst is {burst}: at least one frame goes out at a time")
        if pace is not None and not pace >= 0:
            raise ValueError(f"pace is {pace}: a pause cannot be shorter than none")
        if not 0 <= port < 65536:
            raise ValueError(f"port is {port}: there are those from 0, which is any that is free, to 65535")
        self._brain = brain
        self._wanted = port
        self._pace = pace or None
        self._burst = burst
        self._socket: socket.socket | None = None
        self._runner: web.ServerRunner | None = None
        self._stopping: asyncio.Event | None = None
        self.port = 0

    async def start(self) -> None:
        """Begin to listen. Raise `OSError` if the port is taken."""
        bound = socket.create_server((HOST, self._wanted), backlog=1024)
        self._socket, self._stopping = bound, asyncio.Event()
        self.port = bound.getsockname()[1]
        served = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(served, shutdown_timeout=_LAST_WORDS)
        await self._runner.setup()
        listening = asyncio.ensure_future(web.SockSite(self._runner, bound).start())
        try:
            await asyncio.shield(listening)
        except asyncio.CancelledError:  # half a start cannot be undone: it is ended first
            await listening
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening, and break off what is under way."""
        runner, self._runner = self._runner, None
        if self._stopping is not None:
            self._stopping.set()
        if runner is not None:
            held = [handler.transport for handler in runner.server.connections] if runner.server else []
            await runner.cleanup()
            for transport in held:
                if transport is not None:  # what nobody reads would keep it open
                    transport.abort()
            await asyncio.sleep(0)
        self.leave()

    def leave(self) -> None:
        """Let go of the socket, where the loop that served it is gone."""
        if self._socket is not None:
            self._socket.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        call = Call(
            request.method,
            request.rel_url.raw_path,
            {name.lower(): value for name, value in request.headers.items()},
            dict(request.query),
            *await _body(request),
        )
        answer = self._brain.answer(call)
        if len(answer.pieces) == 1 and isinstance(body := answer.pieces[0], bytes) and not answer.stream:
            return web.Response(status=answer.status, headers=answer.headers, body=body)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        try:
            await self._play(request, response, answer)
        except ConnectionError:  # whoever asked has gone
            _break(request)
        return response

    async def _play(self, request: web.BaseRequest, response: web.StreamResponse, answer: Answer) -> None:
        """Write the pieces, and act the faults out where they stand."""
        begun, drip = False, Drip(bytes=0)
        for piece in _joined(answer.pieces, 1 if self._pace else self._burst):
            if isinstance(piece, Cut):
                _break(request)
                return
            if not begun and (answer.stream or isinstance(piece, bytes)):
                await response.prepare(request)
                begun = True
            if isinstance(piece, Stall):
                await self._silence(piece.seconds)
            elif isinstance(piece, Drip):
                drip = piece
            elif drip.bytes > 0:
                await _dripped(response, piece, drip)
            else:
                await response.write(piece)
                if self._pace:
                    await asyncio.sleep(self._pace)

    async def _silence(self, seconds: float | None) -> None:
        """Wait so long; without a number, until the client goes or the server stops."""
        assert self._stopping is not None
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise ConnectionResetError("the server stops")


async def _body(request: web.BaseRequest) -> tuple[bytes | None, str]:
    """Read the body, None if it is too large; and what is wrong with it, if it cannot be read."""
    if (request.content_length or 0) > LARGEST:
        return None, ""
    if request.headers.get("expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.content.iter_any():
            size += len(part)
            if size > LARGEST:
                return None, ""
            parts.append(part)
    except web.RequestPayloadError:
        request.content.feed_eof()  # nothing more of it is looked at
        return b"", "it is not encoded as its head says"
    return b"".join(parts), ""


def _joined(pieces: list[bytes | Fault], burst: int) -> Iterator[bytes | Fault]:
    """Join neighbouring frames, so many at a time."""
    begin = 0
    for at, piece in [(len(pieces), None)] if whole(pieces) else enumerate([*pieces, None]):
        if not isinstance(piece, bytes):
            for start in range(begin, at, burst):
                yield b"".join(frames(pieces[start : min(start + burst, at)]))
            begin = at + 1
            if piece is not None:
                yield piece


async def _dripped(response: web.StreamResponse, piece: bytes, drip: Drip) -> None:
    for at in range(0, len(piece), drip.bytes):
        await response.write(piece[at : at + drip.bytes])
        await asyncio.sleep(drip.seconds)


def _break(request: web.BaseRequest) -> None:
    """Close the line without the end that the answer wants; what was written before still arrives."""
    if request.transport is not None:
        request.transport.close()
