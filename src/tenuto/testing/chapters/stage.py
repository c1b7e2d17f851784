"""What every chapter stands on: a store that is opened for each test, drafts to write, a clock to move."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeAlias

import pytest

from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import (
    VERSION,
    CallFinished,
    CallStarted,
    Entry,
    EntryDraft,
    EntryPayload,
    MessageAdded,
    ReplyReceived,
    UnknownPayload,
)
from tenuto.core.messages import AssistantMessage, ToolResult, Usage, UserMessage
from tenuto.core.stored import make_draft
from tenuto.store.protocol import Lease, Store

__all__ = [
    "Chapter",
    "Clock",
    "answer",
    "draft",
    "outcome",
    "question",
    "reply",
    "result",
    "same",
    "turn",
    "write",
]

_EPOCH = 1_700_000_000_000
_numbers = itertools.count(1)

Scene: TypeAlias = Callable[[Any, Store], Awaitable[None]]


class Clock:
    """Tells the time in milliseconds since 1970, and moves only when it is told to."""

    def __init__(self) -> None:
        self.now = _EPOCH

    def __call__(self) -> int:
        return self.now

    def move(self, milliseconds: int) -> None:
        """Go forward, or back."""
        self.now += milliseconds


class Chapter:
    """Tests of one side of a store. Each gets a store that is open and empty, and is run in an event loop of its own."""

    shared: ClassVar[bool] = True
    """Whether `open`, called again within a test, gives another handle on the same sessions."""
    timed: ClassVar[bool] = False
    """Whether the store goes by `self.clock`."""
    ttl_ms: ClassVar[int] = 60_000
    """How long a lease of the store holds."""
    large: ClassVar[int] = 100 * 1024 * 1024
    """How many bytes the largest value has."""
    examples: ClassVar[int] = 25
    """How many random stories are played on the store and in memory."""

    clock: Clock
    _stack: contextlib.AsyncExitStack

    async def open(self) -> Store:
        """Open the store: an empty place at the first call of a test, the same place at every other."""
        raise NotImplementedError

    async def open_elsewhere(self) -> Store:
        """Open the same place as another machine would, without the locks of this one. Without it, the tests are skipped."""
        pytest.skip("the store cannot be opened as from another machine")

    async def damage(self, session: str, seq: int) -> None:
        """Change the stored bytes of an entry behind the store's back. A store that cannot be got at skips the tests."""
        pytest.skip(f"nobody says how to damage entry {seq} of {session}")

    def __init_subclass__(cls) -> None:
        for name, scene in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(scene):
                setattr(cls, name, _played(scene))

    async def another(self) -> Store:
        """Open the same place once more, as another process would."""
        if not self.shared:
            pytest.skip("the store can be opened only once")
        return await self._stack.enter_async_context(await self.open())

    async def play(self, scene: Scene) -> None:
        """Run one test; whatever it opened is closed."""
        self.clock = Clock()
        async with contextlib.AsyncExitStack() as self._stack:
            store = await self._stack.enter_async_context(await self.open())
            await scene(self, store)


def _played(scene: Scene) -> Callable[[Any], None]:
    def play(self: Chapter) -> None:
        asyncio.run(self.play(scene))

    play.__name__, play.__qualname__, play.__doc__ = scene.__name__, scene.__qualname__, scene.__doc__
    return play


# --- things to write --------------------------------------------------------------------------------------------------


def draft(act: EntryPayload | UnknownPayload, *, id: str = "", version: int = VERSION) -> EntryDraft:
    """Make a draft; every one is a second younger than the one before."""
    number = next(_numbers)
    return make_draft(act, id=id or f"draft-{number}", time_ms=_EPOCH + 1000 * number, version=version)


def question(text: str = "What is the weather in Oslo?") -> MessageAdded:
    """Something that a user says."""
    return MessageAdded(UserMessage(text))


def answer(text: str = "Rain.") -> ReplyReceived:
    """Something that a model says."""
    return ReplyReceived(AssistantMessage((Text(text),), "stop"), Usage(input_tokens=5, output_tokens=2))


def reply(*calls: str) -> ReplyReceived:
    """A reply that calls tools, by the ids of the calls."""
    blocks = tuple(ToolUse(call, "weather", '{"city": "Oslo"}') for call in calls)
    return ReplyReceived(AssistantMessage(blocks, "tool_calls"), Usage(input_tokens=7, output_tokens=3))


def result(call: str, ordinal: int, text: str = "12 degrees") -> CallFinished:
    """What came of a call."""
    return CallFinished(ToolResult(call, text), ordinal)


def turn() -> list[EntryPayload]:
    """A question, two calls, their results the other way round, and an answer."""
    acts: list[EntryPayload] = [question(), reply("a", "b"), CallStarted("a", 0), CallStarted("b", 1)]
    return [*acts, result("b", 1), result("a", 0), answer()]


async def write(store: Store, session: str, *acts: EntryPayload | UnknownPayload) -> list[EntryDraft]:
    """Append acts to a session, one by one in one transaction, under a lease of its own."""
    drafts = [draft(act) for act in acts or (question(),)]
    lease = await store.lease(session)
    await store.append(lease, drafts)
    await store.release(lease)
    return drafts


def same(entries: list[Entry], drafts: list[EntryDraft], *, first: int = 1) -> bool:
    """Tell whether these are the entries that the drafts became."""
    return [
        (entry.seq, entry.id, entry.time_ms, entry.kind, entry.body, entry.digest, entry.payload, entry.version)
        for entry in entries
    ] == [
        (seq, draft.id, draft.time_ms, draft.kind, draft.body, draft.digest, draft.payload, draft.version)
        for seq, draft in enumerate(drafts, first)
    ]


def outcome(results: list[Lease | BaseException]) -> tuple[int, list[BaseException]]:
    """Count what went well, and return what did not."""
    failed = [result for result in results if isinstance(result, BaseException)]
    return len(results) - len(failed), failed
