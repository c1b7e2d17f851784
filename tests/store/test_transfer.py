"""Sessions as lines of text: nothing is changed on the way, and nothing that was changed gets in."""

from __future__ import annotations

import asyncio
import base64
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import broken_words, messages_of
from tenuto.core.journal import MessageAdded, RunEnded, UnknownPayload, sha256_hex
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store import export
from tenuto.store.export import (
    check_export,
    check_no_other_session,
    export_session,
    import_session,
    import_sessions,
)
from tenuto.store.memory import Memory, MemoryStore
from tenuto.store.schema import EXPORT_FORMAT
from tenuto.testing.store_suite.helpers import same, turn, write


def run(play):
    async def playing():
        async with MemoryStore() as store:
            return await play(store)

    return asyncio.run(playing())


async def lines_of(store, session="s"):
    return [line async for line in export_session(store, session)]


def exported(*acts, name=""):
    async def play(store):
        await write(store, "s", *acts)
        await store.rename("s", name)
        return await lines_of(store)

    return run(play)


def imported(lines, **given):
    async def play(store):
        done = await import_session(store, lines, **given)
        return done, await store.read(done.session), await store.session(done.session)

    return run(play)


def changed(line, **fields):
    document = {**json.loads(line), **fields}
    document = {key: value for key, value in document.items() if value is not ...}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


# --- what it looks like -----------------------------------------------------------------------------------------------


def test_a_line_for_the_session_and_one_for_each_entry():
    lines = exported(*turn(), name="walk")
    head, *entries = map(json.loads, lines)

    assert head == {"tenuto": "session", "format": EXPORT_FORMAT, "session": "s", "head": 7, "name": "walk"}
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5, 6, 7]
    assert entries[0].keys() == {"seq", "id", "time_ms", "fence", "version", "kind", "digest", "body"}
    assert [entry["body"]["entry"] for entry in entries] == [entry["kind"] for entry in entries]
    assert all(line.endswith(b"}\n") for line in lines)


@pytest.mark.parametrize(
    "raw",
    [
        '{"entry":"x","s":"\ud800"}',
        '{\n"entry":"x"}',
        '{"entry":"x",\r"a":1}',
        '{"entry":"x","a":' + "[" * 199 + "]" * 199 + "}",
    ],
)
def test_bytes_that_would_not_survive_in_a_line_are_wrapped(raw):
    strange = UnknownPayload("x", raw)
    lines = exported(strange)
    document = json.loads(lines[1])

    assert "body" not in document
    assert base64.b64decode(document["body64"]) == raw.encode("utf-8", "surrogatepass")
    assert imported(lines)[1][0].payload == strange


@pytest.mark.parametrize("raw", ['{ "entry" : "x", "a" : 1.10, "a" : 2 }', '{"entry":"x","s":"\\u0041\\ud800 \u2028"}'])
def test_other_bytes_stand_there_as_they_are(raw):
    lines = exported(UnknownPayload("x", raw))

    assert raw.encode() in lines[1]
    assert imported(lines)[1][0].body == raw.encode()


def test_an_empty_body_is_wrapped_too():
    assert json.loads(export._line({"seq": 1}, b"", sha256_hex(b"")))["body64"] == ""


# --- there and back ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.lists(messages_of(broken_words), min_size=1, max_size=4))
def test_what_goes_out_comes_in(said):
    async def play(store):
        drafts = await write(store, "s", *map(MessageAdded, said))
        lines = await lines_of(store)
        async with MemoryStore() as other:
            await import_session(other, lines)
            assert same(await other.read("s"), drafts)
            assert await other.verify() == []
            assert (await other.session("s")).meta == (await store.session("s")).meta
            assert await lines_of(other) == lines

    run(play)


def test_lines_may_be_text_and_may_have_lost_their_ends():
    lines = exported(*turn())

    for spelt in (
        [line.decode() for line in lines],
        [line.rstrip(b"\n") for line in lines],
        [line.replace(b"\n", b"\r\n") for line in lines],
        [part for line in lines for part in (b"\n", line)],
        b"".join(lines).splitlines(),
    ):
        assert len(imported(spelt)[1]) == 7


def test_fields_of_a_later_version_are_no_hindrance():
    head, *rest = exported(*turn())

    assert len(imported([changed(head, later=1), *(changed(line, later=2) for line in rest)])[1]) == 7


def test_a_large_session_is_written_in_pieces(monkeypatch):
    lines = exported(*(MessageAdded(UserMessage("x" * 1000)) for _ in range(10)))
    sizes = []

    class Counting(MemoryStore):
        async def append(self, lease, drafts, **how):
            sizes.append(len(drafts))
            return await super().append(lease, drafts, **how)

    async def play():
        async with Counting() as store:
            await import_session(store, lines)
            return await store.read("s")

    monkeypatch.setattr(export, "_BATCH", 3500)
    assert len(asyncio.run(play())) == 10
    assert sizes == [3, 3, 3, 1]


def test_what_cannot_be_taken_along_is_said():
    async def play(store):
        await write(store, "s", *turn())
        await store.rename("s", "walk")
        fork = await store.fork("s", at=3)
        done = await import_session(store, await lines_of(store), id="copy")
        alone = await import_session(store, await lines_of(store, fork), id="alone")
        assert done.left_out == ("its name 'walk': another session is called 'walk': choose another name",)
        assert alone.left_out == ("its parent 's': the session is not a fork here and has all of its entries",)
        assert (await store.session("copy")).name == ""
        assert (await store.session("alone")).parent == ""

    run(play)
    odd = [changed(exported(*turn())[0], name="a\nb"), *exported(*turn())[1:]]
    assert "is not a name" in imported(odd)[0].left_out[0]


# --- what does not get in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage, told",
    [
        (lambda lines: lines[:-1], "had 7 entries, but the export has 6"),
        (lambda lines: [*lines[:3], *lines[4:]], "line 4: entry 4 is in the place of entry 3"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2: entry 2 is in the place of entry 1"),
        (lambda lines: [*lines, lines[-1]], "line 9: entry 7 is in the place of entry 8"),
        (lambda lines: [*lines, *lines], "line 9: there is no 'seq'"),
        (
            lambda lines: [lines[0], lines[1].replace(b"Oslo", b"Rome"), *lines[2:]],
            "line 2: entry 1 does not match its digest",
        ),
        (lambda lines: [lines[0], lines[1][:-20], *lines[2:]], "line 2: "),
        (lambda lines: [lines[0], changed(lines[1], digest="0" * 64), *lines[2:]], "does not match its digest"),
        (
            lambda lines: [lines[0], changed(lines[1], kind="run_ended"), *lines[2:]],
            "has the kind 'run_ended', but its body has 'message_added'",
        ),
        (lambda lines: [lines[0], changed(lines[1], body=..., body64="?"), *lines[2:]], "line 2: body64"),
        (lambda lines: [lines[0], changed(lines[1], body=...), *lines[2:]], "no 'body64'"),
        (lambda lines: [lines[0], changed(lines[1], time_ms="noon"), *lines[2:]], "line 2: "),
        (lambda lines: [changed(lines[0], head="7"), *lines[1:]], "line 1: "),
        (lambda lines: [changed(lines[0], session=...), *lines[1:]], "no 'session'"),
        (lambda lines: [lines[0], b"\xff\n", *lines[1:]], "line 2: "),
    ],
)
def test_damage_is_told_before_anything_is_written(damage, told):
    async def play(store):
        with pytest.raises(StoreCorrupt, match="(?s)" + told):
            await import_session(store, damage(lines))
        assert (await store.stats()).entries == 0
        assert (await store.lease("s")).head == 0

    lines = exported(*turn())
    run(play)


@pytest.mark.parametrize(
    "lines, told",
    [
        ([], "is empty"),
        (["\n"], "is empty"),
        ([f'{{"tenuto":"session","format":{EXPORT_FORMAT},"session":"s","head":0}}'], "no entries"),
        (['{"some":"thing"}'], "not an exported session"),
        (['{"tenuto":"settings"}'], "not an exported session"),
        ([f'{{"tenuto":"session","format":{EXPORT_FORMAT + 1}}}'], "later version"),
        ([f'{{"tenuto":"session","format":{EXPORT_FORMAT - 1}}}'], "earlier version"),
        (["hello"], "not an exported session"),
    ],
)
def test_what_is_no_export_is_refused(lines, told):
    async def play(store):
        with pytest.raises(StoreError, match=told):
            await import_session(store, lines)

    run(play)


def test_a_session_of_the_same_id_is_not_touched():
    lines = exported(*turn())

    async def play(store):
        mine = await write(store, "s", RunEnded("completed"))
        with pytest.raises(StoreError, match="already another session 's'"):
            await import_session(store, lines)
        assert same(await store.read("s"), mine)
        await import_session(store, lines, id="t")
        more = await write(store, "t", RunEnded("completed"))
        with pytest.raises(StoreError, match="already another session 't'"):
            await import_session(store, lines, id="t")
        assert (await store.read("t"))[-1].id == more[0].id

    run(play)


def test_what_is_no_id_is_refused():
    lines = exported(*turn())
    for id in ("../s", "a b"):
        with pytest.raises(ValueError, match="is not a session id"):
            imported(lines, id=id)
    with pytest.raises(ValueError, match="is not a session id"):
        imported([changed(lines[0], session="../s"), *lines[1:]])


def test_a_session_that_is_held_is_not_imported_into():
    lines = exported(*turn())
    memory = Memory()

    async def play():
        async with MemoryStore(memory) as store, MemoryStore(memory) as other:
            await other.lease("s")
            with pytest.raises(StoreError, match="in use"):
                await import_session(store, lines)

    asyncio.run(play())


def test_an_import_lets_go_even_if_it_fails():
    lines = exported(*turn())

    class Full(MemoryStore):
        async def append(self, lease, drafts, **how):
            raise StoreError("the disk is full")

    async def play():
        memory = Memory()
        async with Full(memory) as store, MemoryStore(memory) as other:
            with pytest.raises(StoreError, match="full"):
                await import_session(store, lines)
            await import_session(other, lines)

    asyncio.run(play())


def one_entry(**fields):
    """Return the lines of a session with one entry, some of whose fields are changed."""

    async def play(store):
        await store.append(await store.lease("s"), [make_draft(RunEnded("completed"), id="e1", time_ms=5)])
        first, line = await lines_of(store)
        head = {key: value for key, value in fields.items() if key in ("name", "session")}
        entry = {key: value for key, value in fields.items() if key not in head}
        return [json.dumps(json.loads(first) | head), json.dumps(json.loads(line) | entry, separators=(",", ":"))]

    return run(play)


@pytest.mark.parametrize(
    "fields", [{"id": "é 雨"}, {"id": "x" * 200}, {"time_ms": 0}, {"version": 9}, {"name": "~one"}]
)
def test_import_accepts_unusual_values(fields):
    lines = one_entry(**fields)

    async def play(store):
        done = await import_session(store, lines)
        (entry,) = await store.read("s")
        assert {key: getattr(entry, key, None) for key in fields if key != "name"} == {
            key: value for key, value in fields.items() if key != "name"
        }
        assert done.left_out == ()
        assert await store.verify() == []

    run(play)


FUTURE = time.time_ns() // 1_000_000 + 2 * 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    "fields",
    [
        {"time_ms": 2**62}, {"time_ms": -1}, {"time_ms": FUTURE}, {"version": 999}, {"version": -1}, {"version": 0}, {"id": ""},
        {"id": "x" * 1_000_000}, {"id": "a\0b"}, {"id": "a\nb"}, {"name": "last"}, {"name": "~1"}, {"session": "last"},
    ],
)  # fmt: skip
def test_import_refuses_values_out_of_range(fields):
    lines = one_entry(**fields)

    async def play(store):
        with pytest.raises((StoreCorrupt, ValueError)):
            await import_session(store, lines)
        assert (await store.sessions(archived=None)).sessions == ()

    run(play)


# --- several, and long ones -------------------------------------------------------------------------------------------


def test_several_sessions_stand_one_after_another():
    """Each is told by its own first line, also if it is the same one twice; an iterator can be gone through, too."""
    one, two = (
        exported(*turn(), name="walk"),
        [line.replace(b'"session":"s"', b'"session":"t"') for line in exported(*turn())],
    )
    lines = [*one, b"\n", *two, *one]

    async def play(store):
        done = [(each.session, each.entries) async for each in import_sessions(store, lines)]
        return done, await lines_of(store), [line async for line in export_session(store, "t")]

    found = check_export(iter(lines))

    assert [("s", 7, "walk"), ("t", 7, ""), ("s", 7, "walk")] == [
        (whole.session, whole.entries, whole.name) for whole in found
    ]
    assert ([("s", 7), ("t", 7), ("s", 7)], one, two) == run(play)
    assert 7 == imported(iter(one))[0].entries


@pytest.mark.parametrize(
    "spoil, told",
    [
        (lambda one, two: [*one[:-1], *two], "session 's' had 7 entries, but the export has 6"),
        (lambda one, two: [*one, *two[:-1]], "session 't' had 7 entries, but the export has 6"),
        (lambda one, two: [*one, one[-1], *two], "line 9: entry 7 is in the place of entry 8"),
        (lambda one, two: [*one, *two[1:]], "line 9: entry 1 is in the place of entry 8"),
    ],
)
def test_sessions_that_run_into_each_other_are_refused(spoil, told):
    one = exported(*turn())
    two = [line.replace(b'"session":"s"', b'"session":"t"') for line in one]
    with pytest.raises(StoreCorrupt, match=told):
        check_export(spoil(one, two))


def test_another_session_is_seen_before_anything_is_written():
    lines = exported(*turn())
    [whole] = check_export(lines)

    async def play(store):
        await check_no_other_session(store, whole)
        await import_session(store, lines)
        await check_no_other_session(store, whole)
        await write(store, "other", RunEnded("completed"))
        with pytest.raises(StoreError, match="already another session 'other'"):
            await check_no_other_session(store, whole, id="other")

    run(play)


@pytest.mark.parametrize("held, most", [(8_000_000, 128), (5_000, 8)])
def test_a_long_session_is_read_in_pieces(monkeypatch, held, most):
    """Small entries by the hundred; large ones by fewer, so that what is held at once stays bounded."""
    asked = []

    class Counting(MemoryStore):
        async def read(self, session, *, after=0, upto=None):
            entries = await super().read(session, after=after, upto=upto)
            asked.append(len(entries))
            return entries

    async def play():
        async with Counting() as store:
            await write(store, "s", *(MessageAdded(UserMessage("x" * 1000)) for _ in range(400)))
            asked.clear()
            return [json.loads(line)["seq"] for line in (await lines_of(store))[1:]]

    monkeypatch.setattr(export, "_BATCH", held)

    assert list(range(1, 401)) == asyncio.run(play())
    assert (400, most) == (sum(asked), max(asked))
