"""Random histories: after each step, the store and a simple model of it agree."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tenuto.core.inbox import Cancel
from tenuto.core.journal import CallFinished, Configured, EntryDraft, RunEnded, session_meta_of
from tenuto.errors import StoreError
from tenuto.store.driver import tokenize
from tenuto.store.protocol import BLOB, Lease, Store
from tenuto.store.search import text_of
from tenuto.testing.store_suite.helpers import StoreTests, answer, draft, question, reply, result, same

T = TypeVar("T")
M = TypeVar("M")
ModelLease: TypeAlias = tuple[int, int]
"""The fence and the head."""
Step: TypeAlias = tuple[str, str, int]
"""What to do, with which session, and a number that selects a variant."""

IDS = ("s0", "s1", "s2", "f0", "f1", "f2")
PAYLOADS = (
    question("What of the rain?"),
    reply("a", "b"),
    result("b", 1),
    result("a", 0, "drizzle"),
    answer("An umbrella."),
    Configured("some/model", agent="scout"),
    RunEnded("completed"),
    question("rain " + "x" * BLOB),
)
KINDS = (
    *("append",) * 6,
    *("fork",) * 3,
    *("lease", "takeover", "release", "resend", "resend", "post", "post", "rename", "archive", "delete", "gc"),
)
PROLOGUE: list[Step] = [
    ("append", "s0", 5),
    ("append", "s1", 3),
    ("append", "s0", 4),
    ("fork", "s0", 3),
    ("append", "f0", 4),
]


class ModelError(Exception):
    """The model refuses a step."""


class ModelSession:
    def __init__(self, shared: list[EntryDraft], parent: str = "") -> None:
        self.entries = shared
        self.forked_at = len(shared)
        self.parent = parent
        self.inbox: list[str] = []
        self.name = ""
        self.archived = False
        self.fence = 0
        self.held = False

    @property
    def exists(self) -> bool:
        return bool(self.entries or self.parent)

    def own(self) -> list[tuple[int, EntryDraft]]:
        """Return the entries that are not shared with the parent, with their numbers."""
        return list(enumerate(self.entries, 1))[self.forked_at :]


class StoreModel:
    """The sessions of a store as lists in memory."""

    def __init__(self) -> None:
        self.sessions: dict[str, ModelSession] = {}
        self._fences = itertools.count(1)

    def require(self, id: str) -> ModelSession:
        session = self.sessions.get(id)
        if session is None or not session.exists:
            raise ModelError
        return session

    def lease(self, id: str, takeover: bool) -> ModelLease:
        session = self.sessions.setdefault(id, ModelSession([]))
        if session.held and not takeover:
            raise ModelError
        session.fence, session.held = next(self._fences), True
        return session.fence, len(session.entries)

    def append(
        self, id: str, lease: ModelLease, drafts: list[EntryDraft], taking: Sequence[str] = (), *, empty: bool = False
    ) -> int:
        session, (fence, head) = self.sessions.get(id), lease
        if session is None or not session.held or session.fence != fence:
            raise ModelError
        if len(session.entries) != head:
            if session.entries[head:] != drafts:
                raise ModelError
            return len(session.entries)
        own, new = [one.id for _, one in session.own()], [one.id for one in drafts]
        left = [item for item in session.inbox if item not in taking]
        if len({*own, *new}) < len(own) + len(new) or (empty and left):
            raise ModelError
        session.entries, session.inbox = session.entries + drafts, left
        return len(session.entries)

    def release(self, id: str, lease: ModelLease) -> None:
        session = self.sessions.get(id)
        if session is not None and session.fence == lease[0]:
            session.held = False

    def fork(self, id: str, at: int | None, new: str) -> None:
        entries = self.require(id).entries
        if new in self.sessions or (at is not None and at > len(entries)):
            raise ModelError
        self.sessions[new] = ModelSession(entries[:at], id)

    def post(self, id: str, item: str) -> None:
        session = self.require(id)
        if item not in [*session.inbox, *(one.id for one in session.entries)]:
            session.inbox.append(item)

    def rename(self, id: str, name: str) -> None:
        session = self.require(id)
        if name and any(other.name == name for other in self.sessions.values() if other is not session):
            raise ModelError
        session.name = name

    def archive(self, id: str, archived: bool) -> None:
        self.require(id).archived = archived

    def delete(self, id: str, children: bool) -> None:
        self.require(id)
        family = [id]
        for parent in family:  # grows
            family += [one for one, session in self.sessions.items() if session.parent == parent]
        if (len(family) > 1 and not children) or any(self.sessions[one].held for one in family):
            raise ModelError
        for one in family:
            del self.sessions[one]

    def gc(self) -> None:
        for id, session in list(self.sessions.items()):
            if not session.exists and not session.held:
                del self.sessions[id]


class Player:
    """Does each step with the store and with the model, and checks that both accept or refuse it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.model = StoreModel()
        self.leases: dict[str, tuple[Lease, ModelLease]] = {}
        self.sent: dict[str, tuple[Lease, ModelLease, list[EntryDraft]]] = {}

    async def both(self, real: Awaitable[T], model: Callable[[], M]) -> tuple[T, M] | None:
        """Return the results of the store and of the model; None if both refuse."""
        try:
            value = await real
        except (StoreError, ValueError):
            with pytest.raises(ModelError):
                model()
            return None
        return value, model()

    async def do(self, step: Step) -> None:
        kind, id, number = step
        store, model = self.store, self.model
        match kind:
            case "append":
                await self.append(id, number)
            case "resend" if id in self.sent:
                real, lease, drafts = self.sent[id]
                drafts = drafts[1:] if number == 5 and len(drafts) > 1 else drafts  # a part of it is refused
                await self.both(store.append(real, drafts), lambda: model.append(id, lease, drafts))
            case "lease":
                if pair := await self.acquire(id):
                    self.leases[id] = pair
            case "takeover":
                pair = await self.acquire(id, takeover=True)
                if pair and (number % 2 or id not in self.leases):  # otherwise the lost lease is used again
                    self.leases[id] = pair
            case "release" if id in self.leases:
                await self.release(id, *self.leases.pop(id))
            case "fork":
                at, new = None if number == 5 else number, IDS[3 + number % 3]
                await self.both(store.fork(id, at=at, id=new), lambda: model.fork(id, at, new))
            case "rename":
                name = ("", "walk", "talk")[number % 3]
                await self.both(store.rename(id, name), lambda: model.rename(id, name))
            case "archive":
                archived = number % 2 == 0
                await self.both(store.archive(id, archived=archived), lambda: model.archive(id, archived))
            case "delete":
                children = number % 2 == 0
                await self.both(store.delete(id, children=children), lambda: model.delete(id, children))
            case "post":
                item = f"item-{number % 3}"
                await self.both(store.post(id, Cancel(), id=item), lambda: model.post(id, item))
            case "gc":
                await self.both(store.gc(), model.gc)

    async def acquire(self, id: str, *, takeover: bool = False) -> tuple[Lease, ModelLease] | None:
        return await self.both(self.store.lease(id, takeover=takeover), lambda: self.model.lease(id, takeover))

    async def release(self, id: str, real: Lease, lease: ModelLease) -> None:
        await self.both(self.store.release(real), lambda: self.model.release(id, lease))

    async def append(self, id: str, number: int) -> None:
        """Append entries, of which the last takes the oldest inbox item, under a new lease if none is held."""
        pair = self.leases.get(id) or await self.acquire(id)
        if pair is None:
            return
        first = IDS.index(id) * 3 + number
        drafts = [draft(PAYLOADS[(first + more) % len(PAYLOADS)]) for more in range(number // 2 + 1)]
        posted = await self.store.inbox(id) if self.model.sessions[id].exists else []
        if posted:
            drafts[-1] = msgspec.structs.replace(drafts[-1], id=posted[0].id)
        (real, lease), taking, empty = pair, posted[:1], bool(len(drafts) % 2)
        numbers, items = [one.number for one in taking], [one.id for one in taking]
        done = await self.both(
            self.store.append(real, drafts, taking=numbers, unless_posted=empty),
            lambda: self.model.append(id, lease, drafts, items, empty=empty),
        )
        if done:
            assert done[0].head == done[1]
            self.sent[id] = (real, lease, drafts)
        if id not in self.leases:
            await self.release(id, real, lease)
        elif done:
            self.leases[id] = (done[0], (lease[0], done[1]))

    async def check(self) -> None:
        """Check all that the store shows."""
        await self.both(self.store.gc(), self.model.gc)
        store = self.store
        sessions = {id: session for id, session in self.model.sessions.items() if session.exists}
        summary = {one.id: one for one in (await store.sessions(archived=None, limit=1000)).sessions}
        own = {(id, seq): one for id, session in sessions.items() for seq, one in session.own()}
        assert {*summary} == {*sessions}
        for id, session in sessions.items():
            one, entries = summary[id], await store.read(id)
            assert same(entries, session.entries)
            assert [entry.seq for entry in await store.read(id, after=1, upto=4)] == [*range(1, one.head + 1)][1:4]
            assert (one.parent, one.forked_at, one.head) == (session.parent, session.forked_at, len(session.entries))
            assert (one.name, one.archived, bool(one.holder)) == (session.name, session.archived, session.held)
            assert session.parent or one.meta == session_meta_of(id, entries)
            assert [posted.id for posted in await store.inbox(id)] == session.inbox
        assert {*await store.posted()} == {id for id, session in sessions.items() if session.inbox}
        roots = [(session.entries, id) for id, session in sessions.items() if not session.parent]
        orders: tuple[tuple[Literal["updated", "created"], int], ...] = (("updated", -1), ("created", 0))
        for order, at in orders:
            listed = (await store.sessions(archived=None, order=order, limit=1000)).sessions
            newest = sorted(roots, key=lambda root: root[0][at].time_ms, reverse=True)
            assert [one.id for one in listed if not one.parent] == [id for _, id in newest]
        for query in ("rain", "umbrella", "drizzle", "rain what"):
            hits = {(hit.session, hit.seq) for hit in await store.search(query, limit=1000)}
            assert hits == {key for key, one in own.items() if {*query.split()} <= {*tokenize(text_of(one.payload))}}
        assert all(
            isinstance(sessions[one.session].entries[one.seq - 1].payload, CallFinished) for one in await store.verify()
        )
        blobs = {one.digest: len(one.body) for one in own.values() if len(one.body) > BLOB}
        stats = await store.stats()
        assert (stats.sessions, stats.entries) == (len(sessions), len(own))
        assert (stats.blobs, stats.blob_bytes) == (len(blobs), sum(blobs.values()))


async def play(suite: StoreTests, store: Store, *, history: list[Step]) -> None:
    suite.is_sound = False  # a random history may have results without calls
    for summary in (await store.sessions(archived=None, limit=1000)).sessions:
        if not summary.parent:
            await store.delete(summary.id, children=True)
    await store.gc()
    player = Player(store)
    for step in (*PROLOGUE, *history):
        await player.do(step)
    await player.check()


class RandomHistoryTests(StoreTests):
    def test_random_histories_match_the_model(self) -> None:
        @settings(
            max_examples=15,
            deadline=None,
            derandomize=True,  # the same histories in every run, and no database of them
            database=None,
            phases=(Phase.generate,),  # shortening a history takes minutes if each step waits for a disk
            suppress_health_check=list(HealthCheck),
        )
        @given(
            st.lists(
                st.tuples(st.sampled_from(KINDS), st.sampled_from(IDS), st.integers(0, 5)), min_size=12, max_size=30
            )
        )
        def check(history: list[Step]) -> None:
            asyncio.run(self.run(functools.partial(play, history=history)))

        check()
