"""The sessions of an agent in its store: list, find, rename, archive, delete, export, import, search, resume.

Each method takes a session by its id, its name, a unique prefix of its id, `last` or `~N`, or as an object.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from tenuto.agent.session import AsyncSession, check_metadata
from tenuto.agent.session_properties import SessionProperties
from tenuto.agent.sub_agents import is_sub_session
from tenuto.errors import SessionInUse, TenutoError
from tenuto.store.export import Imported, check_export, check_no_other_session, export_session, import_sessions
from tenuto.store.protocol import SearchHit, Store, StoredSession
from tenuto.store.sessions import check_name, list_all


class ResumedSession(msgspec.Struct, frozen=True):
    """A session that `resume_all` has continued."""

    id: str
    status: str
    """Its status now."""
    text: str = ""
    """The text of its last reply."""
    error: TenutoError | None = None
    """The error that ended the run."""


class AsyncSessionStore:
    """The methods of an agent for its stored sessions."""

    name: str

    @property
    def store(self) -> Store:
        """The store of the sessions."""
        raise NotImplementedError

    async def resume(self, session: str = "last") -> AsyncSession[Any, Any]:
        raise NotImplementedError

    def sessions(
        self,
        *,
        status: str | None = None,
        name: str = "",
        directory: str | os.PathLike[str] = "",
        metadata: Mapping[str, str] | None = None,
        archived: bool | None = False,
        limit: int | None = None,
    ) -> AsyncIterator[StoredSession]:
        """List the sessions of this agent, the last used first.

        `status` is one of those of `StoredSession`, `name` a text in the name or the title, `directory` a working directory
        of the tools, and `metadata` has values that the session must have. `archived=None` includes archived sessions.
        Raise `ValueError` for an unknown status.
        """
        return list_all(
            self.store,
            agent=self.name,
            status=status,
            name=name,
            directory=os.path.realpath(directory) if directory else "",
            metadata=check_metadata(metadata or {}),
            archived=archived,
            limit=limit,
        )

    async def find(self, session: str | SessionProperties) -> StoredSession:
        """Return a session as a list shows it. Raise `SessionNotFound`, with the ids if there are several."""
        return await self.store.session(await self._find_id(session))

    async def rename(self, session: str | SessionProperties, name: str) -> None:
        """Give a session a name; an empty one removes it. Raise `ValueError` if another session has it."""
        check_name(name)
        await self.store.rename(await self._find_id(session), name)

    async def archive(self, session: str | SessionProperties, *, archived: bool = True) -> None:
        """Hide a session from lists, or show it again."""
        await self.store.archive(await self._find_id(session), archived=archived)

    async def delete(self, session: str | SessionProperties, *, forks: bool = False) -> tuple[str, ...]:
        """Delete a session; return the ids of all deleted sessions.

        Raise `StoreError` if it has forks, unless `forks` deletes them, too; `SessionInUse` while a process holds it.
        """
        return await self.store.delete(await self._find_id(session), children=forks)

    async def export(self, session: str | SessionProperties) -> bytes:
        """Return a session as JSON lines, with every byte of its entries. `tenuto.store.export_session` streams them."""
        return b"".join([line async for line in export_session(self.store, await self._find_id(session))])

    async def import_sessions(self, exported: bytes | str | Iterable[bytes | str]) -> tuple[Imported, ...]:
        """Write the sessions of an export to the store. All lines are checked before anything is written.

        Raise `StoreCorrupt` for damaged lines, `StoreError` for another text and for a session that the store has with
        other entries. An import that was interrupted continues if it is called again.
        """
        lines = exported.splitlines(keepends=True) if isinstance(exported, bytes | str) else [*exported]
        for session in check_export(lines):
            await check_no_other_session(self.store, session)
        return tuple([imported async for imported in import_sessions(self.store, lines)])

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Find the entries of this agent's sessions that contain all of the words, best matches first."""
        return await self.store.search(words, agent=self.name, limit=limit)

    async def resume_all(self, *, concurrency: int = 10) -> tuple[ResumedSession, ...]:
        """Continue the sessions of this agent that a dead process left, or that have unread messages or decisions.

        A session that a live process holds is left out. An error of one session does not stop the others. The sessions of
        sub-agents are continued by their callers, whose hooks and limits hold for them.
        """
        ids = [one.id async for one in self.sessions(status="interrupted", archived=None) if not is_sub_session(one.id)]
        for id in await self.store.posted():
            stored = await self.store.session(id)
            is_own = stored.meta.agent == self.name and not is_sub_session(id)
            if is_own and stored.status != "running" and id not in ids:
                ids.append(id)
        turns = asyncio.Semaphore(concurrency)

        async def resume(id: str) -> ResumedSession | None:
            async with turns:
                session, error = await self.resume(id), None
                try:
                    await session.continue_()
                except SessionInUse:  # another process was faster
                    return None
                except TenutoError as exc:
                    error = exc
                finally:
                    await session.close()
                return ResumedSession(id, session.status, session.text, error)

        return tuple([one for one in await asyncio.gather(*map(resume, ids)) if one is not None])

    async def _find_id(self, session: str | SessionProperties) -> str:
        if isinstance(session, SessionProperties):
            return session.id
        return await self.store.find(session, agent=self.name)
