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

from client.handlers import FakeClock, Script, make_request, make_response, reply_events, run_middleware
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


class DictStore:
    """A custom store."""

    def __init__(self):
        self.held = {}

    def get(self, key):
        return self.held.get(key, (None, 0))[0]

    def set(self, key, value, expires):
        self.held[key] = value, expires


@pytest.fixture(params=["memory", "file", "own"])
def store(request, tmp_path):
    return {"memory": None, "file": tmp_path / "cache.db", "own": DictStore()}[request.param]


# --- replies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first, second", [(False, False), (False, True), (True, False), (True, True)])
def test_equal_request_is_answered_from_the_cache(store, first, second):
    """A streamed and a plain call share the entry, and both end with the same response."""
    kept, handler = cache(store), Script(reply_events("kept"), reply_events("new"))
    run_middleware(kept, make_request(stream=first), handler)

    found = run_middleware(kept, make_request(stream=second), handler)

    assert found == list(replay_events(make_response("kept")))
    assert ContentDelta(0, 0, TextDelta("kept")) in found
    assert len(handler.requests) == 1


def test_other_request_is_sent(store):
    kept, handler = cache(store), Script(reply_events("one"), reply_events("two"))

    assert run_middleware(kept, make_request(text="A"), handler).text == "one"
    assert run_middleware(kept, make_request(text="B"), handler).text == "two"


def test_cached_reply_expires(store):
    """The stored value has its time of expiry, so a store without expiry works, too."""
    clock, handler = FakeClock(1000.0), Script(reply_events("one"), reply_events("two"), reply_events("three"))
    kept = cache(store, ttl=60, now=clock)
    run_middleware(kept, make_request(), handler)
    clock.now += 59
    assert run_middleware(kept, make_request(), handler).text == "one"
    clock.now += 1
    assert run_middleware(kept, make_request(), handler).text == "two"
    clock.now += 59
    assert run_middleware(kept, make_request(), handler).text == "two"


@pytest.mark.parametrize("tool", [ToolDefinition("weather"), ServerTool("web_search")])
def test_requests_with_tools_are_not_cached(tool):
    shelf, handler = DictStore(), Script(reply_events("one"), reply_events("two"))
    kept = cache(shelf)

    assert [run_middleware(kept, make_request(tools=(tool,)), handler).text for _ in range(2)] == ["one", "two"]
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
def test_incomplete_replies_are_not_cached(script):
    kept, handler = cache(), Script(script, reply_events("whole"))
    run_middleware(kept, make_request(), handler)

    assert run_middleware(kept, make_request(), handler).text == "whole"


def test_reply_is_cached_before_its_last_event_is_returned(store):
    """A caller that stops at the last event does not resume the iterator."""
    kept, handler = cache(store), Script(reply_events("kept"), reply_events("new"))

    async def run():
        async with aclosing(kept(make_request(), handler)) as events:
            assert isinstance([await anext(events), await anext(events)][-1], MessageDone)

    asyncio.run(run())
    assert run_middleware(kept, make_request(), handler).text == "kept"
    assert handler.closed == 1


@given(responses_of(broken_words), st.booleans())
def test_cached_reply_equals_the_original(found, stream):
    """Also with tokens, half characters, losses and usage."""
    kept, handler = cache(), Script([MessageDone(found)])
    run_middleware(kept, make_request(), handler)
    again = run_middleware(kept, make_request(stream=stream), handler)

    assert again[-1] == MessageDone(found)


# --- the key ----------------------------------------------------------------------------------------------------------


@given(requests(messages=conversations(broken_words)))
def test_equal_requests_have_the_same_key(request):
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
def test_every_field_changes_the_key(one, other):
    base = {"model": "a/b", "messages": (UserMessage("Hi"),)}

    assert cache_key(ChatRequest(**{**base, **one})) != cache_key(ChatRequest(**{**base, **other}))


def test_order_of_names_does_not_change_the_key():
    keys = [
        cache_key(make_request(extra_body=body, metadata={"row": body}))
        for body in ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
    ]

    assert keys[0] == keys[1]


def test_key_is_stable():
    """Files of earlier versions stay usable. If this key must change, change the version in the key, too."""
    assert cache_key(make_request()) == "07c3d2c7f0273c74a721f20c5eee39ca3560955beec189e584a61948df8a5a39"


@pytest.mark.parametrize("body", [{"a": object()}, {"a": float("nan")}], ids=["an object", "no number"])
def test_request_that_has_no_key_is_sent(body):
    handler = Script([ValueError("says what is wrong")])

    assert cache_key(make_request(extra_body=body)) is None
    assert str(run_middleware(cache(), make_request(extra_body=body), handler).error) == "says what is wrong"


# --- stores -----------------------------------------------------------------------------------------------------------


def test_memory_cache_drops_the_least_recently_used():
    kept, handler = cache(max_entries=2), Script(*[reply_events(str(n)) for n in range(5)])
    for text in ("A", "B", "A", "C"):
        run_middleware(kept, make_request(text=text), handler)

    assert run_middleware(kept, make_request(text="A"), handler).text == "0"
    assert run_middleware(kept, make_request(text="B"), handler).text == "3"


def test_memory_cache_counts_writes_and_drops_expired():
    clock = FakeClock(10.0)
    store = MemoryCache(2, clock)
    for key in ("a", "b", "a", "c"):
        store.set(key, key.encode(), 20.0)
    assert [store.get(key) for key in "abc"] == [b"a", None, b"c"]

    clock.now = 20.0
    assert (store.get("a"), len(store)) == (None, 1)


def rows(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT count(*) FROM replies").fetchone()[0]


def test_file_cache_is_limited_and_drops_expired(tmp_path):
    path, clock = tmp_path / "cache.db", FakeClock(1000.0)
    kept = cache(str(path), ttl=60, max_entries=3, now=clock)
    for text in "ABCDE":
        clock.now += 1
        run_middleware(kept, make_request(text=text), Script(reply_events(text)))
    assert rows(path) == 3
    assert run_middleware(kept, make_request(text="E"), Script([AssertionError()])).text == "E"
    assert run_middleware(kept, make_request(text="A"), Script(reply_events("new"))).text == "new"

    clock.now += 1000
    run_middleware(kept, make_request(text="F"), Script(reply_events("F")))
    assert rows(path) == 1


def test_file_cache_is_private_to_its_owner(tmp_path):
    path = tmp_path / "cache.db"
    run_middleware(cache(path), make_request(), Script(reply_events()))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_cache_persists(tmp_path):
    run_middleware(cache(tmp_path / "cache.db"), make_request(), Script(reply_events("kept")))

    assert run_middleware(cache(tmp_path / "cache.db"), make_request(), Script([AssertionError()])).text == "kept"


def test_file_cache_is_shared_by_processes(tmp_path):
    """Three processes create the file and write to it at the same time."""
    code = """
import asyncio, sys
from client.handlers import Script, make_request, read_events, reply_events
from tenuto.middleware import cache
async def run(path, name):
    cached = cache(path)
    texts = [f"{name}{n}" for n in range(10)]
    await asyncio.gather(*(read_events(cached(make_request(text=t), Script(reply_events(t)))) for t in texts))
asyncio.run(run(*sys.argv[1:]))
"""
    path = tmp_path / "cache.db"
    running = [
        subprocess.Popen([sys.executable, "-c", code, path, name], env={"PYTHONPATH": ":".join(sys.path)}, stderr=-1)
        for name in "abc"
    ]

    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 3
    assert rows(path) == 30


def test_file_cache_keeps_its_locks(tmp_path):
    """POSIX: closing any descriptor of the file releases all locks of the process. Another process would then find no
    lock, and remove the WAL file of an open connection.
    """
    path = tmp_path / "cache.db"
    run_middleware(cache(path), make_request(), Script(reply_events()))
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM replies'); db.close()"

    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT count(*) FROM replies").fetchone()
        run_middleware(cache(path), make_request(text="Another"), Script(reply_events()))
        subprocess.run([sys.executable, "-c", code, path], check=True)
        assert path.with_name("cache.db-wal").exists()


@pytest.mark.parametrize(
    "broken", [b"", b"{", b'{"expires":9e99}', b'{"expires":9e99,"response":{"id":1}}', b"\xff\xfe"]
)
def test_unreadable_cache_entry_is_requested_again(caplog, broken):
    shelf = DictStore()
    shelf.held[cache_key(make_request())] = broken, 0

    assert run_middleware(cache(shelf), make_request(), Script(reply_events("asked"))).text == "asked"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert run_middleware(cache(shelf), make_request(), Script([AssertionError()])).text == "asked"


def test_file_that_is_not_a_database_stays_unchanged(caplog, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)

    assert run_middleware(cache(path), make_request(), Script(reply_events("asked"))).text == "asked"
    assert ["not a database" in message for message in caplog.messages] == [True, True]
    assert path.read_text() == "not a database, " * 100


@pytest.mark.parametrize("error", [StoreError("x"), OSError("x")])
def test_error_in_a_store_does_not_stop_the_request(caplog, error):
    class Broken:
        def get(self, key):
            raise error

        def set(self, key, value, expires):
            raise error

    assert run_middleware(cache(Broken()), make_request(), Script(reply_events())).text == "Hi"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_type_error_in_a_store_is_raised():
    class Wrong:
        def get(self, key, extra):
            return None

        def set(self, key, value, expires):
            pass

    assert isinstance(run_middleware(cache(Wrong()), make_request(), Script(reply_events())).error, TypeError)


def test_blocking_store_does_not_block_the_loop():
    async def run():
        loop, gone_on = asyncio.get_running_loop(), asyncio.Event()

        class Slow(DictStore):
            def get(self, key):
                asyncio.run_coroutine_threadsafe(gone_on.wait(), loop).result(10)
                return super().get(key)

        loop.call_soon(gone_on.set)
        return [event async for event in cache(Slow())(make_request(), Script(reply_events()))]

    assert asyncio.run(run()) == reply_events()


def test_invalid_store_is_refused(tmp_path):
    with pytest.raises(TypeError, match="get and set"):
        cache({})
    with pytest.raises(FileNotFoundError, match="no directory"):
        cache(tmp_path / "nowhere" / "cache.db")
    with pytest.raises(ValueError, match="ttl above 0"):
        cache(ttl=0)
    with pytest.raises(ValueError, match="max_entries"):
        cache(max_entries=0)
