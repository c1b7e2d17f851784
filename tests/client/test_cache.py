from __future__ import annotations

import asyncio
import logging
import sqlite3
import stat
import subprocess
import sys
from contextlib import aclosing, closing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.handlers import Script, Time, played, question, reply, response
from strategies import broken_words, conversations, requests, responses_of
from tenuto.client.middleware.cache import MemoryCache, cache_key
from tenuto.client.middleware.replay import replay_events
from tenuto.core.blocks import AnthropicMeta, Reasoning, Text
from tenuto.core.events import ContentDelta, MessageDone, TextDelta
from tenuto.core.messages import AssistantMessage, UserMessage
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.errors import StoreError, Unavailable
from tenuto.middleware import cache


class Shelf:
    """A store of one's own."""

    def __init__(self):
        self.held = {}

    def get(self, key):
        return self.held.get(key, (None, 0))[0]

    def set(self, key, value, expires):
        self.held[key] = value, expires


@pytest.fixture(params=["memory", "file", "own"])
def store(request, tmp_path):
    return {"memory": None, "file": tmp_path / "cache.db", "own": Shelf()}[request.param]


# --- answering --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first, second", [(False, False), (False, True), (True, False), (True, True)])
def test_the_same_question_is_asked_once(store, first, second):
    """Streamed or drained: the second answer is told as events, and ends with the same response."""
    kept, handler = cache(store), Script(reply("kept"), reply("new"))
    played(kept, question(stream=first), handler)

    found = played(kept, question(stream=second), handler)

    assert found == list(replay_events(response("kept")))
    assert ContentDelta(0, 0, TextDelta("kept")) in found
    assert len(handler.asked) == 1


def test_another_question_is_asked(store):
    kept, handler = cache(store), Script(reply("one"), reply("two"))

    assert played(kept, question(text="A"), handler).text == "one"
    assert played(kept, question(text="B"), handler).text == "two"


def test_a_reply_holds_for_its_time(store):
    """Whatever the store makes of it: the value says itself when it expires."""
    clock, handler = Time(1000.0), Script(reply("one"), reply("two"), reply("three"))
    kept = cache(store, ttl=60, now=clock)
    played(kept, question(), handler)
    clock.now += 59
    assert played(kept, question(), handler).text == "one"
    clock.now += 1
    assert played(kept, question(), handler).text == "two"
    clock.now += 59
    assert played(kept, question(), handler).text == "two"


@pytest.mark.parametrize("tool", [ToolDefinition("weather"), ServerTool("web_search")])
def test_requests_with_tools_are_always_asked(tool):
    shelf, handler = Shelf(), Script(reply("one"), reply("two"))
    kept = cache(shelf)

    assert [played(kept, question(tools=(tool,)), handler).text for _ in range(2)] == ["one", "two"]
    assert shelf.held == {}


def replied(*messages):
    return [MessageDone(ChatResponse("id", "row", "m", tuple(Choice(message) for message in messages)))]


@pytest.mark.parametrize(
    "script",
    [
        [Unavailable("x")],
        replied(AssistantMessage((Text("Hi"),), incomplete=True)),
        replied(AssistantMessage((Text("Hi"),), "error")),
        replied(AssistantMessage((Text("Hi"),), "stop"), AssistantMessage((), "error")),
        replied(),
    ],
    ids=["an error", "incomplete", "ended in an error", "one of two", "no answer"],
)
def test_what_is_not_worth_keeping_is_asked_again(script):
    kept, handler = cache(), Script(script, reply("whole"))
    played(kept, question(), handler)

    assert played(kept, question(), handler).text == "whole"


def test_a_reply_is_kept_before_it_is_handed_out(store):
    """Its reader need not read on after the last event."""
    kept, handler = cache(store), Script(reply("kept"), reply("new"))

    async def run():
        async with aclosing(kept(question(), handler)) as events:
            assert isinstance([await anext(events), await anext(events)][-1], MessageDone)

    asyncio.run(run())
    assert played(kept, question(), handler).text == "kept"
    assert handler.closed == 1


@given(responses_of(broken_words), st.booleans())
def test_a_kept_reply_comes_back_whole(found, stream):
    """Order, tokens and half characters; losses and usage, too."""
    kept, handler = cache(), Script([MessageDone(found)])
    played(kept, question(), handler)
    again = played(kept, question(stream=stream), handler)

    assert again[-1] == MessageDone(found)


# --- the key ----------------------------------------------------------------------------------------------------------


@given(requests(messages=conversations(broken_words)))
def test_equal_requests_have_one_key(request):
    as_tuple = msgspec.structs.replace(request, messages=request.transcript)
    as_transcript = msgspec.structs.replace(request, messages=Transcript(request.transcript))
    streamed = msgspec.structs.replace(request, stream=not request.stream)
    key = cache_key(as_tuple)

    assert key is not None
    assert len(key) == 64
    assert {cache_key(same) for same in (request, as_tuple, as_transcript, streamed)} == {key}


@given(requests(), requests(), st.sampled_from([name for name in ChatRequest.__struct_fields__ if name != "stream"]))
def test_different_requests_have_different_keys(request, other, field):
    changed = msgspec.structs.replace(request, **{field: getattr(other, field)})

    assert changed == request or cache_key(changed) != cache_key(request)


def signed(token):
    return (AssistantMessage((Reasoning("Hm.", meta=AnthropicMeta(token)),)), UserMessage("Hi"))


@pytest.mark.parametrize(
    "one, other",
    [
        ({"messages": (UserMessage("A"),)}, {"messages": (UserMessage("B"),)}),
        ({"messages": signed("a")}, {"messages": signed("b")}),
        ({"messages": (UserMessage("AB"),)}, {"messages": (UserMessage("A"), UserMessage("B"))}),
        ({"model": "a/c"}, {"model": "b/c"}),
        ({"extra_body": {"a": {"b": 1}}}, {"extra_body": {"a": {"b": 2}}}),
        ({"extra_headers": {"x": "1"}}, {}),
        ({"metadata": {"a": {"b": True}}}, {"metadata": {"a": {"b": 1}}}),
        ({"temperature": 0.0}, {}),
    ],
    ids=["words", "tokens", "borders", "model", "nested", "headers", "kinds", "zero"],
)
def test_everything_counts(one, other):
    base = {"model": "a/b", "messages": (UserMessage("Hi"),)}

    assert cache_key(ChatRequest(**{**base, **one})) != cache_key(ChatRequest(**{**base, **other}))


def test_the_order_of_names_does_not_count():
    keys = [
        cache_key(question(extra_body=body, metadata={"row": body}))
        for body in ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
    ]

    assert keys[0] == keys[1]


def test_the_key_does_not_change():
    """A file that was written by an earlier version stays of use; if this must change, so must the version in the key."""
    assert cache_key(question()) == "07c3d2c7f0273c74a721f20c5eee39ca3560955beec189e584a61948df8a5a39"


@pytest.mark.parametrize("body", [{"a": object()}, {"a": float("nan")}], ids=["an object", "no number"])
def test_what_cannot_be_written_down_is_left_to_whoever_sends_it(body):
    handler = Script([ValueError("says what is wrong")])

    assert cache_key(question(extra_body=body)) is None
    assert str(played(cache(), question(extra_body=body), handler).error) == "says what is wrong"


# --- stores -----------------------------------------------------------------------------------------------------------


def test_memory_keeps_what_was_used_last():
    kept, handler = cache(max_entries=2), Script(*[reply(str(n)) for n in range(5)])
    for text in ("A", "B", "A", "C"):
        played(kept, question(text=text), handler)

    assert played(kept, question(text="A"), handler).text == "0"
    assert played(kept, question(text="B"), handler).text == "3"


def test_memory_lets_go():
    """A value that is set anew counts as used; one that has expired is forgotten when it is asked for."""
    clock = Time(10.0)
    store = MemoryCache(2, clock)
    for key in ("a", "b", "a", "c"):
        store.set(key, key.encode(), 20.0)
    assert [store.get(key) for key in "abc"] == [b"a", None, b"c"]

    clock.now = 20.0
    assert (store.get("a"), len(store)) == (None, 1)


def rows(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT count(*) FROM replies").fetchone()[0]


def test_a_file_keeps_so_many_and_nothing_that_has_expired(tmp_path):
    path, clock = tmp_path / "cache.db", Time(1000.0)
    kept = cache(str(path), ttl=60, max_entries=3, now=clock)
    for text in "ABCDE":
        clock.now += 1
        played(kept, question(text=text), Script(reply(text)))
    assert rows(path) == 3
    assert played(kept, question(text="E"), Script([AssertionError()])).text == "E"
    assert played(kept, question(text="A"), Script(reply("new"))).text == "new"

    clock.now += 1000
    played(kept, question(text="F"), Script(reply("F")))
    assert rows(path) == 1


def test_a_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "cache.db"
    played(cache(path), question(), Script(reply()))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_outlives_its_cache(tmp_path):
    played(cache(tmp_path / "cache.db"), question(), Script(reply("kept")))

    assert played(cache(tmp_path / "cache.db"), question(), Script([AssertionError()])).text == "kept"


def test_several_processes_share_a_file(tmp_path):
    """All write at once, from several threads each, into a file that is not there yet; every reply is kept."""
    code = """
import asyncio, sys
from client.handlers import Script, question, reply, told
from tenuto.middleware import cache
async def run(path, name):
    kept = cache(path)
    await asyncio.gather(*(told(kept(question(text=f"{name}{n}"), Script(reply(f"{name}{n}")))) for n in range(10)))
asyncio.run(run(*sys.argv[1:]))
"""
    path = tmp_path / "cache.db"
    running = [
        subprocess.Popen([sys.executable, "-c", code, path, name], env={"PYTHONPATH": ":".join(sys.path)}, stderr=-1)
        for name in "abc"
    ]

    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 3
    assert rows(path) == 30


def test_nobody_loses_a_lock_on_the_file(tmp_path):
    """Were the file opened and closed beside SQLite, this process's locks would be gone, and another process, sure to
    be alone, would clear the journal away under a connection that is in use.
    """
    path = tmp_path / "cache.db"
    played(cache(path), question(), Script(reply()))
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM replies'); db.close()"

    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT count(*) FROM replies").fetchone()
        played(cache(path), question(text="Another"), Script(reply()))
        subprocess.run([sys.executable, "-c", code, path], check=True)
        assert path.with_name("cache.db-wal").exists()


@pytest.mark.parametrize(
    "broken", [b"", b"{", b'{"expires":9e99}', b'{"expires":9e99,"response":{"id":1}}', b"\xff\xfe"]
)
def test_what_cannot_be_read_is_asked_anew(caplog, broken):
    shelf = Shelf()
    shelf.held[cache_key(question())] = broken, 0

    assert played(cache(shelf), question(), Script(reply("asked"))).text == "asked"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert played(cache(shelf), question(), Script([AssertionError()])).text == "asked"


def test_a_file_that_is_no_database_is_told_and_left_alone(caplog, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)

    assert played(cache(path), question(), Script(reply("asked"))).text == "asked"
    assert ["not a database" in message for message in caplog.messages] == [True, True]
    assert path.read_text() == "not a database, " * 100


@pytest.mark.parametrize("error", [StoreError("x"), OSError("x")])
def test_trouble_with_a_store_keeps_nobody_from_asking(caplog, error):
    class Broken:
        def get(self, key):
            raise error

        def set(self, key, value, expires):
            raise error

    assert played(cache(Broken()), question(), Script(reply())).text == "Hi"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_a_mistake_in_a_store_is_not_hidden():
    class Wrong:
        def get(self, key, extra):
            return None

        def set(self, key, value, expires):
            pass

    assert isinstance(played(cache(Wrong()), question(), Script(reply())).error, TypeError)


def test_a_store_that_waits_does_not_stop_the_loop():
    """It is asked in another thread: what the loop has to do meanwhile is done."""

    async def run():
        loop, gone_on = asyncio.get_running_loop(), asyncio.Event()

        class Slow(Shelf):
            def get(self, key):
                asyncio.run_coroutine_threadsafe(gone_on.wait(), loop).result(10)
                return super().get(key)

        loop.call_soon(gone_on.set)
        return [event async for event in cache(Slow())(question(), Script(reply()))]

    assert asyncio.run(run()) == reply()


def test_a_store_that_is_none_is_refused(tmp_path):
    with pytest.raises(TypeError, match="get and set"):
        cache({})
    with pytest.raises(FileNotFoundError, match="no directory"):
        cache(tmp_path / "nowhere" / "cache.db")
    with pytest.raises(ValueError, match="ttl above 0"):
        cache(ttl=0)
    with pytest.raises(ValueError, match="max_entries"):
        cache(max_entries=0)
