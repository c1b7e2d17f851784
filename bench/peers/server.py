"""The server that all peers ask, in a process of its own so that its CPU is not counted.

    python -m bench.peers.server

It prints its port, and ends when its input does. A path begins with the shape and the kind of the reply, as in
`/paced/std/v1/messages`: `burst` writes everything at once, `each` one event a write without a gap, `paced` one event a
millisecond, `crowd` 32 events each 50 ms. A request that asks for no stream gets a whole reply of its dialect.
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
PACES = {"each": (1, 0.0), "paced": (1, 0.001), "crowd": (32, 0.05)}
"""Events a write, and seconds between writes."""


@functools.cache
def chunks(dialect: str, kind: str) -> list[bytes]:
    events = MAKERS[dialect](KINDS[kind]).split(b"\n\n")[:-1]
    return [b"%x\r\n%s\n\n\r\n" % (len(event) + 2, event) for event in events]


@functools.cache
def burst(dialect: str, kind: str) -> bytes:
    return HEAD + b"".join(chunks(dialect, kind)) + b"0\r\n\r\n"


@functools.cache
def whole(dialect: str) -> bytes:
    body = json.dumps(WHOLE[dialect]).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


class Peers(Connection):
    """Answers in the shape that the path asks for."""

    def answer(self, path: bytes, body: bytes) -> None:
        _, shape, kind, _ = path.decode().split("/", 3)
        dialect = next(name for end, name in PATHS.items() if end in path)
        if b":streamGenerate" not in path and b'"stream":true' not in body.replace(b" ", b""):
            self.transport.write(whole(dialect))
        elif shape == "burst":
            self.transport.write(burst(dialect, kind))
        else:
            self.transport.write(HEAD)
            self.paced(chunks(dialect, kind), 0, *PACES[shape])

    def paced(self, events: list[bytes], at: int, many: int, gap: float) -> None:
        while not self.transport.is_closing():
            self.transport.write(b"".join(events[at : at + many]))
            at += many
            if at >= len(events):
                self.transport.write(b"0\r\n\r\n")
                return
            if gap:
                asyncio.get_running_loop().call_later(gap, self.paced, events, at, many, gap)
                return


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Peers, "127.0.0.1", 0, backlog=512)
    for dialect in MAKERS:  # made before the first is asked for
        for kind in KINDS:
            burst(dialect, kind)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
