"""A session of 200 turns over a connection with random faults: it completes, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

from tenuto import Limits, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.client.client import AsyncClient
from tenuto.client.middleware.retry import Retry
from tenuto.client.parameters import Timeouts
from tenuto.core.journal import ReplyReceived
from tenuto.errors import LLMError
from tenuto.testing import call, say, think, turn

TURNS = 200
FAULTY = 0.35
"""The share of requests with a fault."""
FAULTS = ("denied", "gone", "cut", "ended", "stalled", "malformed")
STALLS = 1
PATIENCE = 1.5
"""The event timeout in seconds: long enough for a busy machine, so only one stall is scripted."""
LARGEST = 1500
"""The limit of the random byte offset of a fault; most responses are shorter."""


class FaultyProxy:
    """A proxy between an agent and the simulator, with one connection per request."""

    def __init__(self, address, seed):
        self._host, self._port = address.removeprefix("http://").split(":")
        self._chance = random.Random(seed)
        self.met = Counter()
        self._open = {}

    @contextlib.asynccontextmanager
    async def at(self):
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for writer in self._open.values():
                writer.transport.abort()
            await asyncio.gather(*self._open)

    async def _serve(self, reader, writer):
        self._open[asyncio.current_task()] = writer
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            [size] = [
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            ]
            body = await reader.readexactly(size)
            fault = self._chance.choice(FAULTS) if self._chance.random() < FAULTY else ""
            fault = "cut" if fault == "stalled" and self.met[fault] == STALLS else fault
            self.met[fault] += 1
            await self._answer(
                fault, head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body, reader, writer
            )
        writer.close()

    async def _answer(self, fault, request, reader, writer):
        if fault == "denied":
            status = self._chance.choice((429, 500, 529))
            writer.write(f"HTTP/1.1 {status} No\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            await writer.drain()
        elif fault != "gone":
            await self._relay(fault, request, reader, writer)

    async def _relay(self, fault, request, reader, writer):
        there, back = await asyncio.open_connection(self._host, int(self._port))
        back.write(request)
        answer = await there.read(-1)
        back.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        at = self._chance.randrange(min(LARGEST, len(body)))
        if fault == "malformed":  # the same length, but invalid JSON
            offset = max(body.find(b"data: {", at), body.find(b"data: {"))
            body = body[: offset + 6] + b"[" + body[offset + 7 :]
        elif fault:
            body = body[:at]
        if fault == "ended":  # ends as if complete
            head = head.replace(b"Transfer-Encoding: chunked", b"Connection: close")
        writer.write(head + b"\r\n\r\n" + body)
        await writer.drain()
        if fault == "stalled":
            await reader.read()  # until the client closes the connection
        elif fault == "cut":
            writer.transport.abort()


@tool(effect="pure")
def look(turn: int) -> str:
    """Look."""
    return f"seen {turn}"


async def _send_until_done(session):
    """Send a message and continue after each error; return the number of errors."""
    for ended in range(TURNS):
        try:
            await (session.continue_() if session.has_pending_work else session.send("Go."))
        except LLMError:
            continue
        return ended
    raise AssertionError("it does not end")


async def _play(sim, where, seed):
    line = FaultyProxy(sim.base_url, seed)
    options = {"tools": [look], "store": where, "limits": Limits(turns=None), "retry": Retry(2, base=0.0)}
    patience = Timeouts(connect=20, read=PATIENCE, event=20, total=20)
    async with (
        line.at() as url,
        AsyncClient(providers={"sim": {"base_url": url}}, middleware=[]) as client,
        AsyncAgent("sim/chat", client=client, timeout=patience, **options) as agent,
    ):
        session = agent.session()
        ended = await _send_until_done(session)
        return line.met, ended, await session.entries(), await agent.store.verify(), session.text, session.transcript


def test_session_of_200_turns_survives_faults(tenuto_sim, tmp_path):
    turns = [turn(think(f"Thought {at}."), call("look", {"turn": at})) for at in range(TURNS - 1)]
    tenuto_sim.script(*turns, turn(say("It is done.")))
    seed = random.SystemRandom().randrange(1 << 32)

    met, ended, entries, faults, text, transcript = asyncio.run(_play(tenuto_sim, tmp_path / "sessions.db", seed))

    print(f"seed {seed}: {dict(met)}, {ended} runs ended with an error")
    assert met.keys() == {"", *FAULTS}
    assert (text, faults) == ("It is done.", [])
    assert sum(isinstance(entry.payload, ReplyReceived) for entry in entries) == TURNS
    assert transcript.check() == ()
    tenuto_sim.assert_clean()
