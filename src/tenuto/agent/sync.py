"""The door for code that does not await: the same agent, on a loop of its own in the background.

Nothing is written twice: each method runs the coroutine of its namesake. Ctrl-C cancels the run, which is written down,
and is raised when that is done; a second one is raised at once. Either way the session goes on later.
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
from tenuto.agent.session import AsyncRun, AsyncSession, PendingCall
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

__all__ = ["Agent", "Run", "Session"]


@mirror_methods(AsyncAgent)
class Agent:
    """Runs sessions with one model and its tools. The methods are those of `AsyncAgent`, without the `await`.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent. Close it
    with `with` or `close()`; one that is forgotten closes by itself.
    """

    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        self._async = AsyncAgent(model, **options)
        self._bridge = BackgroundLoop(self._async.close, owner="Agent", warn=False)

    @property
    def model(self) -> str:
        """Whom new sessions ask."""
        return self._async.model

    @property
    def name(self) -> str:
        """What tells its sessions from those of other agents."""
        return self._async.name

    def session(self, id: str = "") -> Session:
        """Begin a session; it is kept from the first thing that is said in it."""
        return Session(self, self._async.session(id))

    def resume(
        self, session: str = "last", *, takeover: bool = False, root: str | os.PathLike[str] | None = None
    ) -> Session:
        """Open a stored session: by its id, a unique prefix of it, its name, `last` or `~N`. Nothing is written."""
        return Session(self, self._bridge.run(self._async.resume(session, takeover=takeover, root=root)))

    def as_tool(self, name: str, description: str = "") -> AgentTool:
        """Make a tool of the agent: whoever calls it gives a prompt, and gets the answer of a session of its own."""
        return self._async.as_tool(name, description)

    def close(self) -> None:
        """Let go of every session and of the store."""
        self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncAgent", "Agent")

    @property
    def bridge(self) -> BackgroundLoop:
        """What runs its coroutines."""
        return self._bridge


class Session:
    """A conversation that is kept. The methods are those of `AsyncSession`, without the `await`."""

    def __init__(self, agent: Agent, session: AsyncSession) -> None:
        self._agent = agent
        self._async = session

    @property
    def id(self) -> str:
        """The session's id."""
        return self._async.id

    @property
    def transcript(self) -> Transcript:
        """The conversation, as the model is to see it."""
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
        """What the model said last; empty if it has said nothing yet."""
        return self._async.text

    @property
    def last(self) -> AssistantMessage | None:
        """The model's last message."""
        return self._async.last

    @property
    def model(self) -> str:
        """Whom the session asks."""
        return self._async.model

    @property
    def status(self) -> str:
        """`new`, `running`, `open`, or the word with which the last run stopped."""
        return self._async.status

    @property
    def has_pending_work(self) -> bool:
        """Whether there is something to be done without anything being said: `continue_()` does it."""
        return self._async.has_pending_work

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for somebody's word."""
        return self._async.pending

    @property
    def reply(self) -> Reply | None:
        """What the model said last in this process; None if it was not asked here."""
        return self._async.reply

    def send(self, message: MessageInput) -> Reply:
        """Say something; run tools until the model is done, and return its last reply."""
        return self._agent.bridge.run(self._async.send(message))

    def continue_(self) -> Reply | None:
        """Do what is owed, without saying anything; None if nothing is."""
        return self._agent.bridge.run(self._async.continue_())

    def stream(self, message: MessageInput | None = None) -> Run:
        """Say something (or go on, without), and see everything that happens."""
        return Run(self, self._async.stream(message))

    def approve(self, *calls: PendingCall | ToolCallView | str) -> Reply | None:
        """Let calls run that wait for somebody's word, and go on."""
        return self._agent.bridge.run(self._async.approve(*calls))

    def deny(self, *calls: PendingCall | ToolCallView | str, reason: str = "") -> Reply | None:
        """Have calls answered that they were not run, and why, and go on."""
        return self._agent.bridge.run(self._async.deny(*calls, reason=reason))

    def steer(self, message: MessageInput) -> None:
        """Say something while the agent is at work: the model hears it at the next turn boundary. From any thread."""
        self._async.steer(message)

    def cancel(self) -> None:
        """End the run that is under way in another thread: `send` raises `RunCancelled` there."""
        self._async.cancel()

    def fork(self, at: int | None = None) -> Session:
        """Branch off a new session with the first `at` messages. This one is not changed."""
        return Session(self._agent, self._agent.bridge.run(self._async.fork(at)))

    def handover(self, model: str) -> tuple[Loss, ...]:
        """Go on with another model from here; return what cannot go along. The journal keeps it all."""
        return self._agent.bridge.run(self._async.handover(model))

    def audit(self, model: str | None = None) -> tenuto.Report:
        """Say what would be refused if the session were sent to its model (or to another) now. Nothing is sent or written."""
        return self._agent.bridge.run(self._async.audit(model))

    def entries(self) -> list[Entry]:
        """Read the journal."""
        return self._agent.bridge.run(self._async.entries())

    def on_event(self, hear: Callable[[StreamEvent | AgentEvent], object]) -> Callable[[], None]:
        """Have a function called, in another thread, for everything that happens from now on; return what ends that."""
        return self._async.on_event(hear)

    def close(self) -> None:
        """Cancel the run, if there is one, and release the lease."""
        if not self._agent.bridge.closed:
            self._agent.bridge.run(self._async.close())

    def __enter__(self) -> Self:
        self._agent.bridge.run(self._async.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bridge(self) -> BackgroundLoop:
        """What runs its coroutines."""
        return self._agent.bridge

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncSession", "Session")


class Run(SyncStream["StreamEvent | AgentEvent"]):
    """A run while it goes on: iterate over what happens. Leaving a `with` early cancels the run, and says so."""

    def __init__(self, session: Session, run: AsyncRun) -> None:
        super().__init__(session.bridge, run)
        self._session = session  # what is being read is not forgotten

    def cancel(self) -> None:
        """End the run; what it did is kept. Any thread may do so."""
        self.close()
