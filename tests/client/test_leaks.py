"""A thousand requests leave no task, descriptor or memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from serving import CLOSE, RESET, Gate, Request, Server, chunk, replies, reply, stream_head, streamed
from serving.client import QUICK, ask, client, row
from tenuto import AsyncClient, Client
from tenuto.errors import LLMError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors are counted in /dev/fd")

EVENTS = replies.events("openai-chat")
ANSWERS = {
    "whole": [reply(replies.body("openai-chat"))],
    "streamed": streamed(EVENTS),
    "refused": [reply(b'{"error": {"message": "no"}}', 400)],
    "cut": [stream_head("close") + b"".join(EVENTS[:3]), CLOSE],
    "reset": [stream_head() + chunk(EVENTS[0]), RESET],
    "error": streamed([EVENTS[0], b'data: {"error": {"message": "no"}}\n\n']),
    "web page": [reply(b"<p>", content_type="text/html")],
    "stalled": [stream_head() + b"".join(map(chunk, EVENTS[:3]))],
    "silent": [],
}
ENDLESS = ("stalled", "silent")


def answer(request: Request):
    name = request.headers["x-answer"]
    yield from ANSWERS[name]
    if name in ENDLESS:
        yield Gate()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def send(ai: AsyncClient, name: str, *, stream: bool) -> None:
    with contextlib.suppress(LLMError):
        await ask(ai, stream=stream, extra_headers={"x-answer": name})


async def leave_early(ai: AsyncClient) -> None:
    async with ai.stream("mine/m", "Hi", extra_headers={"x-answer": "stalled"}) as stream:
        async for _ in stream:
            break


async def cancel_stream(ai: AsyncClient) -> None:
    async with ai.stream("mine/m", "Hi", extra_headers={"x-answer": "stalled"}) as stream:
        async for _ in stream:
            await stream.cancel()
            break


async def cancel_task(ai: AsyncClient, server: Server) -> None:
    task = asyncio.create_task(send(ai, "silent", stream=False))
    await server.next_request()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def time_out(ai: AsyncClient) -> None:
    with contextlib.suppress(LLMError):
        await ai.chat("mine/m", "Hi", timeout=0.001, extra_headers={"x-answer": "silent"})


def acts(ai: AsyncClient, server: Server) -> list[Callable[[], Awaitable[None]]]:
    """Send twenty requests of all kinds."""
    plain = [lambda s=s: send(ai, "whole", stream=s) for s in (False, False, True)]
    flow = [lambda s=s: send(ai, "streamed", stream=s) for s in (True, True, True, False)]
    broken = [
        lambda n=n, s=s: send(ai, n, stream=s)
        for n in ("refused", "cut", "reset", "error", "web page")
        for s in (False, True)
    ]
    dropped = [
        lambda: leave_early(ai),
        lambda: cancel_stream(ai),
        lambda: cancel_task(ai, server),
        lambda: time_out(ai),
    ]
    return [*plain, *flow, *broken[:9], *dropped]


async def wait_for_closed_connections(server: Server) -> None:
    """Wait until the server has seen the end of every connection that the client closed."""
    for request in server.requests:
        if request.headers["x-answer"] in ENDLESS:
            await request.left()
    server.requests.clear()
    await asyncio.sleep(0)


def count_blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_thousand_requests_leave_nothing():
    """At most one object for each of the first 800, and 200 traced bytes for each of the rest."""

    async def run() -> None:
        tasks_before, open_before = len(asyncio.all_tasks()), descriptors()
        async with Server(answer) as server, client(server.url) as ai:

            async def rounds(number: int) -> int:
                count = 0
                for _ in range(number):
                    for act in acts(ai, server):
                        await act()
                        count += 1
                    await wait_for_closed_connections(server)
                return count

            await rounds(4)
            tasks, opened, held = len(asyncio.all_tasks()), descriptors(), count_blocks()
            count = await rounds(40)
            assert count_blocks() - held < count == 800
            tracemalloc.start()
            try:
                await rounds(2)
                held = traced_bytes()
                count = await rounds(10)
                assert traced_bytes() - held < 200 * count == 200 * 200
            finally:
                tracemalloc.stop()
            assert len(asyncio.all_tasks()) == tasks
            assert descriptors() <= opened
        assert len(asyncio.all_tasks()) == tasks_before
        await asyncio.sleep(0)
        assert descriptors() <= open_before

    asyncio.run(run())


def test_many_clients_leave_nothing():
    """Used or unused, asynchronous and synchronous: no thread, descriptor or warning."""

    def once(url: str) -> None:
        with Client(providers=[row(url)], middleware=[], timeout=QUICK) as ai:
            assert ai.chat("mine/m", "Hi", extra_headers={"x-answer": "whole"}).text == replies.TEXT
            with ai.stream("mine/m", "Hi", extra_headers={"x-answer": "streamed"}) as stream:
                assert "".join(stream.text_deltas()) == replies.TEXT
            with ai.stream("mine/m", "Hi", extra_headers={"x-answer": "stalled"}) as stream:
                next(iter(stream))
            with contextlib.suppress(LLMError):
                ai.chat("mine/m", "Hi", extra_headers={"x-answer": "refused"})

    with Server(answer) as server:
        once(server.url)
        gc.collect()
        threads, opened = threading.active_count(), descriptors()
        for _ in range(10):
            once(server.url)
            Client(providers=[row(server.url)]).close()
        for request in server.requests:
            request.gone.result(20)
        gc.collect()
        assert threading.active_count() <= threads
        assert descriptors() <= opened
