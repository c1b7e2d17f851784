"""Sessions on Temporal: workers run the steps of sessions, and the store keeps them (`pip install 'tenuto[temporal]'`).

Only session ids, keys and the messages that are sent to a session pass through Temporal. Replies and tool results stay in the
store. The lease of the store, not the engine, decides which worker may write a session. `docs/scaling.md` has a guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.lazy import import_lazily

if TYPE_CHECKING:
    from tenuto.temporal.client import SessionClient as SessionClient
    from tenuto.temporal.client import SessionResult as SessionResult
    from tenuto.temporal.jobs import PendingId as PendingId
    from tenuto.temporal.jobs import SessionItem as SessionItem
    from tenuto.temporal.jobs import SessionJob as SessionJob
    from tenuto.temporal.jobs import SessionProgress as SessionProgress
    from tenuto.temporal.workers import worker as worker
    from tenuto.temporal.workflow import SessionStart as SessionStart
    from tenuto.temporal.workflow import SessionWorkflow as SessionWorkflow

__all__, __getattr__, __dir__ = import_lazily(
    __name__,
    {
        "tenuto.temporal.client": "SessionClient SessionResult",
        "tenuto.temporal.jobs": "SessionItem SessionJob PendingId SessionProgress",
        "tenuto.temporal.workers": "worker",
        "tenuto.temporal.workflow": "SessionStart SessionWorkflow",
    },
)
