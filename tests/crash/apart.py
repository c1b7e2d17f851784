"""A part of a store that looks like a whole one: several experiments share a schema, each with names of its own."""

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
class Apart:
    """Puts something before the ids and names of sessions on their way in, and takes it off on their way out."""

    whole: SqlStore
    before: str

    def _in(self, lease: Lease) -> Lease:
        return msgspec.structs.replace(lease, session=self.before + lease.session)

    def _out(self, lease: Lease) -> Lease:
        return msgspec.structs.replace(lease, session=self._less(lease.session))

    def _less(self, text: str) -> str:
        return text.removeprefix(self.before)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    async def lease(self, session: str, **how: Any) -> Lease:
        return self._out(await self.whole.lease(self.before + session, **how))

    async def append(
        self, lease: Lease, drafts: Sequence[EntryDraft], *, budget: BudgetChange | None = None, **how: Any
    ) -> Lease:
        if budget is not None:
            budget = msgspec.structs.replace(budget, root=self.before + budget.root)
        return self._out(await self.whole.append(self._in(lease), drafts, budget=budget, **how))

    async def post(self, session: str, item: InboxItem, *, id: str = "") -> str:
        return await self.whole.post(self.before + session, item, id=id)

    async def inbox(self, session: str) -> list[PostedItem]:
        return await self.whole.inbox(self.before + session)

    async def posted(self) -> dict[str, int]:
        posted = (await self.whole.posted()).items()
        return {self._less(session): number for session, number in posted if session.startswith(self.before)}

    async def budget(self, root: str) -> list[BudgetMember]:
        return await self.whole.budget(self.before + root)

    async def renew(self, lease: Lease) -> Lease:
        return self._out(await self.whole.renew(self._in(lease)))

    async def release(self, lease: Lease) -> None:
        await self.whole.release(self._in(lease))

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        return self._less(await self.whole.fork(self.before + session, at=at, id=self.before + id))

    async def rename(self, session: str, name: str) -> None:
        await self.whole.rename(self.before + session, self.before + name)

    async def archive(self, session: str) -> None:
        await self.whole.archive(self.before + session)

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        return await self.whole.delete(self.before + session, children=children)

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        return await self.whole.read(self.before + session, after=after, upto=upto)

    async def session(self, session: str) -> StoredSession:
        return self._shown(await self.whole.session(self.before + session))

    async def sessions(self, *, archived: bool | None = False, limit: int = 50) -> SessionPage:
        page = await self.whole.sessions(archived=archived, limit=10_000)
        return SessionPage(tuple(self._shown(some) for some in page.sessions if some.id.startswith(self.before)))

    def _shown(self, some: StoredSession) -> StoredSession:
        less = {name: self._less(getattr(some, name)) for name in ("id", "name", "parent")}
        return msgspec.structs.replace(some, **less)

    async def find(self, text: str) -> str:
        return self._less(await self.whole.find(text if text == "last" else self.before + text))

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        hits = await self.whole.search(words, limit=10_000)
        return [SearchHit(self._less(hit.session), hit.seq, "") for hit in hits if hit.session.startswith(self.before)]

    async def verify(self) -> list[VerifyProblem]:
        """Look at what is here; the whole is looked at in the end."""
        page = await self.sessions(archived=None)
        return [fault for some in page.sessions for fault in await self.whole.verify(self.before + some.id)]

    async def __aenter__(self) -> Apart:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.whole.close()
