"""Run a function that may block, be awaited, or take too long, and make the outcome for the model from its value.

A function that is not `async` gets its own daemon thread: the threads of a pool are awaited at exit, and a few tools that
block would delay all others. A thread cannot be stopped. After its timeout, its result is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

import msgspec

from tenuto.core import files, jsonio, media_types
from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.messages import Content, ToolCallView, ToolResult

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

GRACE = 1.0  # seconds that an `async` tool has for cleaning up when it is cancelled

log = logging.getLogger("tenuto")
_stopping: set[asyncio.Task[Any]] = set()  # asyncio has only weak references to tasks


class ToolContext(Generic[Deps]):
    """The call that a tool runs for. A parameter annotated with `ToolContext` or `ToolContext[Deps]` receives it.

    `key`: the same for every attempt of this call, different for every other call. A tool with the effect `keyed` passes
    it to the system that does the work, which does the work for each key once. The default is the id of the call.
    `attempt`: counts from 1.
    `session`: the id of the session, or empty.
    `fence`: grows with each holder of the session. A system that refuses smaller numbers than it has seen is safe from a
    process that has lost the session without noticing.
    `root`: the directory that the tool works in; empty if it needs none. The toolbox sets it.
    `deps`: the dependencies of the run, as the caller of the agent passed them: a database, a client, the user.
    """

    def __init__(
        self,
        call: ToolCallView,
        *,
        key: str = "",
        attempt: int = 1,
        session: str = "",
        fence: int = 0,
        progress: Callable[[str], None] | None = None,
        deps: Deps | None = None,
    ) -> None:
        self.call = call
        self.key = key or call.id
        self.attempt = attempt
        self.session = session
        self.fence = fence
        self.root = ""
        self.deps: Deps = deps  # type: ignore[assignment]  # None if the run has no dependencies
        self._listener = progress
        self._cancelled = False
        self._in_thread = False

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer awaited. A tool in a thread should check it and stop."""
        return self._cancelled

    def progress(self, text: str) -> None:
        """Report progress, from any thread. The listener is called at once in that thread.

        After the end of the call, progress is ignored. Exceptions in the listener are logged and ignored.
        """
        listener = self._listener
        try:
            if listener is not None:
                listener(text)
        except Exception:
            log.debug("the progress listener of %s raised", self.call.name, exc_info=True)

    def __repr__(self) -> str:
        return f"ToolContext(call={self.call.id!r}, key={self.key!r}, attempt={self.attempt})"


async def stop_task(task: asyncio.Task[Any], context: ToolContext[Any]) -> None:
    """Cancel the task of a tool, tell a tool in a thread, and wait `GRACE` seconds."""
    context._cancelled = True
    context._listener = None
    task.cancel()
    _stopping.add(task)
    task.add_done_callback(_log_late_error)
    await asyncio.wait({task}, timeout=GRACE)


def _log_late_error(task: asyncio.Task[Any]) -> None:
    _stopping.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("a tool raised after its timeout or cancellation", exc_info=error)


async def call_function(function: Callable[[], Any], context: ToolContext[Any]) -> Any:
    """Call a function of any kind. Text that a generator yields is progress; its result is its return or last value."""
    try:
        value = function() if is_async(function) else await _call_in_thread(function, context)
        if isinstance(value, Awaitable):
            value = await value
        if not isinstance(value, AsyncGenerator):
            return value
        last = None
        async with contextlib.aclosing(value):
            async for last in value:
                if isinstance(last, str):
                    context.progress(last)
        return last
    except SystemExit as exc:  # asyncio would end the whole process
        raise RuntimeError(f"the tool called sys.exit({exc.code!r})") from exc


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call of the function only creates a coroutine or an async generator."""
    while isinstance(function, functools.partial):
        function = function.func
    return any(
        test(each)
        for each in (function, type(function).__call__)
        for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )


def _call(function: Callable[[], Any], context: ToolContext[Any]) -> Any:
    """Call a function; iterate over a generator until it ends or the call is cancelled."""
    value = function()
    if not isinstance(value, Generator):
        return value
    last = None
    with contextlib.closing(value):
        while not context.cancelled:
            try:
                last = next(value)
            except StopIteration as end:
                return last if end.value is None else end.value
            if isinstance(last, str):
                context.progress(last)
    return last


async def _call_in_thread(function: Callable[[], Any], context: ToolContext[Any]) -> Any:
    """Call a function in a new thread with the context variables of this task."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def deliver(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = _call(function, context)
        except BaseException as exc:
            if context.cancelled:
                log.debug("a tool raised after its timeout or cancellation", exc_info=True)
            error = exc
        context._in_thread = False
        with contextlib.suppress(RuntimeError):  # the loop is closed: the result is no longer awaited
            loop.call_soon_threadsafe(deliver, value, error)

    context._in_thread = True
    name = f"tenuto-tool-{context.call.name}"
    threading.Thread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True).start()
    value, error = await future
    if error is not None:
        raise error
    return value


Detail: TypeAlias = Literal[
    "",
    "unknown-tool",
    "arguments",
    "retry",
    "output",
    "exception",
    "timeout",
    "oversize",
    "result",
    "cancelled",
    "hook",
]
"""The problem of a call; empty if it has none.

`unknown-tool`, `arguments`: the tool was not started. `retry`: it raised `ModelRetry`. `output`: its arguments are an output of
the agent that was rejected. `exception`: it raised. `timeout`: it took too long. `oversize`: its result is longer than the limit;
text is cut. `result`: its result cannot be sent to a model. `cancelled`: it raised `CancelledError`. `hook`: a hook around it
raised.
"""

MAX_ATTACHED = 20_000_000  # limit for the bytes of media in one result: providers do not accept more
NO_OUTPUT = "(no output)"  # replaces an empty result: some providers refuse an empty message

_MAX_ERROR = 2000
_PARTS = (Text, Image, Audio, Document, Opaque)
_MEDIA: dict[str, type[Image | Audio | Document]] = {
    **dict.fromkeys(("image/png", "image/jpeg", "image/gif", "image/webp"), Image),
    **dict.fromkeys(("audio/wav", "audio/mpeg"), Audio),
    "application/pdf": Document,
}


class Outcome(msgspec.Struct, frozen=True):
    """The end of a call, and its result.

    `done`: it ran. `failed`: it ran without success or was not started; `detail` gives the reason. `cancelled`: it was
    cancelled while it ran. `unknown`: it may still be running, and may or may not take effect.
    """

    result: ToolResult
    outcome: Literal["done", "failed", "cancelled", "unknown"] = "done"
    detail: Detail = ""


def failure(call: ToolCallView, text: str, detail: Detail) -> Outcome:
    return Outcome(call.answer(text, is_error=True), "failed", detail)


class _NotSerializable(Exception):
    """The value cannot be sent to a model; the message gives the reason."""


def to_outcome(call: ToolCallView, value: Any, max_output: int) -> Outcome:
    """Return the outcome of a call whose tool returned `value`; longer text is cut to `max_output` characters."""
    returned = value if isinstance(value, ToolResult) else ToolResult(call.id, value)
    try:
        content = _to_content(returned.content)
    except Exception as exc:  # custom classes may raise anything during serialization
        log.debug("tool %s: cannot serialize its result", call.name, exc_info=True)
        reason = str(exc) if isinstance(exc, _NotSerializable) else to_text(exc)
        return failure(call, f"{call.name} ran, but its result cannot be shown: {reason}.", "result")
    shortened: str | tuple[Content, ...]
    if isinstance(content, str):
        shortened = cut(content, max_output)
    else:
        attached = sum(len(getattr(part, "data", "") or "") * 3 // 4 for part in content if not isinstance(part, Text))
        if attached > MAX_ATTACHED:
            text = f"{call.name} ran, but its result has {attached:,} bytes; the limit is {MAX_ATTACHED:,}"
            return failure(call, f"{text}. Request a smaller part.", "oversize")
        shortened = tuple(_shorten(content, max_output))
    result = msgspec.structs.replace(returned, tool_use_id=call.id, content=shortened)
    return Outcome(result, "failed" if returned.is_error else "done", "" if shortened == content else "oversize")


def to_text(error: BaseException) -> str:
    """Describe an exception, or those of a group, in one paragraph: types and messages, without traceback.

    The type is left out where it adds nothing to the message: `ValueError`, and errors of the operating system.
    """
    texts: list[str] = []
    errors = [error]
    for one in errors:
        if isinstance(one, BaseExceptionGroup):
            errors += one.exceptions
            continue
        name = type(one).__name__
        is_plain = isinstance(one, ValueError | OSError) and type(one).__module__ == "builtins"
        try:
            if isinstance(one, OSError) and one.strerror:
                texts.append(f"{one.strerror}: {one.filename}" if one.filename else one.strerror)
            else:
                texts.append(str(one) if is_plain and str(one) else f"{name}: {one}".removesuffix(": "))
        except Exception:  # custom classes may raise anything
            log.debug("%s has no message", name, exc_info=True)
            texts.append(name)
    return cut("; ".join(texts), _MAX_ERROR)


def cut(text: str, limit: int) -> str:
    """Return a text unchanged, or without its middle and with a note in its place."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit - limit // 2], text[len(text) - limit // 2 :]
    note = f"[{len(text) - limit:,} of {len(text):,} characters omitted: request a smaller part to see them]"
    return f"{head}\n{note}\n{tail}"


def _to_content(value: Any) -> str | tuple[Content, ...]:
    if isinstance(value, bytes | bytearray | memoryview):
        value = _from_bytes(bytes(value))
    if isinstance(value, str):
        return value or NO_OUTPUT
    if isinstance(value, _PARTS):
        value = (value,)
    if isinstance(value, list | tuple) and any(isinstance(part, _PARTS) for part in value):
        is_content = all(isinstance(part, (str, *_PARTS)) for part in value)
        parts = tuple(Text(part) if isinstance(part, str) else part for part in value if part != "")
        return parts if is_content else to_json(value)
    return NO_OUTPUT if value is None or (isinstance(value, tuple) and not value) else to_json(value)


def _from_bytes(data: bytes) -> str | Content:
    text = files.plain_text(data)
    if text is not None:
        return text
    mime = media_types.detect_type(data)
    kind = _MEDIA.get(mime)
    if kind is None:
        raise _NotSerializable(f"{len(data):,} bytes of {mime or 'an unknown type'}, which are not text")
    return kind.from_bytes(data)


def to_json(value: Any) -> str:
    """Return a value of any type that msgspec or pydantic can write."""
    try:
        return jsonio.as_text(jsonio.encode(msgspec.to_builtins(value, str_keys=True, enc_hook=_dump_model)))
    except (TypeError, ValueError, RecursionError) as exc:
        kind = type(value)
        raise _NotSerializable(
            f"a value of type {kind.__module__}.{kind.__qualname__} cannot be written as JSON ({exc})"
        ) from exc


def _dump_model(value: Any) -> Any:
    """Convert a pydantic model, also inside other values."""
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__qualname__} is not a JSON value")


def _shorten(content: tuple[Content, ...], limit: int) -> Iterator[Content]:
    """Cut the texts that are together longer than `limit`."""
    for part in content:
        if isinstance(part, Text):
            yield part if len(part.text) <= limit else msgspec.structs.replace(part, text=cut(part.text, limit))
            limit -= min(limit, len(part.text))
        else:
            yield part
