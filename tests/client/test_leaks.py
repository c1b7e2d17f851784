"""Nothing is left behind by a thousand requests: no task, no descriptor, no memory."""

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
from serving.asking import QUICK, ask, client, row
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


async def asked(ai: AsyncClient, name: str, *, stream: bool) -> None:
    with contextlib.suppress(LLMError):
        await ask(ai, stream=stream, extra_headers={"x-answer": name})


async def left_early(ai: AsyncClient) -> None:
    async with ai.stream("mine/m", "Hi", extra_headers={"x-answer": "stalled"}) as stream:
        async for _ in stream:
            break


async def cancelled(ai: AsyncClient) -> None:
    async with ai.stream("mine/m", "Hi", extra_headers={"x-answer": "stalled"}) as stream:
        async for _ in stream:
            await stream.cancel()
            break


async def task_cancelled(ai: AsyncClient, server: Server) -> None:
    task = asyncio.create_task(asked(ai, "silent", stream=False))
    await server.asked()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def timed_out(ai: AsyncClient) -> None:
    with contextlib.suppress(LLMError):
        await ai.chat("mine/m", "Hi", timeout=0.001, extra_headers={"x-answer": "silent"})


def acts(ai: AsyncClient, server: Server) -> list[Callable[[], Awaitable[None]]]:
    """One round: twenty requests of every kind."""
    plain = [lambda s=s: asked(ai, "whole", stream=s) for s in (False, False, True)]
    flow = [lambda s=s: asked(ai, "streamed", stream=s) for s in (True, True, True, False)]
    broken = [
        lambda n=n, s=s: asked(ai, n, stream=s)
        for n in ("refused", "cut", "reset", "error", "web page")
        for s in (False, True)
    ]
    dropped = [lambda: left_early(ai), lambda: cancelled(ai), lambda: task_cancelled(ai, server), lambda: timed_out(ai)]
    return [*plain, *flow, *broken[:9], *dropped]


async def settled(server: Server) -> None:
    """Wait until the server has seen the end of every line that was broken off."""
    for request in server.requests:
        if request.headers["x-answer"] in ENDLESS:
            await request.left()
    server.requests.clear()
    await asyncio.sleep(0)


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_a_thousand_requests_leave_nothing_behind():
    """Less than one object for each of the first 800; and of the rest, which are traced, 200 bytes each at most."""

    async def run() -> None:
        tasks_before, open_before = len(asyncio.all_tasks()), descriptors()
        async with Server(answer) as server, client(server.url) as ai:

            async def rounds(number: int) -> int:
                count = 0
                for _ in range(number):
                    for act in acts(ai, server):
                        await act()
                        count += 1
                    await settled(server)
                return count

            await rounds(4)
            tasks, opened, held = len(asyncio.all_tasks()), descriptors(), blocks()
            count = await rounds(40)
            assert blocks() - held < count == 800
            tracemalloc.start()
            try:
                await rounds(2)
                held = traced()
                count = await rounds(10)
                assert traced() - held < 200 * count == 200 * 200
            finally:
                tracemalloc.stop()
            assert len(asyncio.all_tasks()) == tasks
            assert descriptors() <= opened
        assert len(asyncio.all_tasks()) == tasks_before
        await asyncio.sleep(0)
        assert descriptors() <= open_before

    asyncio.run(run())


def test_many_clients_leave_nothing_behind():
    """Opened and closed, used or not, from both doors: no thread, no descriptor, no warning."""

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
