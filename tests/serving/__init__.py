"""An HTTP server for tests: it writes exact bytes to a real socket and closes or resets connections.

    with Server(reply(b"{}"), [stream_head(), RESET]) as server:
        ...  # requests to server.url are answered in order; the last answer is repeated
        server.requests[0].body

An answer is a list of acts, or a function from the request to one. An act is bytes to send, or one of those below. The
server runs in its own loop and thread (`with`) or in the current loop (`async with`). Only `Drip` sleeps; tests wait for
futures (`Gate.reached`, `Request.gone`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "CLOSE",
    "HALF_CLOSE",
    "RESET",
    "Act",
    "Answer",
    "Drip",
    "Gate",
    "Request",
    "Server",
    "chunk",
    "chunked",
    "reply",
    "stream_head",
    "streamed",
    "unused_port",
]

PATIENCE = 10.0
"""Seconds to wait for an expected event before the test fails."""


# --- acts -------------------------------------------------------------------------------------------------------------


class Break:
    """A way to end a connection."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


CLOSE = Break("CLOSE")
"""Send all data, then close the connection."""
HALF_CLOSE = Break("HALF_CLOSE")
"""Close the sending side only."""
RESET = Break("RESET")
"""Reset the connection, which the other side sees as an error."""


@dataclass(frozen=True)
class Drip:
    """Send `data` every `pause` seconds until the other side closes the connection."""

    data: bytes
    pause: float = 0.01


class Gate:
    """A point where the server waits until the gate is opened; `reached` is done when it waits.

    Several answers may wait at the same gate.
    """

    def __init__(self) -> None:
        self.reached: Future[None] = Future()
        self._opened: Future[None] = Future()

    def open(self) -> None:
        """Let the server continue."""
        self._opened.set_result(None)

    async def pass_through(self) -> None:
        """Wait until the gate is open."""
        if not self.reached.done():
            self.reached.set_result(None)
        loop = asyncio.get_running_loop()
        opened = asyncio.Event()

        def tell(_: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(opened.set)

        self._opened.add_done_callback(tell)  # not `wrap_future`: cancelling one waiter would cancel all
        await opened.wait()


@dataclass
class Request:
    """A received request. `gone` is done when its connection is closed by either side.

    Data that is not HTTP has an empty `method`.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    line: int
    gone: Future[None] = field(default_factory=Future)

    def json(self) -> Any:
        """Return the JSON value of the body."""
        return json.loads(self.body)

    async def left(self) -> None:
        """Wait until the connection is closed."""
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self.gone)), PATIENCE)


Act: TypeAlias = bytes | Break | Drip | Gate
Answer: TypeAlias = bytes | Iterable[Act] | Callable[[Request], "bytes | Iterable[Act]"]


# --- the server -------------------------------------------------------------------------------------------------------


class Server:
    """Answer the requests in order with the answers of `script`; the last one is repeated."""

    def __init__(self, *script: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.lines = 0
        self.port = 0
        self._count = 0
        self._waiting: list[Future[Request]] = []
        self._tls = tls
        self._open: set[_Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._listening: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The URL of the server, without a slash at the end."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> Iterator[Act]:
        """Return the answer to a request."""
        answer = self.script[min(self._count, len(self.script) - 1)]
        self._count += 1
        self.requests.append(request)
        while self._waiting:
            self._waiting.pop().set_result(request)
        acts = answer(request) if callable(answer) else answer
        return iter((acts,) if isinstance(acts, bytes) else acts)

    async def next_request(self) -> Request:
        """Wait for the next request, which must not have been sent yet."""
        waiting: Future[Request] = Future()
        self._waiting.append(waiting)
        return await asyncio.wrap_future(waiting)

    def __enter__(self) -> Server:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="serving", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.__aenter__(), self._loop).result(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._thread is not None
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, ssl=self._tls, backlog=512, start_serving=True
        )
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listening is not None
        self._listening.close()
        ends = [line.end() for line in tuple(self._open)]
        await asyncio.gather(*ends)


class _Connection(asyncio.Protocol):
    """One connection: read its requests in order and answer them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.received = bytearray()
        self.open_requests: list[Request] = []
        self.task: asyncio.Task[None] | None = None
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.gone = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.lines += 1
        self.number = self.server.lines
        self.server._open.add(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._next()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def eof_received(self) -> bool:
        self._notify()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._notify()
        if self.task is not None:
            self.task.cancel()
        self.server._open.discard(self)
        self.may_write.set()
        self.gone.set_result(None)

    async def end(self) -> None:
        """Abort the connection during an answer."""
        self.transport.abort()
        await self.gone
        if self.task is not None:
            await asyncio.wait([self.task])

    def _notify(self) -> None:
        for request in self.open_requests:
            if not request.gone.done():
                request.gone.set_result(None)

    def _next(self) -> None:
        while self.task is None and not self.transport.is_closing() and (request := self._read()):
            self.open_requests = [*(old for old in self.open_requests if not old.gone.done()), request]
            acts = self.server.answer(request)
            for act in acts:
                if self.transport.is_closing():
                    return
                if isinstance(act, Gate | Drip) or not self.may_write.is_set():
                    self.task = asyncio.get_running_loop().create_task(self._play(act, acts))
                    break
                self._do(act)

    def _read(self) -> Request | None:
        if self.received and not self.received[:1].isalpha():
            data = bytes(self.received)
            self.received.clear()
            return Request("", "", {}, data, self.number)
        head, found, rest = bytes(self.received).partition(b"\r\n\r\n")
        if not found:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        assert "transfer-encoding" not in headers, "a request in chunks is not expected"
        if len(rest) < length:
            return None
        del self.received[: len(head) + 4 + length]
        method, path, _ = first.split(" ", 2)
        return Request(method, path, headers, rest[:length], self.number)

    async def _play(self, first: Act, rest: Iterator[Act]) -> None:
        await self._wait(first)
        for act in rest:
            if self.transport.is_closing():
                return
            await self._wait(act)
        self.task = None
        self._next()

    async def _wait(self, act: Act) -> None:
        await self.may_write.wait()
        match act:
            case Gate():
                await act.pass_through()
            case Drip(data, pause):
                while True:
                    self._do(data)
                    await asyncio.sleep(pause)
            case _:
                self._do(act)

    def _do(self, act: Act) -> None:
        if isinstance(act, bytes):
            self.transport.write(act)
        elif act is CLOSE:
            self.transport.close()
        elif act is HALF_CLOSE:
            self.transport.write_eof()
        elif act is RESET:
            wire = self.transport.get_extra_info("socket")
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


# --- responses --------------------------------------------------------------------------------------------------------


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def reply(body: bytes = b"", status: int = 200, **headers: str) -> bytes:
    """Return a response with a content length. Underscores in names of headers become hyphens; an empty value omits a
    header.
    """
    all_headers = {"content-type": "application/json", "content-length": str(len(body))}
    all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    return _head(status, {name: value for name, value in all_headers.items() if value}) + body


def stream_head(framing: str = "chunked", **headers: str) -> bytes:
    """Return the head of a stream with `chunked` encoding, or until the connection is closed (`close`)."""
    all_headers = {"content-type": "text/event-stream"}
    all_headers |= {"transfer-encoding": "chunked"} if framing == "chunked" else {"connection": "close"}
    return _head(200, all_headers | {name.replace("_", "-"): value for name, value in headers.items()})


def chunk(data: bytes) -> bytes:
    """Encode one chunk; without bytes, the last chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(events: Iterable[bytes]) -> bytes:
    """Encode each event as a chunk, followed by the last chunk."""
    return b"".join(map(chunk, (*events, b"")))


def streamed(events: Iterable[bytes], framing: str = "chunked", **headers: str) -> list[Act]:
    """Return the acts of a complete stream."""
    if framing == "chunked":
        return [stream_head(framing, **headers) + chunked(events)]
    return [stream_head(framing, **headers) + b"".join(events), CLOSE]


def unused_port() -> int:
    """Return a port without a server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
