"""Appending and the inbox; and values, which are read back as they were written, also after an export and an import."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from tenuto.core.blocks import Opaque, Text, ToolUse
from tenuto.core.inbox import Cancel, Decision, Finished, InboxItem, Prompt, Steer, UnknownItem
from tenuto.core.journal import (
    OLDEST_VERSION,
    VERSION,
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    Compacted,
    CompactionRequested,
    Configured,
    EntryDraft,
    EntryPayload,
    HandedOver,
    LossRecorded,
    MessageAdded,
    MetadataChanged,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    UnknownPayload,
    session_meta_of,
    unknown_payloads_in,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, Usage, UserMessage
from tenuto.errors import InboxNotEmpty, LeaseLost, SessionNotFound, StoreError
from tenuto.store.export import export_session, import_session
from tenuto.store.memory import MemoryStore
from tenuto.store.protocol import BLOB, Lease, Store
from tenuto.testing.store_suite.helpers import (
    StoreTests,
    add,
    answer,
    draft,
    expect_error,
    question,
    reply,
    same,
    start,
    turn,
    write,
)

ITEMS: tuple[InboxItem | UnknownItem, ...] = (
    Prompt(UserMessage("And in Bergen?"), key="job-7"),
    Steer(UserMessage("In Celsius.")),
    Decision("call", 1, allowed=False, reason="not today", reply_seq=4),
    Cancel("enough"),
    Finished("child", UserMessage("It is done."), usage=Usage(input_tokens=3), cost="0.25"),
    UnknownItem("dream", '{"item":"dream","of":{"electric":"sheep"}}'),
    *(Steer(UserMessage(text)) for text in ("x" * (BLOB + 1), "a\0b", "\ud800", "\U0001f600\u202e")),
)


class EntryTests(StoreTests):
    async def test_append_numbers_the_entries(self, store: Store) -> None:
        for session, size in (("at-once", 7), ("one-by-one", 1)):
            drafts = [draft(payload) for payload in turn()]
            first = lease = await store.lease(session)
            for at in range(0, 7, size):
                lease = await store.append(lease, drafts[at : at + size])
            entries = await store.read(session)

            assert same(entries, drafts)
            assert {entry.fence for entry in entries} == {first.fence}
            assert (lease.session, lease.owner, lease.fence, lease.head) == (session, first.owner, first.fence, 7)

    async def test_append_sent_again_is_stored_once(self, store: Store) -> None:
        before = await store.lease("s")
        drafts = [draft(question()), draft(answer())]
        after = await store.append(before, drafts)
        again = await store.append(before, drafts)
        with contextlib.suppress(StoreError):  # with the newer lease, it may be refused
            await store.append(after, drafts)
        await store.append(again, [last := draft(question("And now?"))])

        assert again.head == 2
        await expect_error(StoreError, store.append(before, drafts))  # another append has followed
        assert same(await store.read("s"), [*drafts, last])

    async def test_append_at_an_old_head_is_refused(self, store: Store) -> None:
        before = await store.lease("s")
        first = draft(question())
        await store.append(before, [first])
        for others in ([draft(answer())], [first, draft(answer())], [draft(answer(), id=first.id)]):
            await expect_error(StoreError, store.append(before, others))

        assert same(await store.read("s"), [first])

    async def test_append_with_a_used_id_writes_nothing(self, store: Store, other: Store) -> None:
        """Whether the id was used in the same append, just before or long ago, and by which holder."""
        drafts = [draft(question(str(number))) for number in range(40)]
        lease = await store.lease("s")
        for one in drafts:
            lease = await store.append(lease, [one])
        twice = draft(answer())
        for _ in range(2):
            used = [draft(answer(), id=drafts[at].id) for at in (0, 20, 39)]
            for wrong in (*([one] for one in used), *([draft(answer()), one] for one in used), [twice, twice]):
                await expect_error(StoreError, store.append(lease, wrong))
            store, lease = other, await other.lease("s", takeover=True)

        assert (await store.append(lease, [last := draft(answer())])).head == 41
        assert same(await store.read("s"), [*drafts, last])

    async def test_readers_see_each_entry(self, store: Store, other: Store) -> None:
        """In the session, in lists, by its words, as the last session, and in a fork."""
        await write(store, "older", question())
        lease = await store.lease("s")
        payloads: list[EntryPayload] = [Configured("sim/one", agent="helper"), *turn(), RunEnded("completed"), *turn()]
        for payload in payloads:
            lease = await add(store, lease, payload)
            entries = await other.read("s")
            shown = (await other.sessions()).sessions[0]

            assert shown == await other.session("s")
            assert (shown.id, shown.head, shown.meta) == ("s", lease.head, session_meta_of("s", entries))
            assert [one.id for one in (await other.sessions(status="running", agent="helper")).sessions] == ["s"]
        assert (shown.meta.title, shown.meta.message_count) == ("What is the weather in Oslo?", 8)
        assert shown.meta.usage.total_tokens == 34
        assert await other.find("last") == "s"
        assert {hit.seq for hit in await other.search("rain")} == {e.seq for e in entries if e.payload == answer()}
        assert [entry.id for entry in await other.read(await other.fork("s"))] == [entry.id for entry in entries]
        await add(store, lease, question("Is this a heron?"))
        assert [hit.session for hit in await other.search("heron")] == ["s"]

    async def test_concurrent_appends_are_stored_once(self, store: Store) -> None:
        """Many sessions at the same time; of two appends at the same head, one is refused."""

        async def write_each(session: str) -> bool:
            lease, drafts = await store.lease(session), list[EntryDraft]()
            for number in range(3):
                pair = [[draft(question(f"{number}")), draft(answer())] for _ in range(2)]
                results = await asyncio.gather(*(store.append(lease, one) for one in pair), return_exceptions=True)
                [lease] = [result for result in results if isinstance(result, Lease)]
                assert sum(isinstance(result, StoreError) for result in results) == 1
                drafts += pair[results.index(lease)]
            return same(await store.read(session), drafts)

        assert all(await asyncio.gather(*(write_each(f"s{number}") for number in range(12))))

    async def test_cancelled_append_is_atomic(self, store: Store) -> None:
        lease = await store.lease("s")
        drafts = [draft(payload) for payload in turn()]
        task = asyncio.ensure_future(store.append(lease, drafts))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

        assert (await store.append(lease, drafts)).head == len(drafts)
        assert same(await store.read("s"), drafts)

    async def test_entries_of_a_later_version_are_stored(self, store: Store) -> None:
        later = UnknownPayload("dreamt", '{"entry":"dreamt","of":{"electric":"sheep"}}')
        drafts = [draft(question()), draft(later), draft(answer(), version=VERSION + 1)]
        await store.append(await store.lease("s"), drafts)
        entries = await store.read("s")

        assert same(entries, drafts)
        assert [entry.seq for entry in unknown_payloads_in(entries)] == [2, 3]
        assert await store.verify("s") == []

    async def test_entries_of_an_earlier_version_are_refused(self, store: Store) -> None:
        self.is_sound = False
        earlier = UnknownPayload("said", '{"entry":"said","message":{"role":"user","content":"Hi"}}')
        await store.append(await store.lease("s"), [draft(question()), draft(earlier, version=OLDEST_VERSION - 1)])

        assert len(await store.read("s", upto=1)) == 1
        message = f"entry 2 of session 's'.*earlier version.*{OLDEST_VERSION - 1}.*{VERSION}"
        await expect_error(StoreError, store.read("s"), match=message)
        assert [(one.seq, "earlier version" in one.what) for one in await store.verify("s")] == [(2, True)]

    # --- inbox ---

    async def test_items_are_read_as_they_were_posted(self, store: Store, other: Store) -> None:
        for session in ("s", "t", "silent"):
            await write(store, session)
        assert await store.posted() == {}
        ids = [await store.post("s", item) for item in ITEMS]
        await store.post("t", Cancel())
        items, [of_another] = await other.inbox("s"), await other.inbox("t")
        numbers = [posted.number for posted in items]

        assert tuple(posted.item for posted in items) == ITEMS
        assert [posted.id for posted in items] == ids
        assert len({*ids}) == len(ITEMS)
        assert numbers == sorted({*numbers})
        assert all(posted.time_ms > 0 for posted in items)
        assert await other.posted() == {"s": numbers[-1], "t": of_another.number}

    async def test_invalid_posts_are_refused(self, store: Store) -> None:
        await store.lease("empty")
        await write(store, "s")
        for session in ("nothing", "empty", "", "../a"):
            await expect_error(SessionNotFound, store.post(session, Cancel()), store.inbox(session))
        await expect_error(ValueError, *(store.post("s", Cancel(), id=id) for id in ("a\n", "x" * 201)), match="id")
        assert await store.posted() == {}

    async def test_same_id_is_posted_once(self, store: Store, other: Store) -> None:
        ids = [f"item-{number}" for number in range(12)]
        for session in ("s", "t"):
            await write(store, session)
            assert await store.post(session, Cancel("first"), id="item-0") == "item-0"
            await asyncio.gather(*(handle.post(session, Cancel(), id=id) for id in ids for handle in (store, other)))

            items = await store.inbox(session)
            assert items[0].item == Cancel("first")
            assert sorted(posted.id for posted in items) == sorted(ids)

    async def test_append_takes_items(self, store: Store) -> None:
        for session in ("s", "t"):
            await write(store, session)
            for _ in range(3):
                await store.post(session, Cancel())
        first, second, third = await store.inbox("s")
        of_another = await store.inbox("t")
        lease, drafts = await store.lease("s"), [draft(answer(), id=second.id)]
        taking = [second.number, *(posted.number for posted in of_another)]
        taken = await store.append(lease, drafts, taking=taking)

        assert await store.inbox("s") == [first, third]
        assert await store.inbox("t") == of_another
        assert (await store.read("s"))[-1].id == second.id
        assert await store.post("s", Cancel(), id=second.id) == second.id  # it is an entry now
        assert (await store.append(lease, drafts, taking=taking, unless_posted=True)).head == 2  # it is stored
        assert await store.inbox("s") == [first, third]
        await store.append(taken, [], taking=[first.number, third.number])
        assert await store.inbox("s") == []
        assert [*await store.posted()] == ["t"]

    async def test_inbox_numbers_are_not_used_twice(self, store: Store) -> None:
        """A process that saw number N looks again only for a higher one."""
        lease, seen = await start(store, "s"), list[int]()
        for _ in range(3):
            await store.post("s", Cancel())
            [posted] = await store.inbox("s")
            seen.append(posted.number)
            lease = await store.append(lease, [], taking=seen[-1:])

        assert seen == sorted({*seen})

    async def test_fork_has_no_inbox(self, store: Store) -> None:
        [shared, later] = await write(store, "s", question(), answer())
        await store.post("s", Cancel(), id="item")
        fork = await store.fork("s", at=1)

        assert await store.inbox(fork) == []
        for id in (shared.id, later.id, "item"):
            await store.post(fork, Cancel(), id=id)
        assert [posted.id for posted in await store.inbox(fork)] == [later.id, "item"]
        assert len(await store.inbox("s")) == 1

    async def test_refused_append_takes_nothing(self, store: Store) -> None:
        drafts = await write(store, "s")
        for _ in range(2):
            await store.post("s", Cancel())
        items = await store.inbox("s")
        first, second = (posted.number for posted in items)
        lease = await store.lease("s")
        await expect_error(StoreError, store.append(lease, [draft(answer(), id=drafts[0].id)], taking=[first]))
        for taking in ([], [first]):
            await expect_error(
                InboxNotEmpty, add(store, lease, answer(), taking=taking, unless_posted=True, release=True)
            )
        taken = await store.lease("s", takeover=True)
        await expect_error(LeaseLost, add(store, lease, answer(), taking=[first]))

        assert await store.inbox("s") == items
        assert same(await store.read("s"), drafts)
        last = [draft(answer())]
        await store.append(taken, last, taking=[first, second], unless_posted=True, release=True)
        assert same(await store.read("s"), drafts + last)
        assert (await store.session("s")).holder == ""


DIGITS = "1234567890" * 500
DEEP = "[" * 200 + "]" * 200
RAW_BYTES = b"\xff\xfe\x80 abc \xc3".decode("utf-8", "surrogateescape")
CONTROL = "".join(map(chr, range(32))) + "\x7f\x85\x9b\u2028\u2029\ufeff\u202e"
ODD_TEXTS = ("\0", "a\0b", "\ud800", "\udfff x \ud83d", RAW_BYTES, CONTROL, "\U0010ffff\ufffe e\u0301 é", "")
LOSS = Loss("tool_choice", Location(path="tool_choice"), "required", "ask again")
EVERY_KIND: tuple[EntryPayload, ...] = (
    Configured("some/model", "Be brief.", '{"temperature":1.10}', '[{"name":"weather"}]', "scout"),
    MessageAdded(SystemMessage("Be kind.")),
    *turn(),
    RequestStarted("some/model", "0" * 64, 3, 2),
    RequestFailed("RateLimited", "slow down", 2, retryable=True, usage=Usage(input_tokens=1)),
    ApprovalRequested("a", 0, "weather"),
    ApprovalDecided("a", 0, allowed=False, reason="too wet"),
    SteeringAdded(UserMessage("Hurry.")),
    CompactionRequested("some/model", 3, "model", "the weather", 1000, "0" * 64, 3, "account"),
    RequestFailed("NoSummary", "it is empty", purpose="compaction"),
    Compacted(3, (UserMessage("It rained."),), "too long"),
    Compacted(
        3,
        (),
        "user",
        "It rained.",
        (reply().message,),
        cleared=(2,),
        usage=Usage(input_tokens=1),
        cost="0.1",
        model="m",
    ),
    HandedOver("other/model", "some/model", (LOSS,)),
    LossRecorded(LOSS),
    SubSessionLinked("other-session", "a", 0),
    MetadataChanged({"customer": "42"}),
    RunEnded("completed", "all done"),
)
BLOCKS = (
    ToolUse("a", "count", f'{{"n": {DIGITS}, "x": 1.10, "y": 1e400, "z": -0.0}}'),
    ToolUse("b", "dig", DEEP),
    Opaque("", f'{{"block_type":"later","n":{DIGITS}}}'),
    Opaque("gemini", f'{{"n":-{DIGITS}.5e9}}'),
    Opaque("gemini", DEEP),
    Opaque("gemini", f'{{"inlineData":"{RAW_BYTES}"}}'),
)
LATER_VERSION = (
    UnknownPayload("later", f'{{"entry":"later","n":{DIGITS},"n":1e999,"x":1.10}}'),
    UnknownPayload("deep", f'{{"entry":"deep","x":{DEEP[1:-1]}}}'),
    UnknownPayload("x", '{ "entry" : "x" , "a" : 1, "a" : 2 }'),
    UnknownPayload("x", '{"entry":"x","s":"\\u0041\\ud800"}'),
    UnknownPayload("x", '{"entry":"x","s":"\ud800"}'),
    UnknownPayload("x", '{\n"entry":"x"}'),
    UnknownPayload("", "{}"),
)
"""Entries whose bytes must not be rewritten: spaces, escapes, repeated keys and unpaired surrogates included."""


def with_text(text: str) -> list[EntryPayload]:
    """Put a text into every field that takes one."""
    message = AssistantMessage((Text(text), ToolUse(text, "t", text)), raw_stop_reason=text)
    return [
        Configured(f"m{text}", text, "", "", text),
        MessageAdded(UserMessage((Text(text), Text(f"a{text}b")), name=text)),
        ReplyReceived(message, response_id=text, cost=text),
        CallFinished(ToolResult(text, f"{text} {text}"), 0),
        RunEnded(f"r{text}", text),
    ]


async def export(store: Store, session: str) -> list[bytes]:
    return [line async for line in export_session(store, session)]


class ValueTests(StoreTests):
    async def test_values_are_stored_byte_for_byte(self, store: Store) -> None:
        """They are read by another handle, if there can be one."""
        reader = await self.another() if self.shared else store
        extreme = ReplyReceived(AssistantMessage(BLOCKS, unknown_fields=f'{{"n":{DIGITS}}}'))
        cases: list[Sequence[EntryPayload | UnknownPayload]] = [EVERY_KIND, [extreme], LATER_VERSION]
        cases += [with_text(text) for text in ODD_TEXTS]
        for number, payloads in enumerate(cases):
            drafts = await write(store, f"s{number}", *payloads)
            entries, shown = await reader.read(f"s{number}"), await reader.session(f"s{number}")
            assert same(entries, drafts)
            assert shown.meta == session_meta_of(shown.id, entries)
            assert shown in (await reader.sessions(agent=shown.meta.agent, status=shown.meta.status)).sessions

    async def test_bodies_around_the_size_of_a_blob(self, store: Store) -> None:
        bare = len(draft(question("")).body)
        payloads = [question("x" * (BLOB - bare + more)) for more in (-1, 0, 1)]
        drafts = await write(store, "s", *payloads, *payloads)

        assert same(await store.read("s"), drafts)
        assert [len(one.body) - BLOB for one in drafts] == [-1, 0, 1] * 2
        assert (await store.stats()).blobs == 1

    async def test_very_large_value(self, store: Store) -> None:
        drafts = await write(store, "s", question("0123456789abcde\n" * (self.large // 16)), answer())

        assert same(await store.read("s"), drafts)
        assert (await store.session("s")).meta.title.startswith("0123456789abcde 0123456789abcde")
        assert (await store.stats()).blob_bytes > self.large
        await store.delete("s")
        assert (await store.gc()) >= 0

    async def test_session_is_the_same_after_export_and_import(self, store: Store) -> None:
        large = question("rain " * BLOB)
        drafts = await write(store, "s", *EVERY_KIND, *with_text("\0\ud800"), large, LATER_VERSION[4])
        items = (Steer(UserMessage("Hurry.\n\u2028")), Cancel(), UnknownItem("x", '{"item":"x","s":"\ud800"}'))
        ids = [await store.post("s", item) for item in items]
        await store.rename("s", "walk")
        await store.archive("s")
        lines, shown = await export(store, "s"), await store.session("s")
        async with MemoryStore() as elsewhere:
            for _ in range(2):  # the second import finds everything
                await import_session(elsewhere, lines)
            back, there = await export(elsewhere, "s"), await elsewhere.session("s")

        assert [line.count(b"\n") for line in lines] == [1] * (1 + len(drafts) + len(items))
        assert all(one.digest.encode() in line for line, one in zip(lines[1:], drafts, strict=False))
        assert [line for line in back if b'"item":' not in line] == [line for line in lines if b'"item":' not in line]
        assert (there.meta, there.name, there.archived, there.head) == (shown.meta, "walk", True, shown.head)
        await store.delete("s")
        done = await import_session(store, back)
        assert (done.session, done.entries, done.left_out) == ("s", len(drafts), ())
        assert same(await store.read("s"), drafts)
        assert await store.session("s") == shown
        assert [(one.id, one.item) for one in await store.inbox("s")] == list(zip(ids, items, strict=True))
        for wrong in (lines[:-1], [*lines[:2], *lines[3:], lines[2]], [lines[0], *lines[2:], lines[1]]):
            await expect_error(StoreError, import_session(store, wrong, id="t"))

    async def test_session_is_imported_under_another_id(self, store: Store) -> None:
        """An import that was interrupted is continued."""
        drafts = await write(store, "s", question("\n\r\u2028"), reply("a"), *turn())
        await store.rename("s", "walk")
        fork = await store.fork("s", at=4)
        copied = await import_session(store, await export(store, "s"), id="copy")
        alone = await import_session(store, await export(store, fork), id="alone")

        assert same(await store.read("copy"), drafts)
        assert len(copied.left_out) == 1  # the name of the other session
        assert "s" in alone.left_out[0]
        await store.delete("s", children=True)
        assert same(await store.read("alone"), drafts[:4])
        lines = await export(store, "copy")
        await store.append(await store.lease("s"), drafts[:3], release=True)
        for _ in range(2):
            await import_session(store, lines, id="s")
            assert same(await store.read("s"), drafts)
