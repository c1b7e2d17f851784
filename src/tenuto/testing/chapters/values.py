"""Values: whatever can be said is stored and read back identical, here, elsewhere, and on the way."""

from __future__ import annotations

import pytest

from tenuto.core.blocks import Opaque, Text, ToolUse
from tenuto.core.inbox import Cancel, InboxItem, Steer, UnknownItem
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    Compacted,
    Configured,
    EntryDraft,
    EntryPayload,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    UnknownPayload,
    session_meta_of,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, Usage, UserMessage
from tenuto.errors import StoreError
from tenuto.store.export import export_session, import_session
from tenuto.store.memory import MemoryStore
from tenuto.store.protocol import BLOB, Store
from tenuto.testing.chapters.stage import Chapter, answer, draft, question, reply, same, turn, write

__all__ = ["Transfer", "Values"]

DIGITS = "1234567890" * 500
DEEP = "[" * 200 + "]" * 200
RAW_BYTES = b"\xff\xfe\x80 abc \xc3".decode("utf-8", "surrogateescape")
"""Bytes that are no UTF-8, as Python hands them on."""
CONTROL = "".join(map(chr, range(32))) + "\x7f\x85\x9b\u2028\u2029\ufeff\u202e"
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
    Compacted(3, (UserMessage("It rained."),), "too long"),
    HandedOver("other/model", "some/model", (LOSS,)),
    LossRecorded(LOSS),
    SubSessionLinked("other-session", "a", 0),
    RunEnded("completed", "all done"),
)


def odd_acts(odd: str) -> list[EntryPayload]:
    """Put a text wherever one may stand."""
    return [
        Configured(f"m{odd}", odd, "", "", odd),
        MessageAdded(UserMessage((Text(odd), Text(f"a{odd}b")), name=odd)),
        ReplyReceived(
            AssistantMessage((Text(odd), ToolUse(odd, "t", odd)), raw_stop_reason=odd), response_id=odd, cost=odd
        ),
        CallFinished(ToolResult(odd, f"{odd} {odd}"), 0),
        RunEnded(f"r{odd}", odd),
    ]


class Values(Chapter):
    """What comes back is what was written, byte for byte."""

    async def test_every_kind_of_entry(self, store: Store) -> None:
        await self._keeps(store, *EVERY_KIND)

    async def test_nul(self, store: Store) -> None:
        await self._keeps(store, *odd_acts("\0"), *odd_acts("a\0b"))

    async def test_half_characters(self, store: Store) -> None:
        await self._keeps(store, *odd_acts("\ud800"), *odd_acts("\udfff x \ud83d"))

    async def test_bytes_that_are_no_text(self, store: Store) -> None:
        opaque = Opaque("gemini", f'{{"inlineData":"{RAW_BYTES}"}}')
        await self._keeps(store, *odd_acts(RAW_BYTES), ReplyReceived(AssistantMessage((opaque,))))

    async def test_every_control_character(self, store: Store) -> None:
        await self._keeps(store, *odd_acts(CONTROL), *odd_acts("\U0010ffff\ufffe e\u0301 é"), *odd_acts(""))

    async def test_numbers_of_five_thousand_digits(self, store: Store) -> None:
        call = ToolUse("a", "count", f'{{"n": {DIGITS}, "x": 1.10, "y": 1e400, "z": -0.0}}')
        later = Opaque("", f'{{"block_type":"later","n":{DIGITS}}}')
        message = AssistantMessage(
            (call, later, Opaque("gemini", f'{{"n":-{DIGITS}.5e9}}')), unknown_fields=f'{{"n":{DIGITS}}}'
        )
        strange = UnknownPayload("later", f'{{"entry":"later","n":{DIGITS},"n":1e999,"x":1.10}}')
        await self._keeps(store, ReplyReceived(message), strange)

    async def test_nesting_two_hundred_deep(self, store: Store) -> None:
        call = ToolUse("a", "dig", DEEP)
        strange = UnknownPayload("deep", f'{{"entry":"deep","x":{DEEP[1:-1]}}}')
        await self._keeps(store, ReplyReceived(AssistantMessage((call, Opaque("gemini", DEEP)))), strange)

    async def test_bytes_of_a_later_version_are_not_rewritten(self, store: Store) -> None:
        """Spaces, escapes, repeated keys and raw half characters included."""
        raws = (
            '{ "entry" : "x" , "a" : 1, "a" : 2 }',
            '{"entry":"x","s":"\\u0041\\ud800"}',
            '{"entry":"x","s":"\ud800"}',
        )
        await self._keeps(
            store,
            *(UnknownPayload("x", raw) for raw in raws),
            UnknownPayload("", "{}"),
            UnknownPayload("x", '{\n"entry":"x"}'),
        )

    async def test_bodies_around_the_size_that_is_kept_apart(self, store: Store) -> None:
        bare = len(draft(question("")).body)
        acts = [question("x" * (BLOB - bare + more)) for more in (-1, 0, 1)]
        drafts = await self._keeps(store, *acts, *acts)

        assert [len(one.body) - BLOB for one in drafts] == [-1, 0, 1] * 2
        assert (await store.stats()).blobs == 1

    async def test_a_value_of_a_hundred_megabytes(self, store: Store) -> None:
        drafts = await write(store, "s", question("0123456789abcde\n" * (self.large // 16)), answer())

        assert same(await store.read("s"), drafts)
        assert (await store.session("s")).meta.title.startswith("0123456789abcde 0123456789abcde")
        assert (await store.stats()).blob_bytes > self.large
        await store.delete("s")
        assert (await store.gc()) >= 0

    async def _keeps(self, store: Store, *acts: EntryPayload | UnknownPayload) -> list[EntryDraft]:
        """Write, and read from the place itself: by another handle, where there can be one."""
        drafts = await write(store, "s", *acts)
        reader = await self.another() if self.shared else store
        entries = await reader.read("s")

        assert same(entries, drafts)
        shown = await reader.session("s")
        assert shown.meta == session_meta_of("s", entries)
        assert (await reader.sessions(agent=shown.meta.agent, status=shown.meta.status)).sessions == (shown,)
        assert await reader.verify() == []
        return drafts


class Transfer(Chapter):
    """Out of one store and into another, and nothing is different."""

    async def test_a_session_goes_to_another_store_and_comes_back(self, store: Store) -> None:
        acts = [
            *EVERY_KIND,
            *odd_acts("\0\ud800"),
            question("rain " * BLOB),
            UnknownPayload("x", '{"entry":"x","s":"\ud800"}'),
        ]
        drafts = await write(store, "s", *acts)
        await store.rename("s", "walk")
        await store.archive("s")
        lines = [line async for line in export_session(store, "s")]
        async with MemoryStore() as elsewhere:
            await import_session(elsewhere, lines)
            back = [line async for line in export_session(elsewhere, "s")]
            there = await elsewhere.session("s")
        shown = await store.session("s")

        assert back == lines
        assert (there.meta, there.name, there.archived, there.head) == (shown.meta, "walk", True, shown.head)
        await store.delete("s")
        done = await import_session(store, back)
        assert (done.session, done.entries, done.left_out) == ("s", len(drafts), ())
        assert same(await store.read("s"), drafts)
        assert await store.session("s") == shown

    async def test_inbox_items_are_exported_and_imported(self, store: Store) -> None:
        items: list[InboxItem | UnknownItem] = [
            Steer(UserMessage("Hurry.\n\u2028")),
            Cancel(),
            UnknownItem("x", '{"item":"x","s":"\ud800"}'),
        ]
        [entry] = await write(store, "s")
        ids = [await store.post("s", item) for item in items]
        lines = [line async for line in export_session(store, "s")]
        async with MemoryStore() as elsewhere:
            for _ in range(2):
                await import_session(elsewhere, lines)
            there = await elsewhere.inbox("s")
        await store.delete("s")
        await import_session(store, lines)

        for posted in (there, await store.inbox("s")):
            assert [(one.id, one.item) for one in posted] == list(zip(ids, items, strict=True))
        assert same(await store.read("s"), [entry])
        for wrong in (lines[:-1], [*lines[:2], *lines[3:], lines[2]], [lines[0], *lines[2:], lines[1]]):
            with pytest.raises(StoreError):
                await import_session(store, wrong, id="t")

    async def test_a_copy_under_another_id(self, store: Store) -> None:
        drafts = await write(store, "s", *turn())
        await store.rename("s", "walk")
        fork = await store.fork("s", at=4)
        copied = await import_session(store, [line async for line in export_session(store, "s")], id="copy")
        alone = await import_session(store, [line async for line in export_session(store, fork)], id="alone")

        assert same(await store.read("copy"), drafts)
        assert len(copied.left_out) == 1  # two cannot have one name
        assert same(await store.read("alone"), drafts[:4])
        assert "s" in alone.left_out[0]
        await store.delete("s", children=True)
        assert same(await store.read("alone"), drafts[:4])
        assert await store.verify() == []

    async def test_an_import_that_was_cut_off_is_taken_up(self, store: Store) -> None:
        drafts = await write(store, "s", *turn())
        lines = [line async for line in export_session(store, "s")]
        await store.delete("s")
        await store.append(await store.lease("s"), drafts[:3])
        await store.release(await store.lease("s", takeover=True))
        for _ in range(2):
            await import_session(store, lines)
            assert same(await store.read("s"), drafts)

    async def test_what_is_out_stands_for_what_was_in(self, store: Store) -> None:
        """An entry a line, each with its digest."""
        await write(store, "s", question("\n\r\u2028"), reply("a"))
        lines = [line async for line in export_session(store, "s")]

        assert [line.count(b"\n") for line in lines] == [1, 1, 1]
        for line, entry in zip(lines[1:], await store.read("s"), strict=True):
            assert entry.digest.encode() in line
            assert entry.body in line
