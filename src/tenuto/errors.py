"""All errors of the package, in one tree.

    TenutoError
      LLMError
        AuthenticationFailed, BadRequest (ContextTooLong, CompactionRefused), NotFound, RateLimited, QuotaExceeded, Unavailable,
        ConnectionFailed, TimedOut, IncompleteResponse, ProtocolError
      UnsupportedModel, UnknownProvider, MissingKey, MissingTool, LossError, TranscriptError (UnsupportedContent),
      FetchRefused, NetworkForbidden, SchemaMismatch, LimitReached, ClosedError (also a RuntimeError), RunCancelled,
      ModelRetry
      StreamAssemblyError
        OrphanedToolDelta, OrphanedReasoningDelta, DuplicateToolStart, UnknownToolComplete, UnknownToolFinalize,
        InvalidArgsJson
      StoreError
        InvalidSessionId (also a ValueError), SessionNotFound, SessionInUse, LeaseLost, InboxNotEmpty,
        BudgetExceeded, StoreCorrupt

A tool that fails raises no error: the model receives an error result. Misuse (an unknown parameter, a value of the wrong
type or out of range) raises `TypeError` or `ValueError`.
"""

from __future__ import annotations

from typing import Literal

import tenuto  # annotations load `tenuto.ChatResponse` when they are evaluated: listing sessions does not need it


class TenutoError(Exception):
    """Base of all errors. They can be copied and pickled; only cause, context and traceback are lost."""

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from class, `args` and attributes, because constructors have other parameters than `args`."""
        state = dict(vars(self))
        if "__notes__" in state:
            state["__notes__"] = list(state["__notes__"])
        return _rebuild, (type(self), self.args), state


def _rebuild(kind: type[TenutoError], args: tuple[object, ...]) -> TenutoError:
    return kind.__new__(kind, *args)


class LLMError(TenutoError):
    """A provider refused a request, did not answer it, or answered with an error."""

    message: str
    provider: str
    """The name of the provider row."""
    model: str = ""
    """The model of the request."""
    url: str = ""
    """The URL that was requested, without its query; only for `NotFound`."""
    status: int | None
    """The HTTP status."""
    raw: str
    """The complete body of the response."""
    request_id: str | None = None
    """The provider's id of the request."""
    retry_after: float | None = None
    """The seconds to wait before a retry, if the provider said."""
    partial: tenuto.ChatResponse | None = None
    """The response up to the point where the stream broke, without incomplete tokens."""
    transcript: tenuto.Transcript | None = None
    """The conversation including `partial`; a new call can continue it."""
    retryable = False
    """Whether a retry of the same request may succeed."""

    def __init__(
        self, message: str, provider: str = "", status: int | None = None, retryable: bool | None = None, raw: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.status = status
        self.raw = raw
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        """Return provider and model, HTTP status and message: `openai/gpt-5.2: HTTP 503: overloaded`."""
        target = "/".join(filter(None, (self.provider, self.model)))
        status = f"HTTP {self.status}" if self.status and f"HTTP {self.status}" not in self.message else ""
        text = ": ".join(filter(None, (target, status, self.message)))
        return f"{text} (requested: {self.url})" if self.url else text


class AuthenticationFailed(LLMError):
    """401, 403: the key is missing, wrong, or lacks a permission."""


class BadRequest(LLMError):
    """400, 413, 422: the request is invalid; do not retry it unchanged."""


class ContextTooLong(BadRequest):
    """The conversation is too long for the model."""


class CompactionRefused(BadRequest):
    """The provider refuses to compact a conversation, or the summary that it made earlier."""


class NotFound(LLMError):
    """404: the model, file or URL does not exist."""


class RateLimited(LLMError):
    """429: too many requests or tokens in a period; `retry_after` has the seconds to wait."""

    retryable = True


class QuotaExceeded(LLMError):
    """The account has no money or quota left; waiting does not help."""


class Unavailable(LLMError):
    """5xx: the provider is overloaded or temporarily down; `retry_after` has the seconds to wait."""

    retryable = True


class ConnectionFailed(LLMError):
    """The connection could not be opened, or broke."""

    retryable = True
    refused_locally: bool = False
    """Whether no program on this machine accepts connections at the port."""


class TimedOut(LLMError):
    """No data arrived in time."""

    retryable = True


class IncompleteResponse(LLMError):
    """The response ended before its last event; `partial` has its blocks so far."""

    retryable = True


class ProtocolError(LLMError):
    """The provider's bytes are not valid in its dialect."""

    frame: bytes
    """The complete frame that could not be read, for a bug report."""

    def __init__(self, message: str, *, provider: str = "", frame: bytes = b"") -> None:
        super().__init__(message, provider=provider, raw=frame.decode("utf-8", "replace"))
        self.frame = frame


class UnsupportedModel(TenutoError):
    """The model lacks a feature; `reason` names it, and `remedy` says how to use it anyway, if that is possible."""

    def __init__(self, model: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"unsupported model {model!r}: {reason}{f'; {remedy}' if remedy else ''}")
        self.model = model
        self.reason = reason
        self.remedy = remedy


class UnknownProvider(TenutoError):
    """The provider is unknown, or a model name has no provider."""

    suggestions: tuple[str, ...]
    """Similar provider names, or `provider/model` names if `bare`."""
    bare: bool
    """Whether `name` is a model name without a provider."""

    def __init__(self, name: str, suggestions: tuple[str, ...] = (), *, bare: bool = False) -> None:
        if bare and suggestions:
            message = f"no provider in {name!r}: use {' or '.join(suggestions)}"
        elif bare:
            message = f"{name!r} is not a model name: use provider/model"
        else:
            hint = f"; did you mean {' or '.join(map(repr, suggestions))}?" if suggestions else ""
            message = f"unknown provider {name!r}{hint}"
        super().__init__(message)
        self.name = name
        self.suggestions = suggestions
        self.bare = bare


class MissingKey(TenutoError):
    """A provider has no API key; `variables` are the environment variables for it."""

    def __init__(self, provider: str, variables: tuple[str, ...] = (), *, reason: str = "") -> None:
        hint = f": set {' or '.join(variables)}, or pass keys={{{provider!r}: ...}}" if variables else ""
        super().__init__(f"no API key for {provider!r}{f': {reason}' if reason else hint}")
        self.provider = provider
        self.variables = variables


class MissingTool(TenutoError):
    """An open call needs a tool that is not available."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no tool named {name!r}")
        self.name = name


class LossError(TenutoError):
    """A request would lose content, and the client has `on_loss="raise"`; `losses` lists the content."""

    def __init__(self, model: str, losses: tuple[tenuto.Loss, ...]) -> None:
        details = "; ".join(f"{loss.location}: {loss.detail}" for loss in losses)
        super().__init__(f"{model} cannot take all of the request: {details}")
        self.model = model
        self.losses = losses


class TranscriptError(TenutoError):
    """The transcript is invalid; the message names the index."""


class UnsupportedContent(TranscriptError):
    """The newest message has content that the model does not take; no request was sent."""

    content: str
    """The kind of content: `image`, `audio` or `document`."""

    def __init__(self, model: str, content: str) -> None:
        super().__init__(f"{model} does not take {content} in a user message: choose a model that does, or send text")
        self.model = model
        self.content = content


class FetchRefused(TenutoError):
    """A URL is not fetched, or has other content than expected; the message has the URL and the reason."""


class NetworkForbidden(TenutoError):
    """A request was not sent, because a test or `TENUTO_OFFLINE` forbids the network; `url` has no query or password."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"network access is forbidden: {url} was not requested; in a test, the fixture tenuto_sim or "
            "tenuto.testing.override(simulator) answers every model name; sim/... models need no network; unset TENUTO_OFFLINE, "
            "or use override(simulator, network=True), to allow it"
        )
        self.url = url


class SchemaMismatch(TenutoError):
    """The answer does not match the schema; `text` is the answer, `response` the whole response."""

    def __init__(self, message: str, *, text: str = "", response: tenuto.ChatResponse | None = None) -> None:
        super().__init__(message)
        self.text = text
        self.response = response


class ModelRetry(TenutoError):
    """Raise it in a tool or in an output validator: the model reads the message and tries again."""

    detail: Literal["retry", "output"] = "retry"
    """The detail of the failed call in the journal."""


class LimitReached(TenutoError):
    """A run reached a limit; `limit` names it."""

    def __init__(self, limit: str, message: str = "") -> None:
        super().__init__(message or f"limit reached: {limit}")
        self.limit = limit


class ClosedError(TenutoError, RuntimeError):
    """A closed client, agent or stream was used."""


class RunCancelled(TenutoError):
    """The run was cancelled. The session is saved up to that point and can continue from there."""


class StreamAssemblyError(TenutoError):
    """Stream events arrived in an invalid order. The caller decides whether to skip or to stop."""

    def __init__(self, message: str, *, id: str = "") -> None:
        super().__init__(message)
        self.id = id


class OrphanedToolDelta(StreamAssemblyError):
    """Arguments for a call that did not start."""

    def __init__(self, id: str) -> None:
        super().__init__(f"delta for unknown tool call: {id}", id=id)


class OrphanedReasoningDelta(StreamAssemblyError):
    """Reasoning for a block that did not start."""

    def __init__(self) -> None:
        super().__init__("delta for unknown reasoning block")


class DuplicateToolStart(StreamAssemblyError):
    """A call started twice."""

    def __init__(self, id: str) -> None:
        super().__init__(f"duplicate tool call start: {id}", id=id)


class UnknownToolComplete(StreamAssemblyError):
    """A call that did not start was completed; raised in strict mode only."""

    def __init__(self, id: str) -> None:
        super().__init__(f"complete event for unknown tool: {id}", id=id)


class UnknownToolFinalize(StreamAssemblyError):
    """The arguments of a call that did not start were requested."""

    def __init__(self, id: str) -> None:
        super().__init__(f"finalize args for unknown tool: {id}", id=id)


class InvalidArgsJson(StreamAssemblyError):
    """The collected arguments are not JSON."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"invalid args JSON for tool {id}: {reason}", id=id)
        self.reason = reason
        self.source = reason  # a second name, from the specification


class StoreError(TenutoError):
    """A session could not be read or written."""


class InvalidSessionId(StoreError, ValueError):
    """The text is not a session id."""


class SessionNotFound(StoreError):
    """The store has no such session."""


class SessionInUse(StoreError):
    """Another process or handle has the lease of the session."""

    pid: int
    """The process that holds the lease; 0: unknown."""
    host: str
    """The host of that process; empty: unknown."""
    own: bool
    """Whether another handle of this process holds the lease."""

    def __init__(self, session: str, *, pid: int = 0, host: str = "", own: bool = False) -> None:
        if own:
            message = "in use by this process: wait for the run of the other handle, or close that handle"
        else:
            holder = f"process {pid} on {host or 'this machine'}" if pid else "another process"
            message = f"in use by {holder}: stop it or wait for its end"
        super().__init__(
            f"session {session!r} is {message}; or fork the session, or take it over (takeover=True), which stops the holder at "
            "its next write"
        )
        self.session = session
        self.pid = pid
        self.host = host
        self.own = own


class LeaseLost(StoreError):
    """Another process took over the session; this write and all later ones under this lease are refused.

    Stop the work on the session. To continue, acquire a new lease and read the new entries.
    """


class InboxNotEmpty(StoreError):
    """The inbox of the session has items that the append does not take; nothing was written. Read the inbox and retry."""


class BudgetExceeded(StoreError):
    """The sessions that share a budget would spend more than its limit; nothing was written."""

    limit_name: str
    """`tokens` or `usd`."""
    total: str
    """The sum over the sessions, including this append, as a decimal number."""
    limit: str
    """The limit as a decimal number."""
    spent: str
    """The part of the total that is spent, not reserved."""

    def __init__(self, root: str, limit_name: str, total: str, limit: str, spent: str) -> None:
        super().__init__(
            f"the budget of session {root!r} is used up: {total} of {limit} {limit_name} are spent or reserved; "
            "raise the limit, or wait until other sessions of the family release their reservations"
        )
        self.root = root
        self.limit_name = limit_name
        self.total = total
        self.limit = limit
        self.spent = spent


class StoreCorrupt(StoreError):
    """The stored data cannot be read."""
