"""Closing a client during a call, cancellation, slow readers, forked processes, interrupts."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from scripted import ROW, chat, frames
from serving import CLOSE, Gate, Server, chunk, reply, stream_head
from tenuto import AsyncClient, Client, LLMError, Provider, TenutoError, Timeouts
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.errors import ClosedError, ConnectionFailed, IncompleteResponse, ProtocolError, RateLimited, TimedOut
from tenuto.middleware import retry
from tenuto.testing import ScriptedResponse, ScriptedTransport

HELLO = reply(json.dumps(chat()).encode())


def row(server: Server) -> Provider:
    return Provider("mine", "openai-chat", server.url + "/v1")


def stream_start(*words: str) -> bytes:
    return stream_head() + b"".join(chunk(piece) for piece in frames(*words, done=False))


# --- the client is closed during a call ------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_closing_the_client_ends_running_calls(stream):
    """They end at once with an error and are not retried."""
    gate = Gate()
    with Server([stream_start("a"), gate] if stream else [gate], HELLO) as server:

        async def main() -> BaseException:
            ai = AsyncClient(providers=[row(server)])
            reading = asyncio.Event()

            async def ask() -> None:
                async for _ in ai.stream("mine/m", "Hi"):
                    reading.set()

            task = asyncio.create_task(ask() if stream else ai.chat("mine/m", "Hi"))
            await asyncio.wrap_future(gate.reached)
            if stream:
                await reading.wait()
            await ai.close()
            with pytest.raises((ConnectionFailed, IncompleteResponse)) as caught:
                await asyncio.wait_for(task, 5)
            return caught.value

        assert "closed" in str(asyncio.run(main()))
        assert 1 == len(server.requests)


def test_closing_the_client_ends_a_pause():
    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse({}, 429, {"retry-after": "50"}), chat())
        ai = AsyncClient(providers=[ROW], transport=transport, middleware=[retry()])
        task = asyncio.create_task(ai.chat("mine/m", "Hi"))
        while not transport.requests:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await ai.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            await asyncio.wait_for(task, 5)

    asyncio.run(main())


def test_reply_stays_after_the_client_is_closed():
    async def main() -> str:
        transport = ScriptedTransport(ScriptedResponse.stream(*frames("a"), hang=True))
        ai = AsyncClient(providers=[ROW], transport=transport, middleware=[])
        stream = ai.stream("mine/m", "Hi")
        async for event in stream:
            if isinstance(event, MessageDone):
                await ai.close()
        return stream.reply.text

    assert "a" == asyncio.run(main())


def test_stream_of_a_closed_client_raises():
    """A stream that ends without an error would look complete."""
    ai = Client(
        providers=[ROW],
        transport=ScriptedTransport(ScriptedResponse.stream(*frames("a", done=False), hang=True)),
        middleware=[],
    )
    stream = ai.stream("mine/m", "Hi")
    assert next(stream)
    ai.close()
    with pytest.raises(LLMError, match="closed"):
        list(stream)
    stream.close()


def test_thread_in_a_stream_gets_the_error_of_closing():
    ai = Client(
        providers=[ROW],
        transport=ScriptedTransport(ScriptedResponse.stream(*frames("a", done=False), hang=True)),
        middleware=[],
    )
    reading, heard = threading.Event(), []

    def read() -> None:
        try:
            for event in ai.stream("mine/m", "Hi"):
                if isinstance(event, ContentDelta):
                    reading.set()
        except LLMError as exc:
            heard.append(exc)

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(10)
    ai.close()
    thread.join(10)

    assert ["the client was closed"] == [error.message for error in heard]


def test_closing_stream_after_client_keeps_the_error():
    before = threading.active_count()
    ai = Client(
        providers=[ROW],
        transport=ScriptedTransport(ScriptedResponse.stream(*frames("a")), ScriptedResponse.stream(*frames("a"))),
        middleware=[],
    )
    done = ai.stream("mine/m", "Hi")
    done.drain()
    with pytest.raises(KeyError, match="mine"), ai.stream("mine/m", "Hi") as stream:
        next(stream)
        ai.close()
        raise KeyError("mine")
    done.close()

    assert before == threading.active_count()
    with pytest.raises(ClosedError, match="closed"):
        ai.chat("mine/m", "Hi")


def test_stream_closed_before_start_sends_no_request():
    transport = ScriptedTransport(ScriptedResponse.stream(*frames("a")))
    with Client(providers=[ROW], transport=transport, middleware=[]) as ai:
        with ai.stream("mine/m", "Hi") as stream:
            pass
        with pytest.raises(TenutoError, match="closed"):
            list(stream)

    assert [] == transport.requests


# --- cancellation ----------------------------------------------------------------------------------------------------


def test_cancelling_ends_only_the_task_that_reads():
    """One task reads the first event, another one continues and sees the end."""

    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse.stream(*frames("a", done=False), hang=True))
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[]) as ai:
            stream, waiting = ai.stream("mine/m", "Hi"), asyncio.Event()
            events = aiter(stream)
            await anext(events)

            async def read_on() -> list[object]:
                found = []
                async for event in events:
                    found.append(event)
                    if isinstance(event, ContentDelta):
                        waiting.set()
                return found

            reader = asyncio.create_task(read_on())
            await waiting.wait()
            await asyncio.sleep(0)
            assert "a" == (await stream.cancel()).text
            await stream.close()
            assert await asyncio.wait_for(reader, 5)
            await asyncio.sleep(0)  # this task was not cancelled

    asyncio.run(main())


def test_task_that_is_cancelled_twice_stays_cancelled():
    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse.stream(*frames("a", done=False), hang=True))
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[]) as ai:
            stream, waiting = ai.stream("mine/m", "Hi"), asyncio.Event()

            async def read() -> None:
                async for event in stream:
                    if isinstance(event, ContentDelta):
                        waiting.set()

            reader = asyncio.create_task(read())
            await waiting.wait()
            await asyncio.sleep(0)
            reader.cancel()
            await stream.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader

    asyncio.run(main())


def test_two_threads_of_one_stream_see_its_end():
    with Client(
        providers=[ROW], transport=ScriptedTransport(ScriptedResponse.stream(*frames(*"abcdef"))), middleware=[]
    ) as ai:
        stream, got = ai.stream("mine/m", "Hi"), []
        threads = [threading.Thread(target=lambda: got.extend(stream)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

        assert not any(thread.is_alive() for thread in threads)
        assert "abcdef" == stream.reply.text


# --- slow readers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [Timeouts(read=0.05), Timeouts(event=0.05)])
def test_slow_reader_receives_everything(waits):
    """The event timeout measures the server's silence, not the reader's pauses."""

    async def main() -> str:
        transport = ScriptedTransport(ScriptedResponse.stream(*frames(*"abc")))
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[], timeout=waits) as ai:
            async with ai.stream("mine/m", "Hi") as stream:
                async for event in stream:
                    if isinstance(event, ContentDelta) and event.delta.text == "a":
                        await asyncio.sleep(0.2)  # longer than the deadline
            return stream.reply.text

    assert "abc" == asyncio.run(main())


# --- the total timeout -----------------------------------------------------------------------------------------------


def test_total_timeout_limits_operations_without_events():
    async def main() -> None:
        again = ScriptedResponse({}, 429, {"retry-after": "30"})
        async with AsyncClient(providers=[ROW], transport=ScriptedTransport(again, again), middleware=[retry()]) as ai:
            for act in (ai.embed("mine/e", "x", timeout=0.05), ai.models("mine", timeout=0.05)):
                with pytest.raises(TimedOut, match=r"longer than 0\.05 s"):
                    await asyncio.wait_for(act, 5)

    asyncio.run(main())


def test_total_timeout_limits_output_repairs():
    async def main() -> None:
        async def slow(request, following):
            await asyncio.sleep(0.03)
            async for event in following(request):
                yield event

        transport = ScriptedTransport(*[chat("no")] * 50)
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[slow]) as ai:
            with pytest.raises(TimedOut):
                await ai.chat_structured("mine/m", "Hi", {"type": "object"}, repairs=50, timeout=0.2)
        assert transport.left > 30

    asyncio.run(main())


def test_slow_key_function_is_a_timeout():
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async def main() -> None:
        async with AsyncClient(
            providers=[ROW], keys={"mine": never}, transport=ScriptedTransport(), middleware=[]
        ) as ai:
            with pytest.raises(TimedOut, match="longer"):
                await asyncio.wait_for(ai.chat("mine/m", "Hi", timeout=0.05), 5)

    asyncio.run(main())


def test_key_function_does_not_block_the_loop():
    """It may wait for work of the loop, so it must run in a thread."""

    async def main() -> str:
        asked, given = threading.Event(), threading.Event()

        def key() -> str:
            asked.set()
            assert given.wait(10)
            return "sk-long-enough"

        async with AsyncClient(
            providers=[ROW], keys={"mine": key}, transport=ScriptedTransport(chat()), middleware=[]
        ) as ai:
            task = asyncio.create_task(ai.chat("mine/m", "Hi"))
            while not asked.is_set():
                await asyncio.sleep(0)
            given.set()
            return (await task).text

    assert "hello" == asyncio.run(main())


# --- connections -----------------------------------------------------------------------------------------------------


def test_invalid_chunks_end_the_stream_at_once():
    gate = Gate()
    with Server([stream_start("a"), gate, b"zz\r\nabc"]) as server:

        async def main() -> None:
            async with AsyncClient(providers=[row(server)], middleware=[]) as ai:
                with pytest.raises((IncompleteResponse, ProtocolError)) as caught:
                    async with ai.stream("mine/m", "Hi") as stream:
                        async for event in stream:
                            if isinstance(event, ContentDelta):
                                gate.open()
                assert "a" == caught.value.partial.text

        asyncio.run(asyncio.wait_for(main(), 10))


def test_keys_in_custom_headers_are_hidden(caplog, monkeypatch):
    monkeypatch.setenv("TENUTO_DEBUG", "wire")
    canary = "sk-canary-0123456789"
    text = {"error": {"message": f"bad key {canary}"}}

    async def main() -> LLMError:
        transport = ScriptedTransport(ScriptedResponse(text, 429, {"x-echo": canary}))
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[]) as ai:
            with pytest.raises(RateLimited) as caught:
                await ai.chat("mine/m", "Hi", extra_headers={"Ocp-Apim-Subscription-Key": canary})
            return caught.value

    with caplog.at_level("DEBUG", "tenuto"):
        error = asyncio.run(main())

    assert canary not in f"{error} {error!r} {error.raw} {caplog.text}"


# --- interrupts, forks, garbage collection ---------------------------------------------------------------------------


def test_exit_in_middleware_reaches_the_caller():
    async def leave(request, following):
        if request.max_tokens == 1:
            sys.exit("enough")
        async for event in following(request):
            yield event

    with Client(providers=[ROW], transport=ScriptedTransport(chat()), middleware=[leave]) as ai:
        with pytest.raises(SystemExit, match="enough"):
            ai.chat("mine/m", "Hi", max_tokens=1)
        assert "hello" == ai.chat("mine/m", "Hi").text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_leaves_connections_of_its_parent():
    """The child sends a request, closes its client and exits; the parent's connection still works."""
    with Server(HELLO) as server, Client(providers=[row(server)], middleware=[]) as ai:
        assert "hello" == ai.chat("mine/m", "Hi").text
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            try:
                ai.chat("mine/m", "Hi")
                ai.close()
                del ai
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert "hello" == ai.chat("mine/m", "Hi", timeout=10).text


def test_collected_client_is_closed_on_its_own_loop():
    """With a warning, and without an error from another thread."""
    code = """
        import gc, json, sys, warnings
        sys.path.insert(0, {tests!r})
        from scripted import chat
        from serving import Server, reply
        from tenuto import Client, Provider
        warnings.simplefilter("always")
        with Server(reply(json.dumps(chat()).encode())) as server:
            ai = Client(providers=[Provider("mine", "openai-chat", server.url)], middleware=[])
            ai.chat("mine/m", "Hi")
            del ai
            gc.collect()
    """
    tests = str(Path(__file__).parent.parent)
    code = textwrap.dedent(code).format(tests=tests)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert 0 == done.returncode
    assert ["a Client was not closed"] == [
        line.partition("ResourceWarning: ")[2] for line in done.stderr.splitlines() if "Warning" in line
    ]
    assert "Exception ignored" not in done.stderr


# --- races and cancellation ------------------------------------------------------------------------------------------


def test_concurrent_closes_leave_no_thread_waiting():
    async def slow(request, following):
        try:
            async for event in following(request):
                yield event
        finally:
            await asyncio.sleep(0.05)

    ai = Client(
        providers=[ROW], transport=ScriptedTransport(*[ScriptedResponse(hang=True, headers={})] * 4), middleware=[slow]
    )
    ended: list[type] = []

    def read() -> None:
        try:
            list(ai.stream("mine/m", "Hi"))
        except (LLMError, RuntimeError) as exc:
            ended.append(type(exc))

    threads = [threading.Thread(target=read) for _ in range(4)] + [threading.Thread(target=ai.close) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert not any(thread.is_alive() for thread in threads)
    assert 4 == len(ended)


def test_error_in_transport_close_is_raised():
    class Stuck(ScriptedTransport):
        async def close(self) -> None:
            raise OSError("close failed")

    before = threading.active_count()
    ai = Client(providers=[ROW], transport=Stuck(chat()), middleware=[])
    ai.chat("mine/m", "Hi")
    with pytest.raises(OSError, match="close failed"):
        ai.close()

    assert before == threading.active_count()


def test_total_timeout_limits_middleware_between_events():
    async def dawdle(request, following):
        async for event in following(request):
            await asyncio.sleep(5)
            yield event

    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse.stream(*frames("a")))
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[dawdle], timeout=0.05) as ai:
            events = aiter(ai.stream("mine/m", "Hi"))
            with pytest.raises(TimedOut, match="longer"):
                while True:
                    await asyncio.wait_for(anext(events), 4)  # on some Pythons, each in a task of its own

    asyncio.run(main())


def test_cancelled_task_may_send_a_request():
    """The deadline works although the task has a pending cancellation."""

    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse({}, 429, {"retry-after": "30"}))
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[retry()]) as ai:

            async def stubborn() -> None:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    with pytest.raises(TimedOut):
                        await ai.chat("mine/m", "Hi", timeout=0.05)

            task = asyncio.create_task(stubborn())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait_for(task, 5)

    asyncio.run(main())


def test_collected_stream_closes_its_connection():
    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse.stream(*frames("a"), hang=True))
        async with AsyncClient(providers=[ROW], transport=transport) as ai:
            async for _ in ai.stream("mine/m", "Hi"):
                break
            gc.collect()
            for _ in range(20):
                await asyncio.sleep(0)
            assert 0 == transport.open

    asyncio.run(main())


def test_collected_sync_stream_closes_its_connection():
    transport = ScriptedTransport(ScriptedResponse.stream(*frames("a", done=False), hang=True), chat())
    with Client(providers=[ROW], transport=transport, middleware=[]) as ai:
        stream = ai.stream("mine/m", "Hi")
        next(stream)
        del stream
        gc.collect()
        ai.chat("mine/m", "Hi")  # one iteration of the loop later
        assert 0 == transport.open


@pytest.mark.parametrize("end", [b"", chunk(b"data: [DONE]\n\n") + chunk(b"")])
def test_bytes_before_a_lost_connection_are_read(end):
    """A slow reader gets all bytes, although the loss is known first."""
    gate = Gate()
    rest = b"".join(chunk(piece) for piece in frames("b", "c", done=bool(end))[: 3 if end else 2]) + end
    with Server([stream_start("a"), gate, rest, CLOSE]) as server:

        async def main() -> str:
            async with AsyncClient(providers=[row(server)], middleware=[]) as ai:
                stream = ai.stream("mine/m", "Hi")
                try:
                    async for event in stream:
                        if isinstance(event, ContentDelta) and event.delta.text == "a":
                            gate.open()
                            await server.requests[0].left()
                            await asyncio.sleep(0.05)  # until the client has noticed it, too
                except IncompleteResponse as exc:
                    return exc.partial.text
                return stream.reply.text

        assert "abc" == asyncio.run(asyncio.wait_for(main(), 10))


def test_closing_the_client_ends_operations_without_events():
    async def main() -> None:
        transport = ScriptedTransport(ScriptedResponse({}, 429, {"retry-after": "50"}))
        ai = AsyncClient(providers=[ROW], transport=transport, middleware=[retry()])
        task = asyncio.create_task(ai.embed("mine/e", "x"))
        while not transport.requests:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await ai.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            await asyncio.wait_for(task, 5)

    asyncio.run(main())


def test_middleware_may_close_its_client():
    async def main() -> str:
        ai = AsyncClient(
            providers=[ROW], transport=ScriptedTransport(ScriptedResponse.stream(*frames("a"))), middleware=[]
        )

        async def last(request, following):
            async for event in following(request):
                if isinstance(event, MessageDone):
                    await ai.close()
                yield event

        ai.use(last)
        return (await ai.stream("mine/m", "Hi").drain()).text

    assert "a" == asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_leaves_the_stream_of_its_parent():
    gate = Gate()
    server = Server([stream_start("a"), gate, b"".join(map(chunk, frames("b"))) + chunk(b"")])
    with server, Client(providers=[row(server)], middleware=[]) as ai, ai.stream("mine/m", "Hi") as stream:
        next(stream)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            code = 1
            try:
                stream.close()
                try:
                    list(stream)
                except TenutoError:
                    code = 0
            finally:
                os._exit(code)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        gate.open()
        assert "ab" == stream.drain().text


@pytest.mark.parametrize("strict", [False, True])
def test_collected_client_is_stopped_if_warnings_are_errors(strict):
    code = """
        import gc, sys, threading
        sys.path.insert(0, {tests!r})
        from scripted import ROW, chat
        from tenuto import Client
        from tenuto.testing import ScriptedTransport
        ai = Client(providers=[ROW], transport=ScriptedTransport(chat()), middleware=[])
        ai.chat("mine/m", "Hi")
        del ai
        gc.collect()
        print([thread.name for thread in threading.enumerate()])
    """
    code = textwrap.dedent(code).format(tests=str(Path(__file__).parent.parent))
    flags = ["-W", "error"] if strict else []
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert "['MainThread']\n" == done.stdout


def test_all_parts_of_a_secret_header_are_hidden():
    from tenuto.client.exchange import protect_headers
    from tenuto.client.http import HttpRequest

    headers = {
        "Cookie": "sid=0123456789abcdef; theme=dark",
        "X-Api-Key": " sk-0123456789 ",
        "accept": "0123456789abcdef",
    }

    assert {"0123456789abcdef", "sk-0123456789"} == set(protect_headers(headers)[1])
    shown = str(HttpRequest("POST", "http://a:secretly@b.test/x?key=sk-0123456789", headers).__rich_repr__())
    assert not any(secret in shown for secret in ("sid=", "sk-0", "secretly"))


def test_key_function_without_more_keys_is_an_error():
    async def main() -> None:
        async with AsyncClient(providers=[ROW], keys={"mine": iter(()).__next__}, transport=ScriptedTransport()) as ai:
            with pytest.raises(LLMError, match="no more keys"):
                await asyncio.wait_for(ai.chat("mine/m", "Hi"), 5)

    asyncio.run(main())


def test_response_after_deadline_leaves_no_cancellation():
    """A transport that ignores the cancellation and responds: the task is not cancelled afterwards."""

    class Deaf(ScriptedTransport):
        async def send(self, request):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return await super().send(request)

    async def run() -> tuple[str, int]:
        waits = Timeouts(event=0.02, read=None, total=None)
        async with AsyncClient(providers=[ROW], transport=Deaf(chat()), timeout=waits) as ai:
            text = (await ai.chat("mine/m", "Hi")).text
            return text, asyncio.current_task().cancelling()

    assert asyncio.run(run()) == ("hello", 0)


def test_middleware_that_raises_at_once_leaves_no_call():
    class Broken:
        def __call__(self, request, next):
            raise RuntimeError("no")

        listed = __call__

    async def run() -> int:
        async with AsyncClient(providers=[ROW], transport=ScriptedTransport(chat()), middleware=[Broken()]) as ai:
            with pytest.raises(RuntimeError, match="no"):
                await ai.chat("mine/m", "Hi")
            return len(ai._calls)

    assert asyncio.run(run()) == 0
