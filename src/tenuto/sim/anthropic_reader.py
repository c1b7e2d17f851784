"""Read the content of a Messages request that no rule refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from tenuto.rules.anthropic_body import MessagesBody, trigger_of
from tenuto.rules.body import Fields, text
from tenuto.sim.dialects import OfferedTool, ParsedRequest, PastMessage, TurnRequest


class MessagesTurnRequest(TurnRequest, frozen=True, kw_only=True):
    """The content of a Messages request, with its body."""

    body: MessagesBody


def to_turn_request(body: MessagesBody, request: ParsedRequest) -> MessagesTurnRequest:
    fields = body.body
    choice = fields.get("tool_choice") or {}
    return MessagesTurnRequest(
        body=body,
        request=request,
        turn=_count_turns(body),
        system=_system(fields.get("system")),
        messages=tuple(_messages(body)),
        tools=tuple(
            OfferedTool(name=tool["name"], schema=tool.get("input_schema") or {}) for _, tool in body.custom_tools()
        ),
        tool_choice={"any": "required", "tool": choice.get("name")}.get(body.choice, body.choice) or "auto",
        parallel=not choice.get("disable_parallel_tool_use"),
        thinks=body.thinks,
        shows_thinking=_shows_thinking(body),
        max_tokens=fields.get("max_tokens"),
        stop=tuple(filter(None, fields.get("stop_sequences") or ())),
        schema=_schema(body),
        prompt_tokens=body.prompt_tokens,
        compaction=_compaction(body),
        summary=text(body.summary.raw, "content") if body.summary else "",
    )


def count_tokens(request: TurnRequest) -> dict[str, Any]:
    return {"input_tokens": request.prompt_tokens}


def _count_turns(body: MessagesBody) -> int:
    """Count the replies; a compaction knows the number of those that it replaces."""
    replies = [message.i for message in body.messages if message.role == "assistant" and not message.is_compaction]
    raw = body.summary.raw if body.summary else {}
    issued = body.tokens.find(text(raw, "signature") or text(raw, "encrypted_content"))
    if body.summary is None or issued is None or issued.compacted is None:
        return len(replies)
    return issued.compacted.turns + sum(index >= body.summary.i for index in replies)


def _compaction(body: MessagesBody) -> Literal["", "alone", "inline"]:
    if body.is_summary_request:
        return "alone"
    _, edit = body.compaction_edit or ("", None)
    if edit is None or body.open_turn or body.prompt_tokens <= trigger_of(edit):
        return ""
    return "alone" if edit.get("pause_after_compaction") else "inline"


def _shows_thinking(body: MessagesBody) -> bool:
    display = body.object("thinking").get("display")
    return display != "omitted" if display else not body.traits.omits_thinking


def _schema(body: MessagesBody) -> Fields | None:
    output = body.object("output_config").get("format") or body.body.get("output_format")
    schema = output.get("schema") if isinstance(output, dict) else None
    return schema if isinstance(schema, dict) else None


def _system(system: str | list[Fields] | None) -> str:
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system or [])


def _messages(body: MessagesBody) -> Iterator[PastMessage]:
    for message in body.messages:
        results = [block.raw for block in message.blocks if block.type == "tool_result"]
        yield PastMessage(
            role="system" if message.role == "system" else "user" if message.role == "user" else "assistant",
            texts=tuple(block.text for block in message.blocks if block.type == "text"),
            calls=sum(block.type == "tool_use" for block in message.blocks),
            results=tuple(_result_text(raw.get("content")) for raw in results),
        )


def _result_text(content: str | list[Fields] | None) -> str:
    return "".join(text(block, "text") for block in content) if isinstance(content, list) else content or ""
