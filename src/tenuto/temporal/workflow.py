"""The workflow of a session: it decides when an activity does the next step, and waits between steps.

The workflow ends when the session is at rest; the next message starts it again. It has no part of the conversation.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import is_cancelled_exception

from tenuto.temporal.jobs import PendingId, SessionItem, SessionJob, SessionProgress

_RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))


@dataclass(frozen=True)
class SessionStart:
    """The argument of the workflow."""

    session: str
    agent: str
    """The name of the agent. A worker must have it."""
    whole_run: bool = False
    """Whether an activity does a whole run; by default, it does one request or the tool calls of one turn."""
    approval_timeout: float | None = None
    """The seconds until calls that wait for approval are denied; None: they wait."""
    heartbeat_timeout: float = 5.0
    """The seconds after which another worker takes over from one that is silent."""
    step_timeout: float = 600.0
    """The longest time of one activity, in seconds."""
    step: int = 0
    """The number of steps so far."""
    items: tuple[SessionItem, ...] = ()
    """Items that are not delivered yet."""
    progress: SessionProgress = field(default_factory=SessionProgress)
    """The state after the last step."""


@workflow.defn(name="tenuto.session")
class SessionWorkflow:
    """Runs one session until it is at rest."""

    @workflow.init
    def __init__(self, start: SessionStart) -> None:
        self._start = start
        self._items = [*start.items]
        self._progress = start.progress
        self._step = start.step

    @workflow.run
    async def run(self, start: SessionStart) -> SessionProgress:
        try:
            while await self._wait_for_work():
                if workflow.info().is_continue_as_new_suggested():
                    await workflow.wait_condition(workflow.all_handlers_finished)
                    items = tuple(self._items)
                    workflow.continue_as_new(replace(start, step=self._step, items=items, progress=self._progress))
                await self._advance()
        except BaseException as exc:
            if is_cancelled_exception(exc) and not self._progress.at_rest:
                self._items.append(SessionItem("cancel", f"workflow-{workflow.info().run_id}"))
                await self._advance()
            raise
        return self._progress

    async def _wait_for_work(self) -> bool:
        """Wait until there is a step to do. Return False if the session is at rest and no item has arrived."""
        progress = self._progress
        if self._items or progress.status == "more" or not self._step:
            return True
        if progress.at_rest:
            return False
        timeout = progress.seconds if progress.status == "retry" else self._start.approval_timeout
        try:
            await workflow.wait_condition(lambda: bool(self._items), timeout=timeout)
        except TimeoutError:
            if progress.waiting_for == "approval":
                calls = tuple(one.call for one in progress.pending)
                self._items.append(
                    SessionItem("deny", f"timeout-{self._step}", f"no decision within {timeout:g} s", calls)
                )
        return True

    async def _advance(self) -> None:
        """Do a step in an activity, and deliver the items that arrive meanwhile."""
        start = self._start
        self._step += 1
        job = SessionJob(start.session, start.agent, self._step, start.whole_run, self._take_items())
        step = workflow.start_activity(
            "tenuto.advance",
            job,
            result_type=SessionProgress,
            start_to_close_timeout=timedelta(seconds=start.step_timeout),
            heartbeat_timeout=timedelta(seconds=start.heartbeat_timeout),
            retry_policy=_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        delivered = False
        try:
            while not step.done():
                await workflow.wait_condition(lambda: bool(self._items) or step.done())
                if self._items and not step.done():
                    delivered = True
                    await workflow.execute_activity(
                        "tenuto.deliver",
                        SessionJob(start.session, start.agent, items=self._take_items()),
                        start_to_close_timeout=timedelta(seconds=30),
                        retry_policy=_RETRY,
                    )
        except asyncio.CancelledError:
            step.cancel()
            await workflow.wait([step])
            raise
        self._progress = await step
        if delivered and self._progress.at_rest:  # the step may have ended before it took the items
            self._progress = replace(self._progress, status="more")

    def _take_items(self) -> tuple[SessionItem, ...]:
        items, self._items = tuple(self._items), []
        return items

    # --- signals and queries ---

    @workflow.signal
    def prompt(self, text: str, key: str) -> None:
        """Start a run with a message, once the session is at rest."""
        self._items.append(SessionItem("prompt", key, text))

    @workflow.signal
    def steer(self, text: str, key: str) -> None:
        """Send a message to the run, before its next request."""
        self._items.append(SessionItem("steer", key, text))

    @workflow.signal
    def approve(self, calls: list[str], key: str) -> None:
        """Approve calls by their ids; an empty list approves all that wait."""
        self._items.append(SessionItem("approve", key, calls=tuple(calls)))

    @workflow.signal
    def deny(self, calls: list[str], reason: str, key: str) -> None:
        """Deny calls by their ids; an empty list denies all that wait."""
        self._items.append(SessionItem("deny", key, reason, tuple(calls)))

    @workflow.signal
    def cancel(self, key: str) -> None:
        """Cancel the run."""
        self._items.append(SessionItem("cancel", key))

    @workflow.query
    def status(self) -> str:
        """`running`, or a status of a session."""
        return "running" if self._progress.status in ("new", "more", "retry") else self._progress.status

    @workflow.query
    def pending(self) -> list[PendingId]:
        """Return the calls that wait for approval."""
        return [*self._progress.pending]

    @workflow.query
    def usage(self) -> dict[str, int]:
        """Return the tokens used so far."""
        return self._progress.usage
