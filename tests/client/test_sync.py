"""The synchronous client: any thread, any loop, Ctrl-C, and no leaks."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from scripted import ROW, chat, frames
from tenuto import Client, LLMError, TenutoError
from tenuto.client import background_loop
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.errors import ClosedError
from tenuto.testing import ScriptedResponse, ScriptedTransport


def make_client(*script, **options) -> Client:
    options.setdefault("middleware", [])
    return Client(providers=[ROW], transport=ScriptedTransport(*script), **options)


def test_requests_one_after_the_other():
    before = threading.active_count()
    with make_client(chat("one"), chat("two")) as ai:
        reply = ai.chat("mine/m", "Hi")
        assert "one" == reply.text
        assert "two" == ai.chat("mine/m", reply.transcript + "And?").text

    assert before == threading.active_count()


def test_unused_client_starts_no_thread():
    before = threading.active_count()
    ai = Client()
    assert before == threading.active_count()
    ai.close()
    ai.close()
    with pytest.raises(ClosedError, match="closed"):
        ai.chat("groq/m", "Hi")


def test_stream_in_a_for_loop():
    with make_client(ScriptedResponse.stream(*frames("a", "b"))) as ai, ai.stream("mine/m", "Hi") as stream:
        events = list(stream)
        assert [] == list(stream)
        assert "ab" == stream.reply.text

    assert ["a", "b"] == [event.delta.text for event in events if isinstance(event, ContentDelta)]
    assert isinstance(events[-1], MessageDone)


def test_stream_has_text_deltas_and_a_reply():
    with make_client(ScriptedResponse.stream(*frames("a", "b")), ScriptedResponse.stream(*frames("c"))) as ai:
        with ai.stream("mine/m", "Hi") as stream:
            assert ["a", "b"] == list(stream.text_deltas())
        assert "c" == ai.stream("mine/m", "Hi").drain().text


def test_leaving_a_stream_closes_the_connection():
    transport = ScriptedTransport(ScriptedResponse.stream(*frames("a"), hang=True))
    with Client(providers=[ROW], transport=transport, middleware=[]) as ai:
        with ai.stream("mine/m", "Hi") as stream:
            for _ in stream:
                break
        assert 0 == transport.open


def test_stream_is_cancelled_by_another_thread():
    with (
        make_client(ScriptedResponse.stream(*frames("a", done=False), hang=True)) as ai,
        ai.stream("mine/m", "Hi") as stream,
    ):
        got = []

        def cancel():
            got.append(stream.cancel())

        thread = threading.Thread(target=cancel)
        for event in stream:
            if isinstance(event, ContentDelta):
                thread.start()
        thread.join()

    assert "a" == got[0].text
    assert got[0].message.incomplete


def test_errors_are_raised_where_events_are_read():
    with make_client(
        ScriptedResponse({"error": {"message": "no"}}, 400), ScriptedResponse.stream(*frames("a", done=False))
    ) as ai:
        with ai.stream("mine/m", "Hi") as stream, pytest.raises(LLMError, match="no"):
            next(iter(stream))
        with ai.stream("mine/m", "Hi") as stream:
            with pytest.raises(LLMError, match="ended"):
                list(stream)
            with pytest.raises(TenutoError, match="no reply"):
                _ = stream.reply
        with pytest.raises(TenutoError, match="no reply"):
            _ = stream.reply


def test_stream_is_not_read_far_ahead(monkeypatch):
    """A slow reader slows the connection down, and loses nothing."""
    monkeypatch.setattr(background_loop, "_MAX_AHEAD", 10)
    words = [f"{at} " for at in range(500)]
    with make_client(ScriptedResponse.stream(*frames(*words))) as ai, ai.stream("mine/m", "Hi") as stream:
        next(stream)
        ahead = []
        for _ in stream:
            ahead.append(stream._pump._read - stream._pump._taken)
        assert "".join(words) == stream.reply.text

    assert max(ahead) <= 11


def test_stream_with_a_full_queue_can_be_closed(monkeypatch):
    monkeypatch.setattr(background_loop, "_MAX_AHEAD", 5)
    transport = ScriptedTransport(ScriptedResponse.stream(*frames(*["x"] * 100)))
    with Client(providers=[ROW], transport=transport, middleware=[]) as ai:
        with ai.stream("mine/m", "Hi") as stream:
            next(stream)
        assert 0 == transport.open


def test_threads_share_one_client():
    def answer(request):
        return ScriptedResponse(chat(request.headers["x-name"]))

    with make_client(*[answer] * 40) as ai, ThreadPoolExecutor(8) as pool:
        names = [f"n{at}" for at in range(40)]
        found = pool.map(lambda name: ai.chat("mine/m", "Hi", extra_headers={"x-name": name}).text, names)
        assert names == list(found)


def test_first_requests_of_threads_share_one_loop():
    """The first request imports what a loop needs; eight at once must start one loop."""
    code = """
import threading
from tenuto import Client, TenutoError
ai, together = Client(), threading.Barrier(8)
def ask():
    together.wait()
    try:
        ai.chat("unknown-provider/m", "Hi")
    except TenutoError:
        pass
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(thread.name == "tenuto" for thread in threading.enumerate()))
ai.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "1\n" == done.stdout


def test_client_works_inside_a_running_loop():
    async def notebook() -> str:
        with make_client(chat("inside")) as ai:
            return ai.chat("mine/m", "Hi").text

    assert "inside" == asyncio.run(notebook())


def test_call_on_its_own_loop_is_an_error():
    async def middleware(request, following):
        ai.chat("mine/m", "nested")
        async for event in following(request):
            yield event

    with make_client(chat(), middleware=[middleware]) as ai, pytest.raises(RuntimeError, match="AsyncClient"):
        ai.chat("mine/m", "Hi")


def test_context_variables_reach_the_middleware():
    name = contextvars.ContextVar("name", default="nobody")
    seen = []

    async def middleware(request, following):
        seen.append(name.get())
        async for event in following(request):
            yield event

    name.set("caller")
    with make_client(chat(), middleware=[middleware]) as ai:
        ai.chat("mine/m", "Hi")

    assert ["caller"] == seen


INTERRUPTED = """
    import os, signal, sys, threading
    from tenuto import Client, Provider
    from tenuto.testing import ScriptedResponse, ScriptedTransport

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background

    class Told(ScriptedTransport):
        async def send(self, request):
            reply = await super().send(request)
            read = reply.read
            async def reading():
                os.kill(os.getpid(), signal.SIGINT)
                return await read()
            reply.read = reading
            return reply

    transport = Told(ScriptedResponse(hang=True, headers={{}}))
    row = Provider("mine", "openai-chat", "https://mine.test/v1")
    with Client(providers=[row], transport=transport, middleware=[]) as ai:
        try:
            {act}
        except KeyboardInterrupt:
            print("interrupted, open:", transport.open)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
@pytest.mark.parametrize("act", ['ai.chat("mine/m", "Hi")', 'list(ai.stream("mine/m", "Hi"))'])
def test_interrupt_cancels_the_request(act):
    """After Ctrl-C the request is cancelled, its connection closed, and nothing is printed."""
    code = textwrap.dedent(INTERRUPTED.format(act=act))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert "" == done.stderr
    assert "interrupted, open: 0\n" == done.stdout


@pytest.mark.parametrize("method", ["chat", "stream"])
def test_interrupt_before_the_wait_cancels_the_request(monkeypatch, method):
    """The request may be sent before the calling thread waits for it."""
    transport = ScriptedTransport(ScriptedResponse(hang=True))
    start = background_loop.Submitted.start

    def start_and_interrupt(submitted, loop):
        start(submitted, loop)
        monkeypatch.undo()
        deadline = time.monotonic() + 30
        while not transport.open and time.monotonic() < deadline:
            time.sleep(0.001)
        raise KeyboardInterrupt

    with Client(providers=[ROW], transport=transport, middleware=[]) as ai:
        monkeypatch.setattr(background_loop.Submitted, "start", start_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(getattr(ai, method)("mine/m", "Hi"))

        assert 0 == transport.open


def test_unclosed_client_does_not_block_the_exit():
    code = """
        from tenuto import Client, Provider
        from tenuto.testing import ScriptedTransport
        body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}
        ai = Client(providers=[Provider("mine", "openai-chat", "http://x.test")], transport=ScriptedTransport(body))
        print(ai.chat("mine/m", "Hi").text)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30, check=False
    )

    assert ("x\n", "", 0) == (done.stdout, done.stderr, done.returncode)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_has_its_own_loop():
    with make_client(chat("parent"), chat("child")) as ai:
        assert "parent" == ai.chat("mine/m", "Hi").text
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            try:
                os.write(writer, ai.chat("mine/m", "Hi").text.encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            assert b"child" == pipe.read()
