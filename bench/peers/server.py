"""Serve the replies of the benchmark to all libraries, as a separate process so that its CPU is not counted.

    python -m bench.peers.server

It prints its port and exits at the end of its input. A path starts with the shape and the kind of the reply, as in
`/paced/std/v1/messages`: `burst` is one write, `each` one event per write without a pause, `paced` one event per
millisecond, `concurrent` 32 events every 50 ms. A request without streaming gets a complete response of its dialect.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys

from bench.peers.streams import KINDS, MAKERS, WHOLE
from bench.server import HEAD, Connection

PATHS = {
    b"/messages": "anthropic",
    b"/responses": "responses",
    b"/chat/completions": "chat",
    b":streamGenerateContent": "gemini",
    b":generateContent": "gemini",
}
PACES = {"each": (1, 0.0), "paced": (1, 0.001), "concurrent": (32, 0.05)}
"""Events per write, and seconds between writes."""


@functools.cache
def make_chunks(dialect: str, kind: str) -> list[bytes]:
    events = MAKERS[dialect](KINDS[kind]).split(b"\n\n")[:-1]
    return [b"%x\r\n%s\n\n\r\n" % (len(event) + 2, event) for event in events]


@functools.cache
def make_burst(dialect: str, kind: str) -> bytes:
    return HEAD + b"".join(make_chunks(dialect, kind)) + b"0\r\n\r\n"


@functools.cache
def make_response(dialect: str) -> bytes:
    body = json.dumps(WHOLE[dialect]).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


class ReplyConnection(Connection):
    """Respond in the shape given by the path."""

    def respond(self, path: bytes, body: bytes) -> None:
        _, shape, kind, _ = path.decode().split("/", 3)
        dialect = next(name for end, name in PATHS.items() if end in path)
        if b":streamGenerate" not in path and b'"stream":true' not in body.replace(b" ", b""):
            self.transport.write(make_response(dialect))
        elif shape == "burst":
            self.transport.write(make_burst(dialect, kind))
        else:
            self.transport.write(HEAD)
            self.write_paced(make_chunks(dialect, kind), 0, *PACES[shape])

    def write_paced(self, events: list[bytes], at: int, count: int, pause: float) -> None:
        while not self.transport.is_closing():
            self.transport.write(b"".join(events[at : at + count]))
            at += count
            if at >= len(events):
                self.transport.write(b"0\r\n\r\n")
                return
            if pause:
                asyncio.get_running_loop().call_later(pause, self.write_paced, events, at, count, pause)
                return


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(ReplyConnection, "127.0.0.1", 0, backlog=512)
    for dialect in MAKERS:  # before the first request
        for kind in KINDS:
            make_burst(dialect, kind)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
