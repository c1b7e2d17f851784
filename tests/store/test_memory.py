"""The memory store, and the parts that all stores share: ids, texts, checks."""

from __future__ import annotations

import asyncio
import itertools
import string
import threading
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import broken_words, messages_of
from tenuto.core.blocks import Image, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import (
    CallFinished,
    Entry,
    MessageAdded,
    ReplyReceived,
    RunEnded,
    SteeringAdded,
    UnknownPayload,
    sha256_hex,
)
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage, user
from tenuto.core.stored import make_draft
from tenuto.errors import InvalidSessionId, SessionInUse, SessionNotFound
from tenuto.store.driver import tokenize
from tenuto.store.maintenance import find_entry_problems
from tenuto.store.memory import Memory, MemoryStore
from tenuto.store.open import open_store
from tenuto.store.search import LONGEST, snippet_of, text_of
from tenuto.store.sessions import check_id, check_name, new_id, only_match, places_back
from tenuto.testing.store_suite.helpers import turn


def draft(act, id):
    return make_draft(act, id=id, time_ms=1)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_two_memory_stores_are_independent():
    async def play():
        async with MemoryStore() as one, MemoryStore() as other:
            await one.append(await one.lease("s"), [draft(RunEnded("completed"), "e1")])
            assert (await other.sessions()).sessions == ()
            assert (await other.stats()).backend == "memory"

    asyncio.run(play())


def test_clock_ids_and_holder_can_be_passed():
    async def play():
        memory, numbers = Memory(), itertools.count(1)
        store = MemoryStore(memory, now=lambda: 5000, new_id=lambda: f"id{next(numbers)}", ttl_ms=10, host="h", pid=7)
        lease = await store.lease("s")
        lease = await store.append(lease, [draft(RunEnded("completed"), "e1")])

        assert lease.until == 5010
        assert [await store.fork("s"), await store.fork("s")] == ["id1", "id2"]
        assert (await store.session("s")).holder == "7@h"
        with pytest.raises(SessionInUse, match="process 7 on h") as caught:
            await MemoryStore(memory, now=lambda: 5009).lease("s")
        assert (caught.value.session, caught.value.pid, caught.value.host) == ("s", 7, "h")
        assert "takeover=True" in str(caught.value)

    asyncio.run(play())


def test_backup_of_a_memory_is_a_sqlite_store(tmp_path):
    async def play():
        async with MemoryStore() as store:
            await store.append(await store.lease("s"), [draft(RunEnded("completed"), "e1")])
            await store.backup(str(tmp_path / "sessions.db"))
            entries = await store.read("s")
        async with open_store(tmp_path / "sessions.db") as copied:
            assert await copied.read("s") == entries
            assert await copied.verify() == []

    asyncio.run(play())


def test_memory_store_starts_no_thread():
    async def play():
        before = threading.active_count()
        async with MemoryStore() as store:
            await store.append(await store.lease("s"), [draft(RunEnded("completed"), "e1")])
            assert threading.active_count() == before

    asyncio.run(play())


# --- ids --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2**48 - 1), min_size=2, max_size=6, unique=True))
def test_ids_sort_by_time(times):
    ids = {time: new_id(time) for time in times}

    assert sorted(ids.values()) == [ids[time] for time in sorted(times)]
    assert all(len(check_id(id)) == 26 for id in ids.values())


def test_ids_are_unique_for_any_clock():
    assert len({new_id(5) for _ in range(1000)}) == 1000
    assert new_id(-1)[:10] == new_id(0)[:10] == "0" * 10
    assert len(new_id(2**60)) == 26


@given(st.text(max_size=5) | st.text(string.ascii_letters + string.digits + "-_", max_size=70))
def test_whole_id_is_accepted(text):
    letters = string.ascii_letters + string.digits
    good = 0 < len(text) <= 64 and text[0] in letters and all(sign in f"{letters}-_" for sign in text)
    if good:
        assert check_id(text) == text
    else:
        with pytest.raises(InvalidSessionId, match="is not a session id"):
            check_id(text)


def test_id_with_a_line_break_is_refused():
    for text in ("abc\n", "\nabc", "a\x00", "../etc/passwd", "٣", "a" * 65):
        with pytest.raises(InvalidSessionId, match="is not a session id"):
            check_id(text)


def test_session_names_are_checked():
    for name in ("", "a", "雨", "x" * 200, "a b"):
        assert check_name(name) == name
    for name in ("x" * 201, " ", "a ", "\t", "a\x1bb", "a\x9bb", "\udc80", "a\u2029b"):
        with pytest.raises(ValueError, match="is not a name"):
            check_name(name)


def test_id_prefixes_are_matched():
    assert [places_back(text) for text in ("last", "~0", "~12", "Last", "~", "~-1", "~1x", "~1\n", "")] == [
        0, 0, 12, None, None, None, None, None, None,
    ]  # fmt: skip
    assert only_match("a", ["abc"]) == "abc"
    with pytest.raises(SessionNotFound, match="no session is called 'a'"):
        only_match("a", [])
    with pytest.raises(SessionNotFound, match=r"several .* a0, a1, a2, a3, a4, \.\.\.; type more"):
        only_match("a", [f"a{number}" for number in range(7)])


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act, text",
    [
        (MessageAdded(UserMessage("Rain?")), "Rain?"),
        (MessageAdded(user("See ", Image("AAAA", "image/png"), "this")), "See this"),
        (MessageAdded(SystemMessage("Be kind.")), "Be kind."),
        (SteeringAdded(UserMessage("a\0b \ud800 c")), "a b � c"),
        (
            ReplyReceived(
                AssistantMessage((Reasoning("Hm."), Text("No."), Refusal("Never."), ToolUse("a", "dig", '{"x":1}')))
            ),
            'Hm.\nNo.\nNever.\ndig {"x":1}',
        ),
        (MessageAdded(AssistantMessage((Text("As before."),))), "As before."),
        (MessageAdded(ToolResults((ToolResult("a", "one"), ToolResult("b", (Text("two"),))))), "one\ntwo"),
        (CallFinished(ToolResult("a", (Text("wet"), Image("AAAA", "image/png"), Text("cold"))), 0), "wet  cold"),
        (RunEnded("completed", "quietly"), ""),
        (UnknownPayload("x", '{"entry":"x","said":"what?"}'), ""),
    ],
)
def test_searched_text_of_entries(act, text):
    assert text_of(act) == text


@given(messages_of(broken_words))
def test_any_text_can_be_indexed(message):
    text = text_of(MessageAdded(message))

    text.encode()
    assert "\0" not in text


def test_only_the_start_of_a_long_text_is_indexed():
    assert len(text_of(MessageAdded(UserMessage("x" * 10 * LONGEST)))) == LONGEST


def test_snippets_show_words_in_context():
    assert tokenize("The RAIN, in Spain; straße 42!") == ["the", "rain", "in", "spain", "strasse", "42"]
    text = "so " * 100 + "the\nneedle\tis here" + " and" * 100
    assert "the needle is here" in snippet_of(text, ["needle"])
    assert len(snippet_of(text, ["needle"])) <= 120
    assert snippet_of("abc", []) == snippet_of("abc", ["x"]) == "abc"
    assert snippet_of("a.c", ["("]) == "a.c"


# --- checks -----------------------------------------------------------------------------------------------------------


def entries(*acts):
    drafts = [draft(act, f"e{seq}") for seq, act in enumerate(acts, 1)]
    return [
        Entry(seq, one.id, one.time_ms, 1, one.kind, one.body, one.digest, one.payload)
        for seq, one in enumerate(drafts, 1)
    ]


def faults(head, found):
    return list(find_entry_problems(head, found))


def test_intact_session_has_no_faults():
    assert faults(7, entries(*turn())) == []
    assert faults(0, []) == []


def test_each_kind_of_damage_is_reported():
    good = entries(*turn())
    change = msgspec.structs.replace
    text = good[2].body.replace(b'"a"', b'"z"')
    cases = [
        (
            [*good[:3], *good[4:]],
            [(5, "is in the place"), (6, "is in the place"), (7, "is in the place"), (0, "should have 7")],
        ),
        (good[:5], [(0, "should have 7 entries, but has 5")]),
        (
            [good[1], good[0], *good[2:]],
            [(2, "is in the place"), (1, "is in the place"), (5, "is a result"), (6, "is a result")],
        ),
        ([*good[:6], change(good[6], id="e1")], [(7, "has the id 'e1'")]),
        ([*good[:2], change(good[2], body=text), *good[3:]], [(3, "is damaged: its digest is")]),
        ([*good[:2], change(good[2], digest="0" * 64), *good[3:]], [(3, "is damaged: its digest is")]),
        ([*good[:2], change(good[2], kind="run_ended"), *good[3:]], [(3, "has the kind 'run_ended'")]),
        ([*good[:2], change(good[2], payload=RunEnded("x")), *good[3:]], [(3, "has the kind 'call_started'")]),
    ]
    for damaged, expected in cases:
        found = faults(7, damaged)
        assert [seq for seq, _ in found] == [seq for seq, _ in expected], expected
        assert all(what.startswith(start) for (_, what), (_, start) in zip(found, expected, strict=True)), found


def test_body_that_is_not_an_entry_is_reported():
    body = b"no JSON"
    strange = Entry(1, "e1", 1, 1, "x", body, sha256_hex(body), UnknownPayload("x", ""))

    assert [what[:15] for _, what in faults(1, [strange])] == ["cannot be read:"]


@pytest.mark.parametrize("stray", [ToolResult("a"), ToolResult("b")])
@pytest.mark.parametrize("ordinal", [-1, 0, 1, 2])
def test_result_must_match_its_call(stray, ordinal):
    calls = ReplyReceived(AssistantMessage((ToolUse("a", "t", ""), ToolUse("b", "t", ""))))
    fits = (stray.tool_use_id, ordinal) in (("a", 0), ("b", 1))

    assert bool(faults(2, entries(calls, CallFinished(stray, ordinal)))) is not fits
    assert faults(3, entries(calls, SteeringAdded(UserMessage("Stop.")), CallFinished(stray, ordinal)))


@pytest.mark.parametrize("where", [None, "memory://ttl", "sessions.db"])
def test_open_store_sets_the_time_of_leases(where, tmp_path):
    async def until():
        async with open_store(where and where.replace("sessions.db", str(tmp_path / "sessions.db")), ttl=5) as store:
            return (await store.lease("s")).until - time.time_ns() // 1_000_000

    assert 0 < asyncio.run(until()) <= 5_000


def test_open_store_refuses_invalid_times():
    for where, ttl in ((None, 0), (None, -1), (MemoryStore(), 5)):
        with pytest.raises(ValueError, match="ttl"):
            open_store(where, ttl=ttl)
