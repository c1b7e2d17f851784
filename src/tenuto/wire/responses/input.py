"""Write system messages, user messages and tool results as input items.

A tool result becomes the type of output that belongs to its call. The output of a function has no error flag: the text
of a failed call begins with "Error:". Outputs that can express a failure (the status of a patch, the exit code of a
shell, an approval) receive `is_error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.loss import Location
from tenuto.core.media_types import data_url, extension_for, to_base64
from tenuto.core.messages import Content, SystemMessage, ToolResult, UserMessage
from tenuto.wire.body_builder import BodyBuilder, error_text, extra_fields, raw_object
from tenuto.wire.responses.items import DIALECT


def write_message(builder: BodyBuilder, message: SystemMessage | UserMessage, place: Location) -> dict[str, Any]:
    """Write a system or user message; system messages keep their position."""
    if isinstance(message, UserMessage) and message.name:
        builder.record_loss("unsupported-field", place.field("name"), message.name, "put the name into the text")
    role = "system" if isinstance(message, SystemMessage) else "user"
    item = {"type": "message", "role": role, "content": _write_content(builder, message.content, place)}
    if isinstance(message.content, str):
        builder.place_texts(place, message.parts, item, "content")
    return item


def _write_content(builder: BodyBuilder, content: str | tuple[Content, ...], place: Location) -> str | list[Any]:
    if isinstance(content, str):
        return content
    parts = builder.accepted_parts(content, place)
    return builder.write_all(parts, lambda part, part_place: _write_part(builder, part, part_place)) or ""


def _write_part(builder: BodyBuilder, part: Content, place: Location) -> Any:
    if isinstance(part, Opaque):
        raw = raw_object(part.raw) if part.dialect == DIALECT else None
        if raw is None:
            builder.record_loss("unreadable-block", place, "a part of another dialect or a later version")
        return raw
    if isinstance(part, Audio):
        builder.record_loss("unsupported-content", place, f"audio {part.mime}".rstrip(), "send a transcript")
        return None
    if part.cache:
        builder.record_loss("implicit-cache", place, part.cache, "this dialect caches by itself")
    extra = extra_fields(part.extra) if part.meta is None else {}  # the extra fields of a reply are not input fields
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text, **extra}
    if isinstance(part, Image):
        return {"type": "input_image", "detail": part.detail or "auto", **_image_source(part), **extra}
    return {**_write_file(builder, part, place), **extra}


def _image_source(image: Image) -> dict[str, str]:
    if image.file_id:
        return {"file_id": image.file_id}
    return {"image_url": image.url or data_url(image.mime or "image/png", image.data)}


def _write_file(builder: BodyBuilder, file: Document, place: Location) -> dict[str, Any]:
    for name in ("context", "citations"):
        if getattr(file, name):
            builder.record_loss("unsupported-field", place.field(name), repr(getattr(file, name))[:200])
    if file.title and (file.file_id or file.url):
        builder.record_loss(
            "unsupported-field", place.field("title"), file.title[:200], "send the file's bytes instead"
        )
    if file.file_id:
        return {"type": "input_file", "file_id": file.file_id}
    if file.url:
        return {"type": "input_file", "file_url": file.url}
    mime = file.mime or ("application/pdf" if file.data else "text/plain")
    data = file.data or to_base64(file.text.encode("utf-8", "replace"))
    name = file.title or f"document.{extension_for(mime) or 'bin'}"
    return {"type": "input_file", "filename": name, "file_data": data_url(mime, data)}


def write_result(
    builder: BodyBuilder, result: ToolResult, call_types: Mapping[str, str], place: Location
) -> dict[str, Any]:
    """Write a result as the output of its call's item type; an unknown call is a function."""
    call_type = call_types.get(result.tool_use_id, "")
    item: dict[str, Any]
    if call_type == "computer_call":
        item = {"type": "computer_call_output", "output": _write_screenshot(builder, result, place)}
    elif call_type == "local_shell_call":
        item = {"type": "local_shell_call_output", "output": _text_only(builder, result, place)}
    elif call_type == "shell_call":
        text = _text_only(builder, result, place)
        outcome = {"type": "exit", "exit_code": int(result.is_error)}
        output: list[Any] = _parse_list(text) or [{"stdout": text, "stderr": "", "outcome": outcome}]
        item = {"type": "shell_call_output", "output": output}
    elif call_type == "apply_patch_call":
        status = "failed" if result.is_error else "completed"
        item = {"type": "apply_patch_call_output", "status": status, "output": _text_only(builder, result, place)}
    elif call_type == "tool_search_call":
        tools = _parse_list(_text_only(builder, result, place))
        if tools is None:
            detail = "the result of a tool search must be a list of tools"
            builder.record_loss("unsupported-content", place, detail, "return a JSON array")
        item = {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": tools or []}
    elif call_type == "mcp_approval_request":
        item = {"type": "mcp_approval_response", "approve": not result.is_error}
        if reason := _text_only(builder, result, place):
            item["reason"] = reason
        return {**item, **extra_fields(result.extra), "approval_request_id": result.tool_use_id}
    else:
        content = result.content
        if result.is_error:
            content = error_text(content) if isinstance(content, str) else (Text("Error:"), *content)
        type = "custom_tool_call_output" if call_type == "custom_tool_call" else "function_call_output"
        item = {"type": type, "output": _write_content(builder, content, place)}
    item |= {**extra_fields(result.extra), "call_id": result.tool_use_id}
    if call_type == "local_shell_call":
        item["id"] = result.tool_use_id
    return item


def _write_screenshot(builder: BodyBuilder, result: ToolResult, place: Location) -> dict[str, Any]:
    content = [Text(result.content)] if isinstance(result.content, str) else result.content
    parts = [part for _, part in builder.accepted_parts(content, place)]
    images = [part for part in parts if isinstance(part, Image)]
    if len(images) != len(parts):
        detail = "the result of a computer call must be one image"
        builder.record_loss("unsupported-content", place, detail, "send a screenshot")
    return {"type": "computer_screenshot", **(_image_source(images[0]) if images else {})}


def _text_only(builder: BodyBuilder, result: ToolResult, place: Location) -> str:
    """Return the text of a result; other content is a `Loss`."""
    if isinstance(result.content, str):
        return result.content
    texts: list[str] = []
    for part_place, part in builder.accepted_parts(result.content, place):
        if isinstance(part, Text):
            texts.append(part.text)
        else:
            detail = f"{type(part).__name__.lower()} in a tool result that can contain only text"
            builder.record_loss("unsupported-content", part_place, detail)
    return "".join(texts)


def _parse_list(text: str) -> list[Raw] | None:
    """Split a JSON list into its elements; None for any other text."""
    text = text.strip()
    return None if not text.startswith("[") or jsonio.problem(text) else jsonio.elements(text)
