"""A store that several experiments share: each sees only the sessions with its prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tenuto.core.inbox import InboxItem, PostedItem
from tenuto.core.journal import Entry, EntryDraft
from tenuto.store.protocol import (
    BudgetChange,
    BudgetMember,
    Lease,
    SearchHit,
    SessionPage,
    StoredSession,
    VerifyProblem,
)
from tenuto.store.sql_store import SqlStore


@dataclass
class PrefixedStore:
    """Add a prefix to the ids and names of sessions in arguments, and remove it from results."""

    store: SqlStore
    prefix: str

    def _in(self, lease: Lease) -> Lease:
        return msgspec.structs.replace(lease, session=self.prefix + lease.session)

    def _out(self, lease: Lease) -> Lease:
        return msgspec.structs.replace(lease, session=self._less(lease.session))

    def _less(self, text: str) -> str:
        return text.removeprefix(self.prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def lease(self, session: str, **how: Any) -> Lease:
        return self._out(await self.store.lease(self.prefix + session, **how))

    async def append(
        self, lease: Lease, drafts: Sequence[EntryDraft], *, budget: BudgetChange | None = None, **how: Any
    ) -> Lease:
        if budget is not None:
            budget = msgspec.structs.replace(budget, root=self.prefix + budget.root)
        return self._out(await self.store.append(self._in(lease), drafts, budget=budget, **how))

    async def post(self, session: str, item: InboxItem, *, id: str = "") -> str:
        return await self.store.post(self.prefix + session, item, id=id)

    async def inbox(self, session: str) -> list[PostedItem]:
        return await self.store.inbox(self.prefix + session)

    async def posted(self) -> dict[str, int]:
        posted = (await self.store.posted()).items()
        return {self._less(session): number for session, number in posted if session.startswith(self.prefix)}

    async def budget(self, root: str) -> list[BudgetMember]:
        return await self.store.budget(self.prefix + root)

    async def renew(self, lease: Lease) -> Lease:
        return self._out(await self.store.renew(self._in(lease)))

    async def release(self, lease: Lease) -> None:
        await self.store.release(self._in(lease))

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        return self._less(await self.store.fork(self.prefix + session, at=at, id=self.prefix + id))

    async def rename(self, session: str, name: str) -> None:
        await self.store.rename(self.prefix + session, self.prefix + name)

    async def archive(self, session: str) -> None:
        await self.store.archive(self.prefix + session)

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        return await self.store.delete(self.prefix + session, children=children)

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        return await self.store.read(self.prefix + session, after=after, upto=upto)

    async def session(self, session: str) -> StoredSession:
        return self._shown(await self.store.session(self.prefix + session))

    async def sessions(self, *, archived: bool | None = False, limit: int = 50) -> SessionPage:
        page = await self.store.sessions(archived=archived, limit=10_000)
        return SessionPage(tuple(self._shown(some) for some in page.sessions if some.id.startswith(self.prefix)))

    def _shown(self, some: StoredSession) -> StoredSession:
        less = {name: self._less(getattr(some, name)) for name in ("id", "name", "parent")}
        return msgspec.structs.replace(some, **less)

    async def find(self, text: str) -> str:
        return self._less(await self.store.find(text if text == "last" else self.prefix + text))

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        hits = await self.store.search(words, limit=10_000)
        return [
            SearchHit(self._less(reached_lines.session), reached_lines.seq, "")
            for reached_lines in hits
            if reached_lines.session.startswith(self.prefix)
        ]

    async def verify(self) -> list[VerifyProblem]:
        """Verify the sessions of this experiment."""
        page = await self.sessions(archived=None)
        return [fault for some in page.sessions for fault in await self.store.verify(self.prefix + some.id)]

    async def __aenter__(self) -> PrefixedStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()
