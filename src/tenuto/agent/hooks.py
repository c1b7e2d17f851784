"""Hooks: functions of the application around runs, requests and tool calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tenuto.client.reply import Reply
from tenuto.core.messages import ToolCallView
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest
from tenuto.errors import TenutoError
from tenuto.tools.execution import Deps, Outcome

T = TypeVar("T")


class RunInfo(msgspec.Struct, Generic[Deps], frozen=True, kw_only=True):
    """One run of a session; functions for instructions and output validators may take it as their last argument."""

    session_id: str
    agent: str
    """The name of the agent."""
    model: str
    resumed: bool
    """Whether the run continues work that an earlier run left."""
    parent: str = ""
    """The id of the session that called this one as a sub-agent."""
    deps: Deps = None  # type: ignore[assignment]  # None without dependencies
    """The dependencies of the run."""


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model."""

    session_id: str
    request: ChatRequest
    target: Target
    attempt: int
    """The number of the attempt since the last reply, from 1."""


class CallInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call."""

    session_id: str
    call: ToolCallView
    ordinal: int
    """The index of the call in its reply."""
    attempt: int
    key: str
    """The idempotency key: the same for each attempt of this call."""
    fence: int
    effect: str
    needs_approval: bool


class Hooks:
    """Override the methods that you need and pass an object to `Agent(hooks=[...])`.

    The first hook is the outermost one. The `around_` methods run in the task that does the work, so context variables
    that they set reach tools, also tools in threads. Each calls `next()` once; only `around_tool` may return without it.
    They may replace an exception of `next()` with another one, but not hide it.
    """

    async def around_run(self, run: RunInfo, next: Callable[[], Awaitable[None]]) -> None:
        """Wrap a run. An exception is raised to the caller; if the run has not ended yet, it ends as `failed`."""
        await next()

    async def around_request(self, request: RequestInfo, next: Callable[[], Awaitable[Reply]]) -> Reply:
        """Wrap one request to a model.

        `next()` sends it, records the reply or the error in the journal, and returns or raises it. An exception that is
        raised before `next()` prevents the request. The returned value is not used.
        """
        return await next()

    async def around_tool(self, call: CallInfo, next: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Wrap one tool call, after `CallStarted` is committed.

        The returned outcome is recorded and sent to the model. An exception is recorded as a failed outcome.
        """
        return await next()

    def permit(self, call: CallInfo) -> bool | str | Awaitable[bool | str | None] | None:
        """Decide about a tool call before it starts.

        None: no opinion. True: run it without approval. False or a text: deny it; the model reads the text. If hooks
        disagree, a denial wins.
        """
        return None


async def run_around(hooks: Sequence[Hooks], name: str, info: object, action: Callable[[], Awaitable[T]]) -> T:
    """Run `action` inside the methods `name` of the hooks, the first one outermost."""

    def wrap(hook: Hooks, inner: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        called = False
        error: BaseException | None = None

        async def next() -> T:
            nonlocal called, error
            if called:
                raise TenutoError(f"{type(hook).__name__}.{name} called next() twice")
            called = True
            try:
                return await inner()
            except BaseException as exc:
                error = exc
                raise

        async def around() -> T:
            result: T = await getattr(hook, name)(info, next)
            if not called and name != "around_tool":
                raise TenutoError(f"{type(hook).__name__}.{name} did not call next()")
            if error is not None and name != "around_tool":  # the hook hides it
                raise error
            return result

        return around

    for hook in reversed(hooks):
        if getattr(type(hook), name) is not getattr(Hooks, name):
            action = wrap(hook, action)
    return await action()


async def permission(hooks: Sequence[Hooks], call: CallInfo) -> bool | str | None:
    """Return the decision of the hooks about a call: a denial before a permission before None."""
    allowed: bool | None = None
    for hook in hooks:
        decision: Any = hook.permit(call)
        if isinstance(decision, Awaitable):
            decision = await decision
        if decision is not None and not isinstance(decision, bool | str):
            name = type(hook).__name__
            raise TypeError(f"{name}.permit returned {decision!r:.100}: expected True, False, a text or None")
        if decision is False or isinstance(decision, str):
            return decision
        allowed = allowed or decision
    return allowed


def check_hooks(hooks: Iterable[Hooks]) -> tuple[Hooks, ...]:
    """Return the hooks. Raise `TypeError` for a value that is not a `Hooks` object."""
    checked = tuple(hooks)
    for hook in checked:
        if not isinstance(hook, Hooks):
            raise TypeError(f"hooks: expected objects of a subclass of Hooks, got {hook!r:.100}")
    return checked
