"""Values: every value is read back as it was written, in this store and after an export and an import."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.core.blocks import Opaque, Text, ToolUse
from tenuto.core.inbox import Cancel, Steer, UnknownItem
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    Compacted,
    CompactionRequested,
    Configured,
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
from tenuto.testing.store_suite.helpers import (
    StoreTests,
    answer,
    draft,
    expect_error,
    question,
    reply,
    same,
    turn,
    write,
)

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
        assert await reader.verify() == []

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
        assert await store.verify() == []
        lines = await export(store, "copy")
        await store.append(await store.lease("s"), drafts[:3], release=True)
        for _ in range(2):
            await import_session(store, lines, id="s")
            assert same(await store.read("s"), drafts)
