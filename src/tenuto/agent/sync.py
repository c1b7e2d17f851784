"""The agent for code that does not await: the same agent, on an event loop in a background thread.

Each method runs the coroutine of the same name. Ctrl-C cancels the run, which is recorded, and is raised when that is done;
a second Ctrl-C is raised at once. Either way the session can be continued.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from types import TracebackType
from typing import Self, Unpack

import tenuto  # annotations load `tenuto.Report` when they are evaluated
from tenuto.agent.agent import AgentOptions, AsyncAgent
from tenuto.agent.events import AgentEvent
from tenuto.agent.run_context import Listener, PendingCall
from tenuto.agent.run_stream import AsyncRun
from tenuto.agent.runner import Step
from tenuto.agent.session import AsyncSession
from tenuto.agent.sub_agents import AgentTool
from tenuto.client.background_loop import BackgroundLoop
from tenuto.client.parameters import MessageInput
from tenuto.client.reply import Reply
from tenuto.client.signatures import mirror_methods
from tenuto.client.sync_stream import SyncStream
from tenuto.core.events import StreamEvent
from tenuto.core.journal import Entry
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, ToolCallView, Usage
from tenuto.core.transcript import Transcript


@mirror_methods(AsyncAgent)
class Agent:
    """Runs sessions with one model and its tools. The methods are those of `AsyncAgent`, without `await`.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent. Close it with `with` or `close()`; an
    agent that is garbage-collected closes by itself.
    """

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        self._async = AsyncAgent(model, **options)
        self._loop = BackgroundLoop(self._async.close, owner="Agent", warn=False)

    @property
    def model(self) -> str:
        """The model of new sessions."""
        return self._async.model

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self._async.name

    def session(self, id: str = "", *, owner: str = "", generation: int = 0) -> Session:
        """Open the session with exactly this id, or create it; without an id, create a new one.

        `owner` and `generation` identify the lease holder: see `AsyncAgent.session`.
        """
        session = Session(self, self._async.session(id, owner=owner, generation=generation))
        if id:
            self._loop.run(session._async.load())
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
        """Find a stored session: by its id, a unique prefix of it, its name, `last` or `~N`. Nothing is written."""
        resumed = self._async.resume(session, takeover=takeover, root=root, owner=owner, generation=generation)
        return Session(self, self._loop.run(resumed))

    def as_tool(self, name: str, description: str = "", *, background: bool = False) -> AgentTool:
        """Return the agent as a tool. A call has a prompt and runs in its own session."""
        return self._async.as_tool(name, description, background=background)

    def close(self) -> None:
        """Close every session and the store."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncAgent", "Agent")


class Session:
    """A stored conversation. The methods are those of `AsyncSession`, without `await`; any thread may call them."""

    def __init__(self, agent: Agent, session: AsyncSession) -> None:
        self._agent = agent
        self._loop = agent._loop
        self._async = session

    @property
    def id(self) -> str:
        """The session's id."""
        return self._async.id

    @property
    def is_new(self) -> bool:
        """Whether the session has no entries yet."""
        return self._async.is_new

    @property
    def transcript(self) -> Transcript:
        """The conversation without the system prompt."""
        return self._async.transcript

    @property
    def usage(self) -> Usage:
        """The tokens used so far, failed attempts and sub-agents included."""
        return self._async.usage

    @property
    def cost(self) -> Decimal | None:
        """The cost in USD so far, failed attempts and sub-agents included; None if the price of a reply is unknown."""
        return self._async.cost

    @property
    def text(self) -> str:
        """The text of the last reply; empty before the first reply."""
        return self._async.text

    @property
    def last(self) -> AssistantMessage | None:
        """The model's last message."""
        return self._async.last

    @property
    def model(self) -> str:
        """The model of the next request."""
        return self._async.model

    @property
    def status(self) -> str:
        """`new`, `running`, `waiting`, `interrupted`, `completed`, `cancelled` or `failed`."""
        return self._async.status

    @property
    def waiting_for(self) -> str:
        """`approval`, `input`, `limit` or `context` if the status is `waiting`; else empty."""
        return self._async.waiting_for

    @property
    def has_pending_work(self) -> bool:
        """Whether `continue_()` has work to do that the journal shows."""
        return self._async.has_pending_work

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that need approval."""
        return self._async.pending

    @property
    def reply(self) -> Reply | None:
        """The last reply that this process received; None before."""
        return self._async.reply

    def send(self, message: MessageInput, *, key: str = "") -> Reply:
        """Send a message, run tools until the model is done, and return its last reply. A `key` is sent once."""
        return self._loop.run(self._async.send(message, key=key))

    def continue_(self) -> Reply | None:
        """Do the pending work, and take the messages of the inbox. Return the last reply; None if there was no work."""
        return self._loop.run(self._async.continue_())

    def stream(self, message: MessageInput | None = None, *, key: str = "") -> Run:
        """Send a message, or continue without one, as a stream of events."""
        return Run(self, self._async.stream(message, key=key))

    def step(self, message: MessageInput | None = None, *, key: str = "") -> Step:
        """Do one step of a run: one request, or the tool calls of one turn."""
        return self._loop.run(self._async.step(message, key=key))

    def enqueue(self, message: MessageInput, *, key: str = "") -> None:
        """Post a message that starts a run at rest: `continue_()` of any process runs it."""
        self._loop.run(self._async.enqueue(message, key=key))

    def steer(self, message: MessageInput) -> None:
        """Post a message for the active run: the model receives it at the next turn boundary."""
        self._loop.run(self._async.steer(message))

    def approve(self, *calls: PendingCall | ToolCallView | str) -> Reply | None:
        """Approve calls that wait for approval, and continue the run."""
        return self._loop.run(self._async.approve(*calls))

    def deny(self, *calls: PendingCall | ToolCallView | str, reason: str = "") -> Reply | None:
        """Deny calls that wait for approval, and continue the run. The model reads the reason."""
        return self._loop.run(self._async.deny(*calls, reason=reason))

    def cancel(self) -> None:
        """Cancel the run, in another thread or process: its `send` raises `RunCancelled`."""
        if not self._async.cancel_local():
            self._loop.run(self._async.cancel())

    def fork(self, at: int | None = None) -> Session:
        """Create a new session with the first `at` messages. This one is not changed."""
        return Session(self._agent, self._loop.run(self._async.fork(at)))

    def handover(self, model: str) -> tuple[Loss, ...]:
        """Switch to another model; return the content that it does not receive."""
        return self._loop.run(self._async.handover(model))

    def audit(self, model: str | None = None) -> tenuto.Report:
        """Report what a provider would refuse if the session were sent to its model (or another) now."""
        return self._loop.run(self._async.audit(model))

    def entries(self) -> list[Entry]:
        """Read the journal."""
        return self._loop.run(self._async.entries())

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call a function, in another thread, for each event from now on. Return a function that ends this."""
        return self._async.on_event(listener)

    def load(self) -> None:
        """Read the entries that other processes have written."""
        self._loop.run(self._async.load())

    def close(self) -> None:
        """Cancel the run, if there is one, and release the lease."""
        if not self._loop.closed:
            self._loop.run(self._async.close())

    def __enter__(self) -> Self:
        self._loop.run(self._async.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncSession", "Session")


class Run(SyncStream[StreamEvent | AgentEvent]):
    """A run as a stream of its events. Leaving a `with` early cancels the run and records that."""

    def __init__(self, session: Session, run: AsyncRun) -> None:
        super().__init__(session._loop, run)
        self._session = session  # keeps the session alive while its run is read

    def cancel(self) -> None:
        """Cancel the run; its results so far are saved. Any thread may call this."""
        self.close()
