"""The worker: it runs the workflows and steps of the sessions of its agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tenuto.agent.agent import AsyncAgent
from tenuto.errors import MissingTool, StoreCorrupt, StoreError, TenutoError
from tenuto.store.protocol import Store
from tenuto.temporal.jobs import SessionJob, SessionProgress
from tenuto.temporal.steps import SessionSteps, UnknownAgent
from tenuto.temporal.workflow import SessionWorkflow

HEARTBEAT = 0.5
"""The seconds between two heartbeats of a step."""
_RESTRICTIONS = SandboxRestrictions.default.with_passthrough_modules("tenuto")


def worker(
    client: Client,
    agents: Iterable[AsyncAgent],
    *,
    store: str | Store | None = None,
    task_queue: str = "tenuto",
    steps: int = 50,
    shutdown: float = 30.0,
) -> Worker:
    """Return a Temporal worker for the sessions of these agents: `await worker(...).run()`.

    Sessions find their agent by its name. `store` is for agents that were created without a store; all workers of a task
    queue need the same one. `steps` is the largest number of steps at a time, `shutdown` the seconds that they have to end
    when the worker stops. Then they are cancelled, and another worker continues the sessions.
    """
    activities = _Activities(SessionSteps(agents, store))
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[SessionWorkflow],
        activities=[activities.advance, activities.deliver],
        workflow_runner=SandboxedWorkflowRunner(restrictions=_RESTRICTIONS),
        max_concurrent_activities=steps,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=shutdown),
    )


class _Activities:
    def __init__(self, steps: SessionSteps) -> None:
        self._steps = steps

    @activity.defn(name="tenuto.advance")
    async def advance(self, job: SessionJob) -> SessionProgress:
        info = activity.info()
        beat = asyncio.create_task(_beat())
        try:
            generation = (job.step << 16) + info.attempt
            return await self._steps.advance(job, f"temporal/{info.workflow_id}", generation, _is_interrupted)
        except asyncio.CancelledError:
            if _is_interrupted():
                raise ApplicationError("the worker stopped, or was silent for too long", type="Interrupted") from None
            raise
        except TenutoError as exc:
            raise _application_error(exc) from exc
        finally:
            beat.cancel()

    @activity.defn(name="tenuto.deliver")
    async def deliver(self, job: SessionJob) -> None:
        try:
            await self._steps.deliver(job)
        except TenutoError as exc:
            raise _application_error(exc) from exc


def _is_interrupted() -> bool:
    """Whether the activity was cancelled, but not by the workflow: another attempt continues the session."""
    details = activity.cancellation_details()
    return details is not None and not details.cancel_requested


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT)


def _application_error(error: TenutoError) -> ApplicationError:
    """Return the error for the engine. It sends the activity again if this or another worker may succeed later."""
    again = isinstance(error, StoreError | UnknownAgent | MissingTool) and not isinstance(error, StoreCorrupt)
    return ApplicationError(str(error), type=type(error).__name__, non_retryable=not again)
