"""The base class of the tests, a clock, and entries to write."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
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

_EPOCH = 1_700_000_000_000
_numbers = itertools.count(1)

StoreTest: TypeAlias = Callable[..., Awaitable[None]]


class Clock:
    """Returns milliseconds since 1970; it moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = _EPOCH

    def __call__(self) -> int:
        return self.now

    def move(self, milliseconds: int) -> None:
        self.now += milliseconds


class StoreTests:
    """Each test gets an open, empty store and runs in its own event loop. After the test, `verify` finds no problem.

    A parameter `other` is another handle on the same sessions, as another process has; `elsewhere` that of another machine.
    """

    shared: ClassVar[bool] = True
    """Whether `open`, called again within a test, returns another handle on the same sessions."""
    timed: ClassVar[bool] = False
    """Whether the store uses `self.clock`."""
    ttl_ms: ClassVar[int] = 60_000
    """The time of a lease."""
    large: ClassVar[int] = 100 * 1024 * 1024
    """The size of the largest value in bytes."""

    is_sound: bool = True
    """A test sets it to False if it leaves damaged sessions."""
    clock: Clock
    _stack: contextlib.AsyncExitStack

    async def open(self) -> Store:
        """Open the store: an empty location at the first call of a test, then the same location."""
        raise NotImplementedError

    async def open_elsewhere(self) -> Store:
        """Open the location as another machine would, without the locks of this one."""
        pytest.skip("the store cannot be opened as from another machine")

    async def damage(self, session: str, seq: int) -> None:
        """Change the stored bytes of an entry without the store."""
        pytest.skip(f"the class has no `damage` to change entry {seq} of {session}")

    def __init_subclass__(cls) -> None:
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _in_event_loop(test))

    async def another(self) -> Store:
        """Open the location again, as another process would."""
        if not self.shared:
            pytest.skip("the store can be opened only once")
        return await self._stack.enter_async_context(await self.open())

    async def another_machine(self) -> Store:
        """Open the location as another machine would; skip the test if it needs another clock."""
        self.require_clock()
        return await self._stack.enter_async_context(await self.open_elsewhere())

    def require_clock(self) -> None:
        if not self.timed:
            pytest.skip("the store has its own clock")

    async def run(self, test: StoreTest, handles: Sequence[str] = ()) -> None:
        """Run one test with a store and these other handles, and close all stores that it opened."""
        self.clock, self.is_sound = Clock(), True
        openers = {"other": self.another, "elsewhere": self.another_machine}
        async with contextlib.AsyncExitStack() as self._stack:
            store = await self._stack.enter_async_context(await self.open())
            others = [await openers[name]() for name in handles]
            await test(self, store, *others)
            if self.is_sound:
                assert await [store, *others][-1].verify() == []


def _in_event_loop(test: StoreTest) -> Callable[[Any], None]:
    """Return a test for pytest. The parameters after the store are other handles on the same sessions."""
    _, _, *handles = inspect.signature(test).parameters

    @functools.wraps(test, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def run(self: StoreTests) -> None:
        asyncio.run(self.run(test, handles))

    del run.__wrapped__  # pytest would ask for the parameters of the test
    return run


async def expect_error(error: type[Exception], *calls: Coroutine[Any, Any, object], match: str | None = None) -> Any:
    """Check that each call raises this error; return the last one."""
    try:
        for number, call in enumerate(calls):
            with pytest.raises(error, match=match) as raised:
                pytest.fail(f"call {number} was not refused and returned {await call!r}")
    finally:
        for call in calls:
            call.close()
    return raised.value


def draft(payload: EntryPayload | UnknownPayload, *, id: str = "", version: int = VERSION) -> EntryDraft:
    """Make a draft, a second later than the one before."""
    number = next(_numbers)
    return make_draft(payload, id=id or f"draft-{number}", time_ms=_EPOCH + 1000 * number, version=version)


def question(text: str = "What is the weather in Oslo?") -> MessageAdded:
    return MessageAdded(UserMessage(text))


def answer(text: str = "Rain.") -> ReplyReceived:
    return ReplyReceived(AssistantMessage((Text(text),), "stop"), Usage(input_tokens=5, output_tokens=2))


def reply(*calls: str) -> ReplyReceived:
    """Make a reply that calls tools, by the ids of the calls."""
    blocks = tuple(ToolUse(call, "weather", '{"city": "Oslo"}') for call in calls)
    return ReplyReceived(AssistantMessage(blocks, "tool_calls"), Usage(input_tokens=7, output_tokens=3))


def result(call: str, index: int, text: str = "12 degrees") -> CallFinished:
    return CallFinished(ToolResult(call, text), index)


def turn() -> list[EntryPayload]:
    """Make a question, two calls, their results in the other order, and an answer."""
    calls: list[EntryPayload] = [question(), reply("a", "b"), CallStarted("a", 0), CallStarted("b", 1)]
    return [*calls, result("b", 1), result("a", 0), answer()]


async def write(store: Store, session: str, *payloads: EntryPayload | UnknownPayload) -> list[EntryDraft]:
    """Append entries to a session in one transaction, under its own lease."""
    drafts = [draft(payload) for payload in payloads or (question(),)]
    lease = await store.lease(session)
    await store.append(lease, drafts)
    await store.release(lease)
    return drafts


async def start(store: Store, session: str, **options: Any) -> Lease:
    """Write one entry to a session and return the lease."""
    return await add(store, await store.lease(session, **options), question())


async def add(store: Store, lease: Lease, payload: EntryPayload, **options: Any) -> Lease:
    """Append one entry and return the lease."""
    return await store.append(lease, [draft(payload)], **options)


def same(entries: list[Entry], drafts: list[EntryDraft], *, first: int = 1) -> bool:
    """Return whether these are the entries that the drafts became."""
    return [
        (entry.seq, entry.id, entry.time_ms, entry.kind, entry.body, entry.digest, entry.payload, entry.version)
        for entry in entries
    ] == [
        (seq, draft.id, draft.time_ms, draft.kind, draft.body, draft.digest, draft.payload, draft.version)
        for seq, draft in enumerate(drafts, first)
    ]


def outcome(results: list[Lease | BaseException]) -> tuple[int, list[BaseException]]:
    """Return the number of successes, and the errors."""
    errors = [result for result in results if isinstance(result, BaseException)]
    return len(results) - len(errors), errors
