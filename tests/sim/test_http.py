"""The simulator as HTTP sees it: old versions, odd bodies, readers that do not read, starts and stops halfway."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import logging
import socket
import warnings

import pytest

from tenuto import AsyncClient
from tenuto.sim import Simulator

BODY = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}).encode()
STREAM = json.dumps({"model": "chat", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()


def head(body: bytes, version: str = "1.1", **headers: str) -> bytes:
    told = {"host": "localhost", "connection": "close", "content-length": str(len(body)), **headers}
    lines = [f"POST /v1/chat/completions HTTP/{version}", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def line(sim: Simulator) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(sim.base_url.rpartition(":")[2])), timeout=10)


def rest(held: socket.socket) -> bytes:
    return b"".join(iter(lambda: held.recv(65536), b""))


def answered(sim: Simulator, sent: bytes) -> bytes:
    with line(sim) as held:
        held.sendall(sent)
        return rest(held)


@contextlib.contextmanager
def nothing_left_open():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(one.message) for one in caught] == []


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version, ending", [("1.0", b"data: [DONE]\n\n"), ("1.1", b"\r\n0\r\n\r\n")], ids=["until the end", "chunked"]
)
def test_a_stream_has_the_form_of_its_version(version, ending):
    with Simulator(script=["Hello"]) as sim:
        told = answered(sim, head(STREAM, version) + STREAM)

    assert told.startswith(f"HTTP/{version} 200".encode())
    assert (b"transfer-encoding: chunked" in told.lower()) == (version == "1.1")
    assert told.endswith(ending)


def test_expectation_is_answered_before_the_body():
    """Continue, or a refusal of a body that is too large."""
    with Simulator(script=["Hello"]) as sim, line(sim) as held:
        held.sendall(head(BODY, expect="100-continue"))
        assert held.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        held.sendall(BODY)
        assert rest(held).startswith(b"HTTP/1.1 200")
        with line(sim) as other:
            other.sendall(head(BODY, **{"expect": "100-continue", "content-length": "99999999"}))
            assert other.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_packed_body_is_unpacked_and_a_broken_one_refused(caplog):
    packed = {"content-encoding": "gzip"}
    data = gzip.compress(BODY)
    with caplog.at_level(logging.WARNING), Simulator(script=["Hello"]) as sim:
        assert answered(sim, head(data, **packed) + data).startswith(b"HTTP/1.1 200")
        told = answered(sim, head(BODY, **packed) + BODY)
        refused = [record.refused.message for record in sim.refusals]

    assert told.startswith(b"HTTP/1.1 400")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["message"] == refused[0]
    assert "not encoded as its headers say" in refused[0]
    assert caplog.records == []


# --- starts and stops -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body, size", [(BODY, 2_000_000), (STREAM, 100_000)], ids=["whole", "streamed"])
def test_a_reader_that_does_not_read_leaves_nothing_open(body, size):
    async def main():
        async with Simulator(script=["lorem ipsum " * size]) as sim:
            held = line(sim)
            held.sendall(head(body, connection="keep-alive") + body)
            async with asyncio.timeout(20):
                while not sim.requests:
                    await asyncio.sleep(0.01)
        return held

    with nothing_left_open():
        asyncio.run(main()).close()


@pytest.mark.parametrize("steps", range(6))
def test_server_stopped_while_it_accepts_leaves_nothing_open(steps):
    async def main():
        async with Simulator() as sim:
            connection = line(sim)
            for _ in range(steps):
                await asyncio.sleep(0)
        return connection

    with nothing_left_open():
        asyncio.run(main()).close()


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_client_that_is_closed_while_it_starts_one_leaves_nothing_open(steps, monkeypatch):
    monkeypatch.delenv("TENUTO_SIM_URL", raising=False)

    async def main():
        ai = AsyncClient(middleware=[])
        asking = asyncio.create_task(ai.chat("sim/chat", "Hi"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await ai.close()
        await asyncio.gather(asking, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with nothing_left_open():
        asyncio.run(main())


def test_one_that_runs_is_not_started_again():
    sim = Simulator(script=["Hello"])
    with sim:
        with pytest.raises(RuntimeError, match="already running"), sim:
            pass
        assert answered(sim, head(BODY) + BODY).startswith(b"HTTP/1.1 200")

    async def main():
        async with sim:
            with pytest.raises(RuntimeError, match="already running"):
                await sim.__aenter__()

    asyncio.run(main())
