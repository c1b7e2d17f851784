"""The outcome of a call, and the result for the model that is made from the value that a tool returned."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core import files, jsonio, media_types
from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.messages import Content, ToolCallView, ToolResult

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

`unknown-tool`, `arguments`: the tool was not started. `retry`: it raised `ModelRetry`. `output`: its arguments are an output
of the agent that was rejected. `exception`: it raised. `timeout`: it took too long. `oversize`: its
result is longer than the limit; text is cut. `result`: its result cannot be sent to a model. `cancelled`: it raised
`CancelledError`. `hook`: a hook around it raised.
"""

MAX_ATTACHED = 20_000_000
"""Limit for the bytes of media in one result: providers do not accept more."""
NO_OUTPUT = "(no output)"
"""Replaces an empty result: some providers refuse an empty message."""

_MAX_ERROR = 2000
_PARTS = (Text, Image, Audio, Document, Opaque)
_MEDIA: dict[str, type[Image | Audio | Document]] = {
    **dict.fromkeys(("image/png", "image/jpeg", "image/gif", "image/webp"), Image),
    **dict.fromkeys(("audio/wav", "audio/mpeg"), Audio),
    "application/pdf": Document,
}
log = logging.getLogger("tenuto")


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
    """Describe an exception, or those of a group, in one paragraph: types and messages, without traceback."""
    texts: list[str] = []
    errors = [error]
    for one in errors:
        if isinstance(one, BaseExceptionGroup):
            errors += one.exceptions
            continue
        name = type(one).__name__
        try:
            texts.append(f"{name}: {one}".removesuffix(": "))
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
