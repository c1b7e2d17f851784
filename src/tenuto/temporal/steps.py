"""What an activity does with a session. Nothing here depends on Temporal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.runner import Blocked, More, Step, Wait
from tenuto.agent.session import AsyncSession
from tenuto.core.inbox import Cancel
from tenuto.errors import StoreError, TenutoError
from tenuto.store.protocol import Store
from tenuto.temporal.jobs import PendingId, SessionItem, SessionJob, SessionProgress

logger = logging.getLogger("tenuto")


class SessionSteps:
    """The steps of the sessions of some agents. `store` is the store of agents that were created without one."""

    def __init__(self, agents: Iterable[AsyncAgent], store: str | Store | None = None) -> None:
        self._agents: dict[str, AsyncAgent] = {}
        for agent in agents:
            if not isinstance(agent, AsyncAgent):
                raise TypeError(f"agents: expected AsyncAgent, got {type(agent).__name__}")
            if agent.name in self._agents:
                raise ValueError(f"two agents have the name {agent.name!r}: give each its own name")
            if store is not None:
                agent._use_store(store)
            self._agents[agent.name] = agent

    async def deliver(self, job: SessionJob) -> None:
        """Post the items to the inbox of the session; any process may hold it."""
        session = self._open(job)
        for item in job.items:
            await _deliver(session, item)

    async def advance(
        self, job: SessionJob, owner: str, generation: int, is_interrupted: Callable[[], bool] = lambda: False
    ) -> SessionProgress:
        """Deliver the items and do one step, or the whole run, as this owner and generation.

        `is_interrupted` tells whether a cancellation of the task only stops this attempt, and another attempt continues
        the run.
        An error that ends the run is part of the result. Raise `StoreError` if the session cannot be read or written,
        and other errors of tenuto if the run cannot start.
        """
        session = self._open(job, owner, generation)
        session._is_interrupted = is_interrupted
        await session.load()
        prompt, refused = None, ""
        for item in job.items:
            if item.kind == "prompt" and prompt is None and _is_at_rest(session):
                prompt = item
            else:
                refused = await _deliver(session, item) or refused
        if not job.items and _is_at_rest(session) and not await session._log.read_inbox():
            return _progress(session, None, "")
        head, step, error = session._log.head, None, ""
        text, key = (prompt.text, prompt.key) if prompt is not None else (None, "")
        try:
            if not job.whole_run:
                step = await session.step(text, key=key)
            elif text is None:
                await session.continue_()
            else:
                await session.send(text, key=key)
        except StoreError:
            raise
        except ValueError as exc:  # another prompt has the key
            refused = str(exc)
        except Exception as exc:
            if session._log.head == head or session._log.machine.halted is None:  # the run could not start
                raise
            error = f"{type(exc).__name__}: {exc}"
        return _progress(session, step, error or refused)

    def _open(self, job: SessionJob, owner: str = "", generation: int = 0) -> AsyncSession:
        agent = self._agents.get(job.agent)
        if agent is None:
            known = ", ".join(map(repr, sorted(self._agents)))
            raise UnknownAgent(f"this worker has no agent {job.agent!r}; it has {known}")
        return agent.session(job.session, owner=owner, generation=generation)


class UnknownAgent(TenutoError):
    """The worker has no agent with this name. Another worker may have it."""


def _is_at_rest(session: AsyncSession) -> bool:
    return session.status != "interrupted" and session.waiting_for != "approval"


async def _deliver(session: AsyncSession, item: SessionItem) -> str:
    """Post an item. Return why it was refused, or an empty text."""
    try:
        if item.kind == "prompt":
            await session.enqueue(item.text, key=item.key)
        elif item.kind == "steer":
            await session.steer(item.text, key=item.key)
        elif item.kind == "cancel":
            await session._post(Cancel(), id=f"cancel-{item.key}")
        elif item.kind in ("approve", "deny"):
            await session._post_decisions(item.calls, allowed=item.kind == "approve", reason=item.text, key=item.key)
        else:
            raise ValueError(f"unknown item {item.kind!r}")
    except ValueError as exc:  # a decision that came too late, or another prompt has the key
        logger.warning("session %s: refused: %s", session.id, exc)
        return str(exc)
    return ""


def _progress(session: AsyncSession, step: Step | None, error: str) -> SessionProgress:
    status = "more" if isinstance(step, More) else "retry" if isinstance(step, Wait) else session.status
    pending = step.pending if isinstance(step, Blocked) else session.pending if status == "waiting" else ()
    usage, cost = session.usage, session.cost
    return SessionProgress(
        status=status,
        waiting_for=session.waiting_for if status == "waiting" else "",
        seconds=step.seconds if isinstance(step, Wait) else 0.0,
        pending=tuple(PendingId(one.call.id, one.call.name, one.session) for one in pending),
        usage={"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0},
        cost="" if cost is None else str(cost),
        error=error,
    )
