"""The door for code that does not await: any thread, any loop, Ctrl-C, and nothing left behind."""

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


def made(*script, **options) -> Client:
    options.setdefault("middleware", [])
    return Client(providers=[ROW], transport=ScriptedTransport(*script), **options)


def test_one_question_and_another():
    before = threading.active_count()
    with made(chat("one"), chat("two")) as ai:
        reply = ai.chat("mine/m", "Hi")
        assert "one" == reply.text
        assert "two" == ai.chat("mine/m", reply.transcript + "And?").text

    assert before == threading.active_count()


def test_a_client_that_asked_nothing_starts_no_thread():
    before = threading.active_count()
    ai = Client()
    assert before == threading.active_count()
    ai.close()
    ai.close()
    with pytest.raises(ClosedError, match="closed"):
        ai.chat("groq/m", "Hi")


def test_a_stream_in_a_for_loop():
    with made(ScriptedResponse.stream(*frames("a", "b"))) as ai, ai.stream("mine/m", "Hi") as stream:
        events = list(stream)
        assert [] == list(stream)
        assert "ab" == stream.reply.text

    assert ["a", "b"] == [event.delta.text for event in events if isinstance(event, ContentDelta)]
    assert isinstance(events[-1], MessageDone)


def test_the_text_alone_and_the_reply_alone():
    with made(ScriptedResponse.stream(*frames("a", "b")), ScriptedResponse.stream(*frames("c"))) as ai:
        with ai.stream("mine/m", "Hi") as stream:
            assert ["a", "b"] == list(stream.text_deltas())
        assert "c" == ai.stream("mine/m", "Hi").drain().text


def test_leaving_a_stream_early_closes_the_line():
    transport = ScriptedTransport(ScriptedResponse.stream(*frames("a"), hang=True))
    with Client(providers=[ROW], transport=transport, middleware=[]) as ai:
        with ai.stream("mine/m", "Hi") as stream:
            for _ in stream:
                break
        assert 0 == transport.open


def test_cancelling_from_another_thread_ends_the_loop():
    with made(ScriptedResponse.stream(*frames("a", done=False), hang=True)) as ai, ai.stream("mine/m", "Hi") as stream:
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


def test_errors_come_out_where_the_events_are_read():
    with made(
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


def test_a_long_stream_is_not_read_far_ahead(monkeypatch):
    """A reader that does not keep up holds the line back, and loses nothing."""
    monkeypatch.setattr(background_loop, "_MAX_AHEAD", 10)
    words = [f"{at} " for at in range(500)]
    with made(ScriptedResponse.stream(*frames(*words))) as ai, ai.stream("mine/m", "Hi") as stream:
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


def test_several_threads_share_one_client():
    def answer(request):
        return ScriptedResponse(chat(request.headers["x-name"]))

    with made(*[answer] * 40) as ai, ThreadPoolExecutor(8) as pool:
        names = [f"n{at}" for at in range(40)]
        found = pool.map(lambda name: ai.chat("mine/m", "Hi", extra_headers={"x-name": name}).text, names)
        assert names == list(found)


def test_threads_that_ask_first_at_once_share_one_loop():
    """What a loop needs is loaded by the first question: if that is several at once, there is one loop all the same."""
    code = """
import threading
from tenuto import Client, TenutoError
ai, together = Client(), threading.Barrier(8)
def ask():
    together.wait()
    try:
        ai.chat("nobody-of-that-name/m", "Hi")
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


def test_it_works_inside_a_running_loop():
    async def notebook() -> str:
        with made(chat("inside")) as ai:
            return ai.chat("mine/m", "Hi").text

    assert "inside" == asyncio.run(notebook())


def test_call_on_its_own_loop_is_an_error():
    async def middleware(request, following):
        ai.chat("mine/m", "nested")
        async for event in following(request):
            yield event

    with made(chat(), middleware=[middleware]) as ai, pytest.raises(RuntimeError, match="AsyncClient"):
        ai.chat("mine/m", "Hi")


def test_context_variables_reach_the_middleware():
    name = contextvars.ContextVar("name", default="nobody")
    seen = []

    async def middleware(request, following):
        seen.append(name.get())
        async for event in following(request):
            yield event

    name.set("caller")
    with made(chat(), middleware=[middleware]) as ai:
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
def test_an_interrupt_cancels_the_request(act):
    """Ctrl-C while waiting: the request is cancelled, its line closed, nothing is written to stderr."""
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
def test_an_interrupt_before_the_wait_cancels_the_request(monkeypatch, method):
    """The request may be sent before the calling thread waits for it: an interrupt then must cancel it, too."""
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


def test_forgetting_to_close_does_not_keep_the_program_alive():
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_gets_a_loop_of_its_own():
    with made(chat("parent"), chat("child")) as ai:
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
