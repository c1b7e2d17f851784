"""Tell running sessions that another process posted to their inbox."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tenuto.errors import TenutoError
from tenuto.store.protocol import Store

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

logger = logging.getLogger("tenuto")

INTERVAL = 0.5
"""The seconds between two looks at the inboxes. One query serves all running sessions of an agent."""


class InboxWatcher:
    """Looks at the inboxes of running sessions. Its task exists only while there are any."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._running: dict[str, AsyncSession] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, session: AsyncSession) -> None:
        """Watch the inbox of a session during its run."""
        self._running[session.id] = session
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    def remove(self, session: AsyncSession) -> None:
        """Stop watching the inbox of a session."""
        self._running.pop(session.id, None)
        if not self._running and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                store = self._store()
                for id in await store.posted():
                    session = self._running.get(id)
                    if session is not None:
                        session._on_posted(await store.inbox(id))
            except TenutoError as exc:  # the run itself reports a broken store
                logger.warning("the inboxes of running sessions could not be read: %s", exc)
