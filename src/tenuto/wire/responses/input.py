"""What is said to the model, as input items: instructions, questions, and what tools gave.

A result is written as the kind of output that its call asks for. A function's output has no flag for failure: the words
of a failed call begin with "Error:". Where an output has a place for failure (a patch's status, a shell's exit code, an
approval), `is_error` goes there.
"""

from __future__ import annotations

import base64
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.messages import Content, SystemMessage, ToolResult, UserMessage
from tenuto.wire.body_builder import BodyBuilder, error_text, extra_fields, raw_object
from tenuto.wire.responses.items import DIALECT

__all__ = ["output_item", "system_item", "user_item"]

_EXTENSIONS = {
    "application/pdf": "pdf",
    "text/plain": "txt",
    "text/markdown": "md",
    "text/html": "html",
    "text/csv": "csv",
    "application/json": "json",
}


def system_item(draft: BodyBuilder, message: SystemMessage, place: str) -> dict[str, Any]:
    """Write instructions where they stand in the conversation."""
    return {"type": "message", "role": "system", "content": _content(draft, message.content, place)}


def user_item(draft: BodyBuilder, message: UserMessage, place: str) -> dict[str, Any]:
    """Write what the user says and shows."""
    if message.name:
        draft.record_loss("unsupported-field", f"{place}.name", message.name, "say it in the text")
    return {"type": "message", "role": "user", "content": _content(draft, message.content, place)}


def _content(draft: BodyBuilder, content: str | tuple[Content, ...], place: str) -> str | list[Any]:
    if isinstance(content, str):
        return content
    written = (_part(draft, part, f"{place}.content[{at}]") for at, part in enumerate(content))
    return [part for part in written if part is not None] or ""


def _part(draft: BodyBuilder, part: Content, place: str) -> Any:
    if isinstance(part, Opaque):
        written = raw_object(part.raw) if part.dialect == DIALECT else None
        if written is None:
            draft.record_loss("unreadable-block", place, "a part of another dialect or a later version")
        return written
    if isinstance(part, Audio):
        draft.record_loss("unsupported-content", place, f"audio {part.mime}".rstrip(), "send a transcript")
        return None
    if part.cache:
        draft.record_loss("implicit-cache", place, part.cache, "this dialect caches by itself")
    extra = extra_fields(part.extra) if part.meta is None else {}  # a reply's extra fields are no input's
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text, **extra}
    if isinstance(part, Image):
        return {**_image(part), **extra}
    return {**_file(draft, part, place), **extra}


def _image(part: Image) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": "input_image", "detail": part.detail or "auto"}
    if part.file_id:
        return {**fields, "file_id": part.file_id}
    return {**fields, "image_url": part.url or f"data:{part.mime or 'image/png'};base64,{part.data}"}


def _file(draft: BodyBuilder, part: Document, place: str) -> dict[str, Any]:
    for name in ("context", "citations"):
        if getattr(part, name):
            draft.record_loss("unsupported-field", f"{place}.{name}", repr(getattr(part, name))[:200])
    fields: dict[str, Any] = {"type": "input_file"}
    if part.title and (part.file_id or part.url):
        draft.record_loss("unsupported-field", f"{place}.title", part.title[:200], "give its bytes instead")
    if part.file_id:
        return {**fields, "file_id": part.file_id}
    if part.url:
        return {**fields, "file_url": part.url}
    mime = part.mime or ("application/pdf" if part.data else "text/plain")
    data = part.data or base64.b64encode(part.text.encode("utf-8", "replace")).decode("ascii")
    name = part.title or f"document.{_EXTENSIONS.get(mime, 'bin')}"
    return {**fields, "filename": name, "file_data": f"data:{mime};base64,{data}"}


# --- what tools gave --------------------------------------------------------------------------------------------------


def output_item(draft: BodyBuilder, result: ToolResult, kind: str, place: str) -> dict[str, Any]:
    """Write a result for a call of this kind; its own extra fields win."""
    id = result.tool_use_id
    write = {
        "custom_tool_call": _custom,
        "local_shell_call": _local_shell,
        "shell_call": _shell,
        "apply_patch_call": _patch,
        "computer_call": _screenshot,
        "mcp_approval_request": _approval,
        "tool_search_call": _found_tools,
    }.get(kind, _function)
    item = write(draft, result, place) | extra_fields(result.extra)
    if kind == "mcp_approval_request":
        return {**item, "approval_request_id": id}
    return {**item, "call_id": id, **({"id": id} if kind == "local_shell_call" else {})}


def _words(content: str | tuple[Content, ...]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, Text))


def _text_only(draft: BodyBuilder, result: ToolResult, place: str) -> str:
    for at, part in enumerate(result.content):
        if not isinstance(part, str | Text):
            kind = type(part).__name__.lower()
            draft.record_loss("unsupported-content", f"{place}.content[{at}]", f"{kind} in a tool's output of text")
    return _words(result.content)


def _told(result: ToolResult) -> str | tuple[Content, ...]:
    """Return what a tool gave, with a word for its failure in front."""
    if not result.is_error:
        return result.content
    if isinstance(result.content, str):
        return error_text(result.content)
    return (Text("Error:"), *result.content)


def _function(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    return {"type": "function_call_output", "output": _content(draft, _told(result), place)}


def _custom(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    return {"type": "custom_tool_call_output", "output": _content(draft, _told(result), place)}


def _local_shell(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    return {"type": "local_shell_call_output", "output": _text_only(draft, result, place)}


def _shell(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    text = _text_only(draft, result, place)
    outcome = {"type": "exit", "exit_code": int(result.is_error)}
    said: list[Any] = _list(text) or [{"stdout": text, "stderr": "", "outcome": outcome}]
    return {"type": "shell_call_output", "output": said}


def _patch(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    status = "failed" if result.is_error else "completed"
    return {"type": "apply_patch_call_output", "status": status, "output": _text_only(draft, result, place)}


def _screenshot(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    shown = [part for part in result.content if isinstance(part, Image)]
    output: dict[str, Any] = {"type": "computer_screenshot"}
    if shown:
        output |= {name: value for name, value in _image(shown[0]).items() if name in ("image_url", "file_id")}
    if len(shown) != len(result.content):
        draft.record_loss("unsupported-content", place, "a computer answers with one picture", "send a screenshot")
    return {"type": "computer_call_output", "output": output}


def _approval(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    text = _text_only(draft, result, place)
    fields: dict[str, Any] = {"type": "mcp_approval_response", "approve": not result.is_error}
    return fields | ({"reason": text} if text else {})


def _found_tools(draft: BodyBuilder, result: ToolResult, place: str) -> dict[str, Any]:
    text = _text_only(draft, result, place)
    tools = _list(text)
    if tools is None:
        draft.record_loss(
            "unsupported-content", place, "a tool search answers with a list of tools", "answer with a JSON array"
        )
    return {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": tools or []}


def _list(text: str) -> list[Raw] | None:
    stripped = text.strip()
    if not stripped.startswith("[") or jsonio.problem(stripped):
        return None
    return jsonio.elements(stripped)
