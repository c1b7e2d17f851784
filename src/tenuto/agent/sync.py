"""The agent for code that does not await: the same agent, on an event loop in a background thread.

Each method runs the coroutine of the same name. Ctrl-C cancels the run, which is recorded, and is raised when that is done;
a second Ctrl-C is raised at once. Either way the session can be continued.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any, Self, Unpack

from tenuto.agent.agent import AgentOptions, AsyncAgent
from tenuto.agent.events import AgentEvent
from tenuto.agent.session import AsyncRun, AsyncSession, SessionProperties
from tenuto.agent.sub_agents import AgentTool
from tenuto.client.background_loop import BackgroundLoop, SyncStream
from tenuto.client.parameters import MessageInput, make_sync, mirror_methods, with_parameters
from tenuto.closable import Closable
from tenuto.core.events import StreamEvent


@mirror_methods(AsyncAgent)
class Agent(Closable):
    """Runs sessions with one model and its tools. The methods are those of `AsyncAgent`, without `await`.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent. Close it with `with` or `close()`; an
    agent that is garbage-collected closes by itself.
    """

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        self._async = AsyncAgent(model, **options)
        self._background = BackgroundLoop(self._async.close, owner="Agent", warn=False)
        self.model = self._async.model
        """The model of new sessions."""
        self.name = self._async.name

    def session(self, id: str = "", *, owner: str = "", generation: int = 0) -> Session:
        """Open the session with exactly this id, or create it; without an id, create a new one.

        `owner` and `generation` identify the lease holder: see `AsyncAgent.session`.
        """
        session = Session(self, self._async.session(id, owner=owner, generation=generation))
        if id:
            session.load()
        return session

    def resume(
        self,
        session: str = "last",
        *,
        takeover: bool = False,
        root: str | os.PathLike[str] | None = None,
        owner: str = "",
        generation: int = 0,
    ) -> Session:
        resumed = self._async.resume(session, takeover=takeover, root=root, owner=owner, generation=generation)
        return Session(self, self._background.run(resumed))

    @with_parameters(AsyncAgent.override)
    def override(self, **options: Any) -> AbstractContextManager[None]:
        return self._async.override(**options)

    def as_tool(self, name: str, description: str = "", *, background: bool = False) -> AgentTool:
        return self._async.as_tool(name, description, background=background)

    def close(self) -> None:
        self._background.close()

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncAgent", "Agent")


@mirror_methods(AsyncSession)
class Session(SessionProperties, Closable):
    """A stored conversation. The methods are those of `AsyncSession`, without `await`; any thread may call them."""

    def __init__(self, agent: Agent, session: AsyncSession) -> None:
        self._agent = agent
        self._background = agent._background
        self._async = session

    send = make_sync(AsyncSession.send)
    continue_ = make_sync(AsyncSession.continue_)
    step = make_sync(AsyncSession.step)
    enqueue = make_sync(AsyncSession.enqueue)
    steer = make_sync(AsyncSession.steer)
    approve = make_sync(AsyncSession.approve)
    deny = make_sync(AsyncSession.deny)
    handover = make_sync(AsyncSession.handover)
    compact = make_sync(AsyncSession.compact)
    uncompact = make_sync(AsyncSession.uncompact)
    audit = make_sync(AsyncSession.audit)
    entries = make_sync(AsyncSession.entries)
    load = make_sync(AsyncSession.load)

    def stream(self, message: MessageInput | None = None, *, key: str = "") -> Run:
        """Send a message, or continue without one, as a stream of events."""
        return Run(self, self._async.stream(message, key=key))

    def cancel(self) -> None:
        if not self._async.cancel_local():
            self._background.run(self._async.cancel())

    def fork(self, at: int | None = None) -> Session:
        return Session(self._agent, self._background.run(self._async.fork(at)))

    def close(self) -> None:
        if not self._background.closed:
            self._background.run(self._async.close())

    def __enter__(self) -> Self:
        self._background.run(self._async.__aenter__())
        return self


class Run(SyncStream[StreamEvent | AgentEvent]):
    """A run as a stream of its events. Leaving a `with` early cancels the run and records that."""

    def __init__(self, session: Session, run: AsyncRun) -> None:
        super().__init__(session._background, run)
        self._session = session  # keeps the session alive while its run is read

    def cancel(self) -> None:
        """Cancel the run; its results so far are saved. Any thread may call this."""
        self.close()
