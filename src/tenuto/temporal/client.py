"""The client of sessions that run on Temporal."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy

from tenuto.agent.agent import AsyncAgent
from tenuto.store.sessions import check_id
from tenuto.temporal.jobs import PendingId, SessionProgress
from tenuto.temporal.workflow import SessionStart, SessionWorkflow

_TASK_TIMEOUT = timedelta(seconds=3)
"""The time after which another worker takes a workflow task. It has no part in the length of a step."""


@dataclass(frozen=True)
class SessionResult:
    """The state of a session at rest."""

    text: str
    """The text of the last reply, as the store has it."""
    progress: SessionProgress
    """Its status, usage and cost, and the error of its last run."""


class SessionClient:
    """Starts sessions of one agent and sends messages to them. It needs a worker with the agent on the task queue.

    `agent` must use the store of the workers: results are read from it. The options are those of `SessionStart`; they
    apply to the workflows that this client starts.
    """

    def __init__(
        self,
        client: Client,
        agent: AsyncAgent,
        *,
        task_queue: str = "tenuto",
        whole_run: bool = False,
        approval_timeout: float | None = None,
        heartbeat_timeout: float = 5.0,
        step_timeout: float = 600.0,
    ) -> None:
        self._client = client
        self._agent = agent
        self._task_queue = task_queue
        self._options = SessionStart(
            "",
            agent.name,
            whole_run=whole_run,
            approval_timeout=approval_timeout,
            heartbeat_timeout=heartbeat_timeout,
            step_timeout=step_timeout,
        )

    async def start_session(self, prompt: str, *, session: str = "", key: str = "") -> str:
        """Start a session with a message, and return its id.

        With an id and a key, the call may be repeated: the session is started once.
        """
        session = check_id(session) if session else self._agent.session().id
        await self.send(session, prompt, key=key)
        return session

    async def send(self, session: str, prompt: str, *, key: str = "") -> None:
        """Send a message. A run starts when the session is at rest; a message with the same key is sent once."""
        await self._signal(session, "prompt", prompt, _new_key(key))

    async def steer(self, session: str, text: str, *, key: str = "") -> None:
        """Send a message to the active run: the model receives it with its next request."""
        await self._signal(session, "steer", text, _new_key(key))

    async def approve(self, session: str, calls: Iterable[str] = (), *, key: str = "") -> None:
        """Approve calls by their ids: all that wait, if none is named."""
        await self._signal(session, "approve", [*calls], _new_key(key))

    async def deny(self, session: str, calls: Iterable[str] = (), *, reason: str = "", key: str = "") -> None:
        """Deny calls by their ids: all that wait, if none is named. The model reads the reason."""
        await self._signal(session, "deny", [*calls], reason, _new_key(key))

    async def cancel(self, session: str, *, key: str = "") -> None:
        """Cancel the run."""
        await self._signal(session, "cancel", _new_key(key))

    async def status(self, session: str) -> str:
        """Return `running` or the status of the session."""
        return await self._handle(session).query(SessionWorkflow.status)

    async def pending(self, session: str) -> list[PendingId]:
        """Return the calls that wait for approval. The store has their arguments: `agent.resume(session).pending`."""
        return await self._handle(session).query(SessionWorkflow.pending)

    async def usage(self, session: str) -> dict[str, int]:
        """Return the tokens used so far."""
        return await self._handle(session).query(SessionWorkflow.usage)

    async def result(self, session: str) -> SessionResult:
        """Wait until the session is at rest. It does not end while a call waits for approval."""
        progress = await self._handle(session).result()
        return SessionResult((await self._agent.resume(session)).text, progress)

    def _handle(self, session: str) -> WorkflowHandle[SessionWorkflow, SessionProgress]:
        return self._client.get_workflow_handle_for(SessionWorkflow.run, _workflow_id(session))

    async def _signal(self, session: str, signal: str, *args: object) -> None:
        """Send a signal to the workflow of the session; start it if it does not run."""
        await self._client.start_workflow(
            SessionWorkflow.run,
            replace(self._options, session=session),
            id=_workflow_id(session),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=_TASK_TIMEOUT,
            start_signal=signal,
            start_signal_args=args,
        )


def _workflow_id(session: str) -> str:
    return f"tenuto-{session}"


def _new_key(key: str) -> str:
    return key or secrets.token_hex(8)
