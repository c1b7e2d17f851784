"""The result of a run."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from tenuto.agent.machine import PendingCall
from tenuto.client.reply import Reply
from tenuto.core.loss import Loss
from tenuto.core.messages import Usage
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Out = TypeVar("Out", default=Any)
    AnySession = TypeVar("AnySession", default=Any)
else:
    from typing import TypeVar

    Out = TypeVar("Out")
    AnySession = TypeVar("AnySession")


class Result(msgspec.Struct, Generic[Out, AnySession], frozen=True, kw_only=True):
    """The result of a run: its output, what it cost, and what it waits for."""

    reply: Reply
    """The last reply of the model."""
    session: AnySession
    """The session of the run; send to it to continue."""
    usage: Usage = Usage()
    """The tokens of the run: failed attempts, repairs and sub-agents included."""
    cost: Decimal | None = None
    """The cost of the run in USD; None if the price of a reply is unknown."""
    losses: tuple[Loss, ...] = ()
    """The parts of the requests and replies of the run that could not be carried, with the reasons."""
    pending: tuple[PendingCall, ...] = ()
    """The calls that need approval: the run continues with `session.approve()` or `session.deny()`."""
    value: Out | msgspec.UnsetType = msgspec.UNSET
    """The output; unset if the run has none yet."""

    @property
    def output(self) -> Out:
        """The output: a value of the output type, or the text of the last reply.

        Raise `TenutoError` if there is none, because the run waits for approval, for example.
        """
        if self.value is msgspec.UNSET:
            reason = "the run waits for approval: see pending" if self.pending else "the run did not complete"
            raise TenutoError(f"no output: {reason}")
        return self.value

    @property
    def text(self) -> str:
        """The text of the last reply, refusals included."""
        return self.reply.text

    def __repr__(self) -> str:
        value = "no output" if self.value is msgspec.UNSET else f"{self.value!r:.200}"
        return f"<Result {value}{f', {len(self.pending)} pending' if self.pending else ''}>"
