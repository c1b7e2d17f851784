"""From what a tool returned to what a model is shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

from tenuto.core import files, jsonio, media_types
from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.messages import Content, ToolCallView, ToolResult
from tenuto.tools.execution import Outcome, failure

__all__ = ["MAX_ATTACHED", "NOTHING", "cut", "to_outcome", "to_text"]

MAX_ATTACHED = 20_000_000
"""How many bytes of pictures, sounds and documents one result may hold: what no provider takes is not worth keeping."""
NOTHING = "(no output)"
"""What is said where a tool said nothing: some providers refuse an empty message, and a model wonders what it means."""

_MESSAGE = 2000
_PARTS = (Text, Image, Audio, Document, Opaque)
_SHOWN: dict[str, type[Image | Audio | Document]] = {
    "image/png": Image,
    "image/jpeg": Image,
    "image/gif": Image,
    "image/webp": Image,
    "audio/wav": Audio,
    "audio/mpeg": Audio,
    "application/pdf": Document,
}
log = logging.getLogger("tenuto")


class _NotSerializable(Exception):
    """What was returned cannot be shown: the message says why."""


def to_outcome(call: ToolCallView, value: Any, most: int) -> Outcome:
    """Make the outcome of a call whose tool returned `value`; `most` characters of text are kept."""
    given = value if isinstance(value, ToolResult) else ToolResult(call.id, value)
    try:
        content = _content(given.content)
    except Exception as exc:  # a class of somebody's own may raise anything while it is written
        log.debug("tool %s: what it returned cannot be shown", call.name, exc_info=True)
        why = str(exc) if isinstance(exc, _NotSerializable) else to_text(exc)
        return failure(call, f"{call.name} ran, but what it returned cannot be shown: {why}.", "result")
    attached = _attached(content)
    if attached > MAX_ATTACHED:
        said = f"{call.name} ran, but it returned {attached:,} bytes, and at most {MAX_ATTACHED:,} can be shown"
        return failure(call, f"{said}. Ask for a smaller part.", "oversize")
    kept = _kept(content, most)
    result = msgspec.structs.replace(given, tool_use_id=call.id, content=kept)
    return Outcome(result, "failed" if given.is_error else "done", "" if kept == content else "oversize")


def to_text(error: BaseException) -> str:
    """Say what a tool raised, in one paragraph: the type and the message, no traceback."""
    return cut("; ".join(_named(leaf) for leaf in _leaves(error)), _MESSAGE)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a group holds; any other by itself."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def _named(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # a class of somebody's own may fail at this, too
        log.debug("%s has no message", name, exc_info=True)
        message = ""
    return f"{name}: {message}" if message else name


def cut(text: str, most: int) -> str:
    """Return a text whole, or without its middle and with a line there that says so."""
    if len(text) <= most:
        return text
    first, last = text[: most - most // 2], text[len(text) - most // 2 :]
    missing = f"[{len(text) - most:,} of {len(text):,} characters left out here: ask for a smaller part to see them]"
    return f"{first}\n{missing}\n{last}"


# --- what was returned ------------------------------------------------------------------------------------------------


def _content(value: Any) -> str | tuple[Content, ...]:
    if isinstance(value, bytes | bytearray | memoryview):
        value = _from_bytes(bytes(value))
    if isinstance(value, _PARTS):
        value = (value,)
    if _is_parts(value):
        return tuple(Text(part) if isinstance(part, str) else part for part in value if part != "")
    if isinstance(value, str):
        return value or NOTHING
    return NOTHING if value is None or (isinstance(value, tuple) and not value) else _json(value)


def _is_parts(value: Any) -> TypeGuard[list[str | Content] | tuple[str | Content, ...]]:
    """Tell whether this is a list of things to show: strings alone are a list of strings."""
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(part, _PARTS) for part in value) and all(isinstance(part, (str, *_PARTS)) for part in value)


def _from_bytes(data: bytes) -> str | Content:
    text = files.plain_text(data)
    if text is not None:
        return text
    mime = media_types.detect_type(data)
    kind = _SHOWN.get(mime)
    if kind is None:
        raise _NotSerializable(f"{len(data):,} bytes of {mime or 'no kind that is known'}, and no text")
    return kind.from_bytes(data)


def _json(value: Any) -> str:
    try:
        return jsonio.as_text(jsonio.encode(msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)))
    except (TypeError, ValueError, RecursionError) as exc:
        kind = type(value)
        raise _NotSerializable(f"a value of type {kind.__module__}.{kind.__qualname__} has no JSON ({exc})") from exc


def _plain(value: Any) -> Any:
    """Take a pydantic model apart, alone or inside something else."""
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__qualname__} is no JSON value")


# --- how much of it is kept -------------------------------------------------------------------------------------------


def _attached(content: str | tuple[Content, ...]) -> int:
    if isinstance(content, str):
        return 0
    return sum(len(getattr(part, "data", "") or "") * 3 // 4 for part in content if not isinstance(part, Text))


def _kept(content: str | tuple[Content, ...], most: int) -> str | tuple[Content, ...]:
    """Cut the texts that together run over."""
    if isinstance(content, str):
        return cut(content, most)
    left = most
    kept: list[Content] = []
    for part in content:
        if isinstance(part, Text):
            short = part if len(part.text) <= left else msgspec.structs.replace(part, text=cut(part.text, left))
            left -= min(left, len(part.text))
            kept.append(short)
        else:
            kept.append(part)
    return tuple(kept)
