"""Every error the package raises, in one tree, so that callers can catch at the height they need.

* TenutoError
  x LLMError                    what a provider said, or failed to say
    + AuthenticationFailed      401, 403: the key is wrong, or may not do this
    + BadRequest                400, 413, 422: the request will not get better by waiting
      - ContextTooLong          the conversation no longer fits
    + NotFound                  404: no such model, file or address
    + RateLimited               429: `retry_after` says when to try again
    + QuotaExceeded             the account is out of money or allowance: waiting does not help
    + Unavailable               5xx, overloaded: `retry_after` says when to try again
    + ConnectionFailed          the line could not be opened, or broke
    + TimedOut                  nothing came in time
    + IncompleteResponse        the reply ended without its dialect's last word; `partial` holds what came
    + ProtocolError             bytes that break the dialect; `frame` holds the offending piece
  x UnsupportedModel            the model lacks what was asked of it
  x UnknownProvider             no such row, or a model name without a provider
  x MissingKey                  names the variable that would hold it
  x MissingTool                 an open call needs a tool that is not there
  x LossError                   the request would lose something, and `on_loss="raise"`
  x TranscriptError             a transcript that no provider would take
    + UnsupportedContent        the newest message has content that the model does not take
  x FetchRefused                an address that is not fetched, or that does not hold what was wanted
  x StreamAssemblyError         events in an order that makes no block
    + OrphanedToolDelta, OrphanedReasoningDelta, DuplicateToolStart, UnknownToolComplete, UnknownToolFinalize,
      InvalidArgsJson
  x SchemaMismatch              the answer does not fit the schema
  x StoreError
    + SessionNotFound, SessionInUse, LeaseLost, StoreCorrupt
    + InvalidSessionId          also a ValueError
  x ClosedError                 a client, an agent or a stream that was closed is used; also a RuntimeError
  x LimitReached                a run stopped where it was told to stop
  x RunCancelled                a run was cancelled by `session.cancel()`

A tool that fails is not an error here: it is a result that the model gets to read. Misuse (an unknown parameter, a value
of the wrong type or out of range) raises `TypeError` or `ValueError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who only lists sessions, or is told that a file is not there, needs none of the values
    from tenuto.core.loss import Loss
    from tenuto.core.response import ChatResponse
    from tenuto.core.transcript import Transcript

__all__ = [
    "AuthenticationFailed",
    "BadRequest",
    "ClosedError",
    "ConnectionFailed",
    "ContextTooLong",
    "DuplicateToolStart",
    "FetchRefused",
    "IncompleteResponse",
    "InvalidArgsJson",
    "InvalidSessionId",
    "LLMError",
    "LeaseLost",
    "LimitReached",
    "LossError",
    "MissingKey",
    "MissingTool",
    "NotFound",
    "OrphanedReasoningDelta",
    "OrphanedToolDelta",
    "ProtocolError",
    "QuotaExceeded",
    "RateLimited",
    "RunCancelled",
    "SchemaMismatch",
    "SessionInUse",
    "SessionNotFound",
    "StoreCorrupt",
    "StoreError",
    "StreamAssemblyError",
    "TenutoError",
    "TimedOut",
    "TranscriptError",
    "Unavailable",
    "UnknownProvider",
    "UnknownToolComplete",
    "UnknownToolFinalize",
    "UnsupportedContent",
    "UnsupportedModel",
]


class TenutoError(Exception):
    """The root of the tree. Errors copy and pickle without change, apart from cause, context and traceback."""

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from class, arguments and attributes: constructors take other arguments than `args` holds."""
        state = dict(vars(self))
        if "__notes__" in state:
            state["__notes__"] = list(state["__notes__"])
        return _rebuilt, (type(self), self.args), state


def _rebuilt(kind: type[TenutoError], args: tuple[object, ...]) -> TenutoError:
    return kind.__new__(kind, *args)


# --- what a provider said ---------------------------------------------------------------------------------------------


class LLMError(TenutoError):
    """A call that failed on the other side, or on the way there.

    `provider` is the row's name; `raw` is the body of the response, unshortened. `partial` is what was assembled before a
    stream broke, without unconfirmed tokens; `transcript` is the conversation with it, from which a call may continue.
    """

    retryable = False

    def __init__(
        self,
        message: str,
        provider: str = "",
        status: int | None = None,
        retryable: bool | None = None,
        raw: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.status = status
        self.raw = raw
        self.request_id: str | None = None
        self.retry_after: float | None = None
        self.partial: ChatResponse | None = None
        self.transcript: Transcript | None = None
        if retryable is not None:
            self.retryable = retryable


class AuthenticationFailed(LLMError):
    """The key is missing, wrong, or may not do this."""


class BadRequest(LLMError):
    """The provider refuses the request as it is."""


class ContextTooLong(BadRequest):
    """The conversation is longer than the model can read."""


class NotFound(LLMError):
    """There is no such model, file or address."""


class RateLimited(LLMError):
    """Too many requests or tokens in too short a time; `retry_after` is in seconds, if the provider said."""

    retryable = True


class QuotaExceeded(LLMError):
    """The account's money or allowance is used up."""


class Unavailable(LLMError):
    """The provider is overloaded or broken for the moment; `retry_after` is in seconds, if the provider said."""

    retryable = True


class ConnectionFailed(LLMError):
    """The line could not be opened, or broke."""

    retryable = True


class TimedOut(LLMError):
    """Nothing came in time."""

    retryable = True


class IncompleteResponse(LLMError):
    """The reply ended without its dialect's last word. `partial` is what came, marked as incomplete."""

    retryable = True


class ProtocolError(LLMError):
    """The provider's bytes broke its own dialect.

    `frame` is the piece that could not be read, unshortened: a report without it cannot be acted on.
    """

    def __init__(self, message: str, *, provider: str = "", frame: bytes = b"") -> None:
        super().__init__(message, provider=provider, raw=frame.decode("utf-8", "replace"))
        self.frame = frame


# --- what we refuse ---------------------------------------------------------------------------------------------------


class UnsupportedModel(TenutoError):
    """The model cannot do what is asked; `reason` names the missing feature."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"unsupported model {model!r}: {reason}")
        self.model = model
        self.reason = reason


class UnknownProvider(TenutoError):
    """No provider row has this name, or (`bare`) a model name has no provider and its vendor is not clear.

    `near` lists the candidates: provider names, or `provider/model` names for a bare model name.
    """

    def __init__(self, name: str, near: tuple[str, ...] = (), *, bare: bool = False) -> None:
        if bare and near:
            message = f"no provider in {name!r}: use {' or '.join(near)}"
        elif bare:
            message = f"{name!r} is not a model name: use provider/model"
        else:
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            message = f"unknown provider {name!r}{hint}"
        super().__init__(message)
        self.name = name
        self.suggestions = near
        self.bare = bare


class MissingKey(TenutoError):
    """No key for a provider; the message names the variables that would hold one."""

    def __init__(self, provider: str, variables: tuple[str, ...] = (), *, reason: str = "") -> None:
        where = f": set {' or '.join(variables)}, or pass keys={{{provider!r}: ...}}" if variables else ""
        super().__init__(f"no API key for {provider!r}{f': {reason}' if reason else where}")
        self.provider = provider
        self.variables = variables


class MissingTool(TenutoError):
    """A tool that a transcript calls for is not among those given."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no tool named {name!r}")
        self.name = name


class LossError(TenutoError):
    """A request cannot carry everything, and the client has `on_loss="raise"`; `losses` lists what is lost."""

    def __init__(self, model: str, losses: tuple[Loss, ...]) -> None:
        told = "; ".join(f"{loss.place}: {loss.detail}" for loss in losses)
        super().__init__(f"{model} cannot take all of the request: {told}")
        self.model = model
        self.losses = losses


class TranscriptError(TenutoError):
    """The transcript says something that no provider would take; the message names the place."""


class UnsupportedContent(TranscriptError):
    """The newest message has content that the model does not take; nothing was sent.

    `model` is the model, `content` names the content: "image", "audio", "document".
    """

    def __init__(self, model: str, content: str) -> None:
        super().__init__(f"{model} does not take {content} in a user message: choose a model that does, or send text")
        self.model = model
        self.content = content


class FetchRefused(TenutoError):
    """An address is not fetched, or does not hold what was wanted; the message says which address and why."""


class SchemaMismatch(TenutoError):
    """The model's answer does not fit the schema it was given; `text` is what it wrote, `response` the whole of it."""

    def __init__(self, message: str, *, text: str = "", response: ChatResponse | None = None) -> None:
        super().__init__(message)
        self.text = text
        self.response = response


class LimitReached(TenutoError):
    """A run stopped where it was told to stop; `limit` names which."""

    def __init__(self, limit: str, message: str = "") -> None:
        super().__init__(message or f"limit reached: {limit}")
        self.limit = limit


class ClosedError(TenutoError, RuntimeError):
    """A client, an agent or a stream was used after it was closed."""


class RunCancelled(TenutoError):
    """Somebody cancelled the run. What was said and done until then is kept, and the session goes on from there."""


# --- assembling a stream ----------------------------------------------------------------------------------------------


class StreamAssemblyError(TenutoError):
    """Events came in an order that makes no block. Whoever reads the stream decides what follows from it."""

    def __init__(self, message: str, *, id: str = "") -> None:
        super().__init__(message)
        self.id = id


class OrphanedToolDelta(StreamAssemblyError):
    """Arguments for a call that was never begun."""

    def __init__(self, id: str) -> None:
        super().__init__(f"delta for unknown tool call: {id}", id=id)


class OrphanedReasoningDelta(StreamAssemblyError):
    """Reasoning that was never begun."""

    def __init__(self) -> None:
        super().__init__("delta for unknown reasoning block")


class DuplicateToolStart(StreamAssemblyError):
    """The same call is begun twice."""

    def __init__(self, id: str) -> None:
        super().__init__(f"duplicate tool call start: {id}", id=id)


class UnknownToolComplete(StreamAssemblyError):
    """A call is completed that was never begun; raised in strict mode only."""

    def __init__(self, id: str) -> None:
        super().__init__(f"complete event for unknown tool: {id}", id=id)


class UnknownToolFinalize(StreamAssemblyError):
    """Arguments are asked for of a call that was never begun."""

    def __init__(self, id: str) -> None:
        super().__init__(f"finalize args for unknown tool: {id}", id=id)


class InvalidArgsJson(StreamAssemblyError):
    """The collected arguments are not JSON."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"invalid args JSON for tool {id}: {reason}", id=id)
        self.reason = reason

    @property
    def source(self) -> str:
        """The reason, under its other name."""
        return self.reason


# --- keeping ----------------------------------------------------------------------------------------------------------


class StoreError(TenutoError):
    """Something about keeping a session failed."""


class InvalidSessionId(StoreError, ValueError):
    """The text is not a session id."""


class SessionNotFound(StoreError):
    """The store holds no such session."""


class SessionInUse(StoreError):
    """Another holder has the session: `pid` on `host`, as far as it is known; `own` is a handle of this process."""

    def __init__(self, session: str, *, pid: int = 0, host: str = "", own: bool = False) -> None:
        if own:
            message = "in use by this process: wait for the run of the other handle, or close that handle"
        else:
            who = f"process {pid} on {host or 'this machine'}" if pid else "another process"
            message = f"in use by {who}: stop it or wait for its end"
        super().__init__(
            f"session {session!r} is {message}; or fork the session, or take it over (take=True), which stops the holder at "
            "its next write"
        )
        self.session = session
        self.pid = pid
        self.host = host
        self.own = own


class LeaseLost(StoreError):
    """Another process took the session over; this write was refused, and so will be all that follow under this lease.

    Stop what is running for the session. To go on, take a new lease and read what was written in the meantime.
    """


class StoreCorrupt(StoreError):
    """What is stored cannot be read."""
