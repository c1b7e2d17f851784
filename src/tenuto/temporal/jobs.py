"""The values that pass between a workflow and its activities."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SessionItem:
    """A message for a session."""

    kind: str
    """`prompt`, `steer`, `approve`, `deny` or `cancel`."""
    key: str
    """An item with the key of an earlier one of its kind has no effect."""
    text: str = ""
    """The text of a prompt or of steering, or the reason of a denial."""
    calls: tuple[str, ...] = ()
    """The ids of the calls to approve or deny; empty: all that wait."""


@dataclass(frozen=True)
class SessionJob:
    """One activity: deliver the items, and do a step of the session."""

    session: str
    agent: str
    step: int = 0
    """The number of the step. It grows, so that a later step replaces the holder of an earlier one."""
    whole_run: bool = False
    """Whether to do all steps of the run."""
    items: tuple[SessionItem, ...] = ()


@dataclass(frozen=True)
class PendingId:
    """A call that waits for approval. Its arguments are in the store."""

    call: str
    tool: str
    session: str = ""
    """The sub-agent session that made the call; empty: the session itself."""


@dataclass(frozen=True)
class SessionProgress:
    """The state of a session after a step."""

    status: str = "new"
    """`more` (there is another step), `retry` (after `seconds`), or a status of a session: `waiting`, `completed`,
    `cancelled` or `failed`."""
    waiting_for: str = ""
    """`approval`, `input`, `limit` or `context` if the status is `waiting`."""
    seconds: float = 0.0
    pending: tuple[PendingId, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    """The tokens used so far: `input_tokens` and `output_tokens`."""
    cost: str = ""
    """The cost in USD so far as a decimal number; empty if a price is unknown."""
    error: str = ""
    """The error that ended the run, or the reason why an item was refused."""

    @property
    def at_rest(self) -> bool:
        """Whether the session has nothing to do until it receives a message."""
        return self.status not in ("more", "retry") and self.waiting_for != "approval"
