"""From the rule book's view of a Responses request to a `TurnRequest`; item ids that say what they were issued for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tenuto.rules.body import Fields, objects, text
from tenuto.rules.issued_tokens import IssuedItem
from tenuto.rules.responses_request import ResponsesBody, content_text
from tenuto.sim.dialects import OfferedTool, ParsedRequest, PastMessage, TurnRequest
from tenuto.sim.tokens import TokenSealer

_INPUT_TYPES = frozenset(
    {
        "item_reference", "additional_tools", "configuration_update", "compaction", "compaction_trigger",
        "mcp_approval_response", "function_call_output", "custom_tool_call_output", "computer_call_output",
        "local_shell_call_output", "shell_call_output", "apply_patch_call_output",
    }
)  # fmt: skip
"""Items that the client makes; all others but messages are a model's."""


class ResponsesTurnRequest(TurnRequest, frozen=True, kw_only=True):
    user_items: tuple[Fields, ...] = ()
    """The messages of the user as they are in the body and in stored requests."""


def to_turn_request(body: ResponsesBody, request: ParsedRequest) -> ResponsesTurnRequest:
    fields, traits = body.body, request.target.traits
    items = [body.resolve_reference(item) for item in body.history]
    messages = tuple(_messages(items))
    instructions = text(fields, "instructions")
    system = [instructions, *(message.text for message in messages if message.role == "system")]
    return ResponsesTurnRequest(
        request=request,
        turn=_count_turns(items, body),
        system="\n".join(part for part in system if part),
        messages=tuple(message for message in messages if message.role != "system"),
        tools=tuple(_tools(body)),
        tool_choice=_tool_choice(fields.get("tool_choice")),
        parallel=fields.get("parallel_tool_calls") is not False,
        thinks=traits.thinking != ("none",) and body.effort != "none",
        shows_thinking=is_summary_shown(request, body),
        max_tokens=fields.get("max_output_tokens"),
        schema=_schema(fields.get("text")),
        prompt_tokens=body.prompt_tokens,
        compaction=_compaction(body),
        user_items=tuple(item for item in items if item.get("role") == "user"),
        summary=next((done.summary for item in reversed(items) if (done := body.compacted_messages(item))), ""),
    )


def _compaction(body: ResponsesBody) -> Literal["", "alone", "inline"]:
    if body.context.method == "compact" or [item.kind for item in body.all_items[-1:]] == ["compaction_trigger"]:
        return "alone"
    settings = objects(body.body.get("context_management"), "/context_management")
    thresholds = [setting.get("compact_threshold") for _, setting in settings]
    return "inline" if any(isinstance(value, int) and body.prompt_tokens > value for value in thresholds) else ""


def is_summary_shown(request: ParsedRequest, body: ResponsesBody) -> bool:
    """Whether reasoning is readable: at OpenAI and Azure only if a summary is requested."""
    return request.provider.name not in ("openai", "azure") or body.reasoning.get("summary") not in (None, "none")


def _messages(items: Sequence[Fields]) -> Iterator[PastMessage]:
    for item in items:
        kind = text(item, "type") or "message"
        if kind == "message":
            role: Any = item["role"] if item["role"] in ("user", "assistant") else "system"
            content = item.get("content")
            parts = [[part] for part in content] if isinstance(content, list) else [content]
            yield PastMessage(role=role, texts=tuple(filter(None, map(content_text, parts))))
        elif kind in ("function_call", "custom_tool_call"):
            yield PastMessage(role="assistant", calls=1)
        elif kind.endswith("call_output"):
            yield PastMessage(role="user", results=(content_text(item.get("output")),))


def _count_turns(items: Sequence[Fields], body: ResponsesBody) -> int:
    """Count the replies. Items of one response are one reply, even with outputs between them.

    A compaction knows the number of those that it replaces.
    """
    turns, reply, in_reply = 0, "", False
    for item in items:
        kind = text(item, "type") or "message"
        if compacted := body.compacted_messages(item):
            turns, reply = compacted.turns, ""
        if item.get("role") != "assistant" if kind == "message" else kind in _INPUT_TYPES:
            in_reply = False
            continue
        issued = body.tokens.item(text(item, "id"))
        current = issued.reply if issued is not None else ""
        continues = current == reply if current and reply else in_reply
        turns += not continues
        reply = (current or reply) if continues else current
        in_reply = True
    return turns


def _tools(body: ResponsesBody) -> Iterator[OfferedTool]:
    for tool in body.tools:
        kind, schema = text(tool.fields, "type"), tool.fields.get("parameters")
        if kind in ("function", "custom"):
            schema = schema if isinstance(schema, dict) else {}
            yield OfferedTool(name=tool.name, schema=schema, is_custom=kind == "custom", namespace=tool.namespace)


def _tool_choice(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return "auto"
    if value.get("type") == "allowed_tools":
        return text(value, "mode") or "auto"
    return text(value, "name") or "required"


def _schema(options: Any) -> dict[str, Any] | None:
    format = options.get("format") if isinstance(options, dict) else None
    kind = format.get("type") if isinstance(format, dict) else None
    if kind == "json_object":
        return {}
    schema = format.get("schema") if isinstance(format, dict) and kind == "json_schema" else None
    return schema if isinstance(schema, dict) else None


def count_tokens(request: TurnRequest) -> dict[str, Any]:
    return {"object": "response.input_tokens", "input_tokens": request.prompt_tokens}


# --- ids --------------------------------------------------------------------------------------------------------------

PREFIXES = {
    "message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", "web_search_call": "ws",
    "code_interpreter_call": "ci", "image_generation_call": "ig", "compaction": "cmp",
}  # fmt: skip
_CODES = {kind: f"{number:x}" for number, kind in enumerate(PREFIXES, 1)} | {"message with phase": "f"}
_KINDS = {code: kind for kind, code in _CODES.items()}
_MAX_ITEMS = 20
_ID = re.compile(r"([a-z]+)_([0-9a-f]{12})([0-9a-f]{2})([0-9a-f]{20})([0-9a-f]{16})")


def make_id(sealer: TokenSealer, reply: str, kinds: Sequence[str], index: int) -> str:
    """Return the id of an item: its reply, its index, and the types of the reply's first 20 items, with a MAC.

    A message with a `phase` has the type `message with phase`.
    """
    codes = "".join(_CODES[kind] for kind in kinds[:_MAX_ITEMS]).ljust(_MAX_ITEMS, "0")
    content = f"{reply[:12]}{index:02x}{codes}"
    prefix = PREFIXES[kinds[index].partition(" ")[0]]
    return f"{prefix}_{content}{sealer.mac(prefix, content)}"


def read_id(sealer: TokenSealer, id: str) -> IssuedItem | None:
    """Return what an id was issued for; None if it was not issued here, or its neighbors are not known."""
    match = _ID.fullmatch(id)
    if match is None or sealer.mac(match[1], id[len(match[1]) + 1 : -16]) != match[5]:
        return None
    reply, index = match[2], int(match[3], 16)
    kinds = [_KINDS[code] for code in match[4].rstrip("0")]
    if index + 1 >= _MAX_ITEMS:
        return None
    plain = [kind.partition(" ")[0] for kind in kinds]
    reasoning = max((number for number in range(index) if plain[number] == "reasoning"), default=-1)
    if plain[index] == "reasoning" and reasoning != index - 1:
        reasoning = -1
    return IssuedItem(
        kind=plain[index],
        reply=reply,
        index=index,
        after_reasoning=make_id(sealer, reply, kinds, reasoning) if reasoning >= 0 else "",
        next_kind=plain[index + 1] if index + 1 < len(plain) else "",
        fields=("phase",) if plain[index] != kinds[index] else (),
    )
