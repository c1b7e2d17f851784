"""The agent for code that does not await: the same agent, on an event loop in a background thread.

Each method runs the coroutine of the same name. Ctrl-C cancels the run, which is recorded, and is raised when that is done;
a second Ctrl-C is raised at once. Either way the session can be continued.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, Self, TypeVar, Unpack, overload

import msgspec

from tenuto.agent.agent import AgentOptions, AsyncAgent
from tenuto.agent.events import AgentEvent
from tenuto.agent.machine import PendingCall
from tenuto.agent.partial_output import PartialReader
from tenuto.agent.result import Out, Result
from tenuto.agent.run_settings import OutputForm, RunParameters
from tenuto.agent.run_stream import AsyncRun
from tenuto.agent.session import AsyncSession
from tenuto.agent.session_properties import SessionProperties
from tenuto.agent.sub_agents import AgentTool
from tenuto.client.background_loop import BackgroundLoop, SyncStream
from tenuto.client.parameters import MessageInput, make_sync, mirror_methods, with_parameters
from tenuto.closable import Closable
from tenuto.core.events import StreamEvent
from tenuto.core.messages import Message, ToolCallView
from tenuto.store.protocol import StoredSession
from tenuto.tools.execution import Deps

T = TypeVar("T")


@mirror_methods(AsyncAgent)
class Agent(Closable, Generic[Deps, Out]):
    """Runs sessions with one model and its tools. The methods are those of `AsyncAgent`, without `await`.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent. Close it with `with` or `close()`; an
    agent that is garbage-collected closes by itself.
    """

    @overload
    def __init__(
        self: Agent[Any, str],
        model: str,
        *,
        output: None = ...,
        deps_type: None = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Deps, str],
        model: str,
        *,
        output: None = ...,
        deps_type: type[Deps],
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self, model: str, *, output: type[Out], deps_type: type[Deps] | None = ..., **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Deps, Any],
        model: str,
        *,
        output: OutputForm,
        deps_type: type[Deps] | None = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(self, model: str, *, output: Any = None, deps_type: Any = None, **options: Any) -> None:
        self._async: AsyncAgent[Deps, Out] = AsyncAgent(model, output=output, deps_type=deps_type, **options)
        self._background = BackgroundLoop(self._async.close, owner="Agent", warn=False)
        self.model = self._async.model
        """The model of new sessions."""
        self.name = self._async.name

    @overload
    def run(
        self, prompt: MessageInput, *, session: str = ..., output: None = ..., **options: Unpack[RunParameters[Deps]]
    ) -> Result[Out, Session[Deps, Out]]: ...
    @overload
    def run(
        self, prompt: MessageInput, *, session: str = ..., output: type[T], **options: Unpack[RunParameters[Deps]]
    ) -> Result[T, Session[Deps, Out]]: ...
    @overload
    def run(
        self, prompt: MessageInput, *, session: str = ..., output: OutputForm, **options: Unpack[RunParameters[Deps]]
    ) -> Result[Any, Session[Deps, Out]]: ...
    def run(self, prompt: MessageInput, *, session: str = "", **options: Any) -> Result[Any, Session[Deps, Out]]:
        return self.session(session).send(prompt, **options)

    def session(
        self,
        id: str = "",
        *,
        metadata: Mapping[str, str] | None = None,
        owner: str = "",
        generation: int = 0,
        deps: Deps | None = None,
    ) -> Session[Deps, Out]:
        """Open the session with exactly this id, or create it; without an id, create a new one.

        `metadata`, `owner` and `generation` are those of `AsyncAgent.session`; `deps` are the dependencies of its runs.
        """
        opened = self._async.session(id, metadata=metadata, owner=owner, generation=generation, deps=deps)
        session = Session(self, opened)
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
        deps: Deps | None = None,
    ) -> Session[Deps, Out]:
        resumed = self._async.resume(
            session, takeover=takeover, root=root, owner=owner, generation=generation, deps=deps
        )
        return Session(self, self._background.run(resumed))

    def sessions(
        self,
        *,
        status: str | None = None,
        name: str = "",
        directory: str | os.PathLike[str] = "",
        metadata: Mapping[str, str] | None = None,
        archived: bool | None = False,
        limit: int | None = None,
    ) -> list[StoredSession]:
        found = self._async.sessions(
            status=status, name=name, directory=directory, metadata=metadata, archived=archived, limit=limit
        )

        async def read() -> list[StoredSession]:
            return [session async for session in found]

        return self._background.run(read())

    find = make_sync(AsyncAgent.find)
    rename = make_sync(AsyncAgent.rename)
    archive = make_sync(AsyncAgent.archive)
    delete = make_sync(AsyncAgent.delete)
    export = make_sync(AsyncAgent.export)
    import_sessions = make_sync(AsyncAgent.import_sessions)
    search = make_sync(AsyncAgent.search)
    resume_all = make_sync(AsyncAgent.resume_all)

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
class Session(SessionProperties, Closable, Generic[Deps, Out]):
    """A stored conversation. The methods are those of `AsyncSession`, without `await`; any thread may call them."""

    def __init__(self, agent: Agent[Deps, Out], session: AsyncSession[Deps, Out]) -> None:
        self._agent = agent
        self._background = agent._background
        self._async = session

    @overload
    def send(
        self, message: MessageInput, *, output: None = ..., **options: Unpack[RunParameters[Deps]]
    ) -> Result[Out, Session[Deps, Out]]: ...
    @overload
    def send(
        self, message: MessageInput, *, output: type[T], **options: Unpack[RunParameters[Deps]]
    ) -> Result[T, Session[Deps, Out]]: ...
    @overload
    def send(
        self, message: MessageInput, *, output: OutputForm, **options: Unpack[RunParameters[Deps]]
    ) -> Result[Any, Session[Deps, Out]]: ...
    def send(self, message: MessageInput, **options: Any) -> Result[Any, Session[Deps, Out]]:
        result = self._wait(self._async.send(message, **options))
        assert result is not None
        return result

    def continue_(self, *, deps: Deps | None = None) -> Result[Out, Session[Deps, Out]] | None:
        return self._wait(self._async.continue_(deps=deps))

    def approve(self, *calls: PendingCall | ToolCallView | str) -> Result[Out, Session[Deps, Out]] | None:
        return self._wait(self._async.approve(*calls))

    def deny(
        self, *calls: PendingCall | ToolCallView | str, reason: str = ""
    ) -> Result[Out, Session[Deps, Out]] | None:
        return self._wait(self._async.deny(*calls, reason=reason))

    def _wait(self, run: Coroutine[Any, Any, Result[Any, Any] | None]) -> Result[Any, Any] | None:
        """Run a coroutine; its result has this session."""
        result = self._background.run(run)
        return msgspec.structs.replace(result, session=self) if result is not None else None

    step = make_sync(AsyncSession.step)
    enqueue = make_sync(AsyncSession.enqueue)
    steer = make_sync(AsyncSession.steer)
    handover = make_sync(AsyncSession.handover)
    set_effort = make_sync(AsyncSession.set_effort)
    compact = make_sync(AsyncSession.compact)
    uncompact = make_sync(AsyncSession.uncompact)
    audit = make_sync(AsyncSession.audit)
    set_metadata = make_sync(AsyncSession.set_metadata)
    entries = make_sync(AsyncSession.entries)
    load = make_sync(AsyncSession.load)

    @overload
    def stream(
        self, message: MessageInput | None = ..., *, output: None = ..., **options: Unpack[RunParameters[Deps]]
    ) -> Run[Out]: ...
    @overload
    def stream(
        self, message: MessageInput | None = ..., *, output: type[T], **options: Unpack[RunParameters[Deps]]
    ) -> Run[T]: ...
    @overload
    def stream(
        self, message: MessageInput | None = ..., *, output: OutputForm, **options: Unpack[RunParameters[Deps]]
    ) -> Run[Any]: ...
    def stream(self, message: MessageInput | None = None, **options: Any) -> Run[Any]:
        """Send a message, or continue without one, as a stream of events."""
        return Run(self, self._async.stream(message, **options))

    def cancel(self) -> None:
        if not self._async.cancel_local():
            self._background.run(self._async.cancel())

    def fork(self, at: int | None = None) -> Session[Deps, Out]:
        return Session(self._agent, self._background.run(self._async.fork(at)))

    def undo(self, count: int = 1) -> tuple[Session[Deps, Out], Message]:
        branch, message = self._background.run(self._async.undo(count))
        return Session(self._agent, branch), message

    def close(self) -> None:
        if not self._background.closed:
            self._background.run(self._async.close())

    def __enter__(self) -> Self:
        self._background.run(self._async.__aenter__())
        return self


class Run(SyncStream[StreamEvent | AgentEvent], Generic[Out]):
    """A run as a stream of its events. Leaving a `with` early cancels the run and records that."""

    def __init__(self, session: Session[Any, Any], run: AsyncRun[Out]) -> None:
        super().__init__(session._background, run)
        self._session = session  # keeps the session alive while its run is read
        self._run = run

    @property
    def result(self) -> Result[Out, Any]:
        """The result; it is available once the run has ended."""
        return msgspec.structs.replace(self._run.result, session=self._session)

    def partial_output(self) -> Iterator[Any]:
        """Yield the output as it grows, at last the output itself: see `AsyncRun.partial_output`."""
        reader = PartialReader()
        for event in self:
            value = reader.feed(event, self._session._async._log.next.configured)
            if value is not msgspec.UNSET:
                yield value
        if self.result.value is not msgspec.UNSET:
            yield self.result.value

    def cancel(self) -> None:
        """Cancel the run; its results so far are saved. Any thread may call this."""
        self.close()
