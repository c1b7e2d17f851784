"""Stories: random ones, played on a store and in memory at the same time. They must end alike, and at every step."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from tenuto.core.inbox import Steer
from tenuto.core.journal import Configured, EntryDraft, RunEnded, SessionMeta
from tenuto.core.messages import UserMessage
from tenuto.errors import StoreError
from tenuto.store.memory import MemoryStore
from tenuto.store.protocol import BLOB, Lease, Store, StoredSession
from tenuto.testing.chapters.stage import Chapter, answer, draft, question, reply, result

__all__ = ["Stories"]

Step: TypeAlias = tuple[str, int, int]
"""What to do, to which session, and how much of it."""

IDS = ("s0", "s1", "s2", "f0", "f1", "f2")
ACTS = (
    question("What of the rain?"),
    reply("a", "b"),
    result("b", 1),
    result("a", 0, "drizzle"),
    answer("An umbrella."),
    Configured("some/model", agent="scout"),
    RunEnded("completed"),
    question("rain " + "x" * BLOB),
)


PROLOGUE: list[Step] = [("append", 0, 5), ("append", 1, 3), ("append", 0, 4), ("fork", 0, 3), ("append", 3, 4)]


class _Player:
    """Does the steps of a story on one store, and says what came of each."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.leases: dict[str, Lease] = {}
        self.sent: dict[str, tuple[Lease, list[EntryDraft]]] = {}

    async def does(self, step: Step, drafts: list[EntryDraft]) -> str:
        kind, which, much = step
        steps: dict[str, Callable[[str, int], Awaitable[Any]]] = {
            "lease": self._lease, "take": self._take, "release": self._release, "resend": self._resend,
            "fork": self._fork, "rename": self._rename, "archive": self._archive, "delete": self._delete,
            "gc": self._gc, "post": self._post,
        }  # fmt: skip
        try:
            if kind == "append":
                return str(await self._append(IDS[which], drafts))
            return str(await steps[kind](IDS[which], much))
        except StoreError as error:  # a lease on what is gone is lost, whichever of the two is said of it
            return "refused" if kind in ("append", "resend") else f"refused: {type(error).__name__}"
        except ValueError:
            return "refused: ValueError"

    async def _append(self, id: str, drafts: list[EntryDraft]) -> int:
        held = id in self.leases
        lease = self.leases[id] if held else await self.store.lease(id)
        try:
            taking, some = await self._taken(id, drafts)
            after = await self.store.append(lease, some, taking=taking, unless_posted=bool(len(drafts) % 2))
            self.sent[id] = (lease, some)
            if held:
                self.leases[id] = after
            return after.head
        finally:
            if not held:
                await self.store.release(lease)

    async def _taken(self, id: str, drafts: list[EntryDraft]) -> tuple[list[int], list[EntryDraft]]:
        """Return the number of the oldest inbox item, and the drafts, of which the last has its id."""
        try:
            items = await self.store.inbox(id)
        except StoreError:
            items = []
        if not items:
            return [], drafts
        return [items[0].number], [*drafts[:-1], msgspec.structs.replace(drafts[-1], id=items[0].id)]

    async def _resend(self, id: str, much: int) -> int:
        """Send the last append again, or, now and then, only a part of it."""
        if id not in self.sent:
            return 0
        lease, drafts = self.sent[id]
        return (await self.store.append(lease, drafts[1:] if much == 5 and len(drafts) > 1 else drafts)).head

    async def _lease(self, id: str, _: int) -> int:
        self.leases[id] = await self.store.lease(id)
        return self.leases[id].head

    async def _take(self, id: str, much: int) -> int:
        """Take it over; whether the old lease is used again is left to chance."""
        lease = await self.store.lease(id, takeover=True)
        if much % 2 or id not in self.leases:
            self.leases[id] = lease
        return lease.head

    async def _release(self, id: str, _: int) -> None:
        if id in self.leases:
            await self.store.release(self.leases.pop(id))

    async def _fork(self, id: str, much: int) -> str:
        new = IDS[3 + much % 3]
        try:
            await self.store.session(new)
        except StoreError:
            return await self.store.fork(id, at=None if much == 5 else much, id=new)
        return "is there already"

    async def _rename(self, id: str, much: int) -> None:
        await self.store.rename(id, ("", "walk", "talk")[much % 3])

    async def _archive(self, id: str, much: int) -> None:
        await self.store.archive(id, archived=much % 2 == 0)

    async def _delete(self, id: str, much: int) -> list[str]:
        return sorted(await self.store.delete(id, children=much % 2 == 0))

    async def _post(self, id: str, much: int) -> str:
        return await self.store.post(id, Steer(UserMessage("rain")), id=f"item-{much % 3}")

    async def _gc(self, _: str, __: int) -> None:
        await self.store.gc()

    async def ends(self) -> None:
        for lease in self.leases.values():
            await self.store.release(lease)


async def _all(store: Store) -> list[StoredSession]:
    return list((await store.sessions(archived=None, limit=1000)).sessions)


async def _state(store: Store) -> dict[str, object]:
    """Everything that a store shows, but for fences, owners and times of leases."""
    await store.gc()
    sessions = await _all(store)
    state: dict[str, object] = {shown.id: shown for shown in sessions}
    for shown in sessions:
        entries = await store.read(shown.id)
        state[f"{shown.id}: entries"] = [
            (entry.seq, entry.id, entry.time_ms, entry.kind, entry.digest, entry.payload) for entry in entries
        ]
        state[f"{shown.id}: inbox"] = [(posted.id, posted.item) for posted in await store.inbox(shown.id)]
        state[f"{shown.id}: part"] = [entry.seq for entry in await store.read(shown.id, after=1, upto=4)]
    state["posted"] = {*await store.posted()}
    by_age = (await store.sessions(archived=None, order="created")).sessions
    for order, some in (("updated", sessions), ("created", by_age)):
        state[order] = [shown.id for shown in some if not shown.parent]
    for agent in ("scout", ""):
        state[f"agent {agent}"] = {shown.id for shown in (await store.sessions(agent=agent, limit=99)).sessions}
    for words in ("rain", "umbrella", "drizzle", "rain what"):
        state[words] = {(hit.session, hit.seq) for hit in await store.search(words, limit=1000)}
    state["faults"] = {(fault.session, fault.seq) for fault in await store.verify()}
    stats = await store.stats()
    state["stats"] = (stats.sessions, stats.entries, stats.blobs, stats.blob_bytes)
    return state


def _without_holder(state: dict[str, object]) -> dict[str, object]:
    return {
        key: (
            value.head,
            _without_times(value),
            value.name,
            value.parent,
            value.forked_at,
            value.archived,
            bool(value.holder),
        )
        if isinstance(value, StoredSession)
        else value
        for key, value in state.items()
    }


def _without_times(shown: StoredSession) -> SessionMeta:
    """The two stores have clocks of their own, and a fork has the time of its clock."""
    return msgspec.structs.replace(shown.meta, created_at=0, updated_at=0) if shown.parent else shown.meta


async def _emptied(store: Store) -> None:
    for shown in await _all(store):
        if not shown.parent:
            await store.delete(shown.id, children=True)
    await store.gc()


async def _tell(_: Chapter, store: Store, *, story: list[Step]) -> None:
    await _emptied(store)
    async with MemoryStore() as memory:
        here, there = _Player(store), _Player(memory)
        try:
            for step in (*PROLOGUE, *story):
                drafts = [draft(ACTS[(step[1] * 3 + step[2] + n) % len(ACTS)]) for n in range(step[2] // 2 + 1)]
                assert await here.does(step, drafts) == await there.does(step, drafts), step
            assert _without_holder(await _state(store)) == _without_holder(await _state(memory))
        finally:
            await here.ends()


class Stories(Chapter):
    """Needs `hypothesis`; without it, the chapter is skipped."""

    def test_stories_end_as_they_do_in_memory(self) -> None:
        """Whatever is done, in whatever order, once there is something to do it to."""
        pytest.importorskip("hypothesis")
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import strategies as st

        kinds = ("append",) * 6 + ("fork",) * 3 + ("lease", "take", "release", "resend", "resend", "post", "post")
        steps = st.tuples(
            st.sampled_from((*kinds, "rename", "archive", "delete", "gc")),
            st.integers(0, len(IDS) - 1),
            st.integers(0, 5),
        )

        @settings(
            max_examples=self.examples,
            deadline=None,
            derandomize=True,  # the same stories on every run, and no folder of theirs
            database=None,
            phases=(Phase.generate,),  # making a story shorter takes minutes where each step waits for a disk
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(steps, min_size=12, max_size=30))
        def tell(story: list[Step]) -> None:
            asyncio.run(self.play(functools.partial(_tell, story=story)))

        tell()
