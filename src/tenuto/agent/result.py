"""The result of a run."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from tenuto.agent.hooks import RunInfo
from tenuto.agent.machine import PendingCall
from tenuto.agent.output import RunOutput
from tenuto.agent.run_settings import make_output
from tenuto.agent.session_log import KeyedRun
from tenuto.client.reply import Reply
from tenuto.core.loss import Loss
from tenuto.core.messages import Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from tenuto.agent.runner import Runner
    from tenuto.agent.session import AsyncSession

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

        Raise `TenutoError` without one, because the run waits for approval, for example.
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


async def make_result(
    session: AsyncSession[Any, Any], run: KeyedRun, runner: Runner | None = None
) -> Result[Any, Any] | None:
    """Return the result of a run; None if it has no reply. Without a runner it is that of the journal."""
    is_last = run is session._log.last_run
    reply = runner.reply if runner is not None and is_last else None
    reply = reply or stored_reply(session, run)
    if reply is None:
        return None
    spent, halted = session._log.spent, session._log.machine.halted
    is_complete = not is_last or (halted is not None and halted.reason == "completed")
    value: Any = msgspec.UNSET
    if is_complete:
        output = runner.output if runner is not None and is_last else _stored_output(session, run)
        value = reply.response.text if output is None else await output.read_value(reply)
    return Result(
        reply=reply,
        session=session,
        usage=spent.usage if is_last else reply.usage or Usage(),
        cost=(None if spent.unpriced else spent.usd) if is_last else reply.cost,
        losses=runner.losses if runner is not None and runner.losses else reply.response.losses,
        pending=() if is_complete else session.pending,
        value=value,
    )


def _stored_output(session: AsyncSession[Any, Any], run: KeyedRun) -> RunOutput | None:
    """Return the output that a run of the journal asked for."""
    info = RunInfo(
        session_id=session.id,
        agent=session._configured.agent,
        model=session.model,
        resumed=True,
        deps=session._deps,
    )
    return make_output(session, run.configured, info)


def stored_reply(session: AsyncSession[Any, Any], run: KeyedRun) -> Reply | None:
    """Return the reply of a run as the journal has it."""
    received, messages = run.reply, session.transcript.messages
    if received is None:
        return None
    end = next((index for index, message in enumerate(messages, 1) if message is received.message), len(messages))
    origin = received.message.origin
    response = ChatResponse(
        id=received.response_id,
        model=origin.model if origin is not None else "",
        provider=origin.provider if origin is not None else "",
        choices=(Choice(received.message),),
        usage=received.usage,
        losses=received.losses,
    )
    id, transcript = received.request_id or None, Transcript(messages[:end])
    return Reply(response=response, transcript=transcript, asked_at=run.replied_at, request_id=id)
