"""Read a Chat Completions request: from the view of the rules to the content of the request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.core import jsonio
from tenuto.rules.body import Fields, text
from tenuto.rules.chat import ChatBody, calls_of, message_text
from tenuto.sim.dialects import OfferedTool, ParsedRequest, PastMessage, TurnRequest
from tenuto.sim.tokens import estimate_tokens

_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_REQUEST = 3


def to_turn_request(body: ChatBody, request: ParsedRequest) -> TurnRequest:
    fields, messages = body.body, body.messages()
    past = tuple(_past_messages(body))
    system = "\n\n".join(message_text(message) for _, message in body.messages("system", "developer"))
    tools = fields.get("tools")
    words = [system, *(word for message in past for word in (message.text, *message.results))]
    words += [word for item in messages for _, call in calls_of(*item) for word in _name_and_arguments(call)]
    words += [jsonio.encode(tools).decode()] if tools else []
    return TurnRequest(
        request=request,
        turn=sum(message.get("role") == "assistant" for _, message in messages),
        system=system,
        messages=past,
        tools=tuple(_offered_tools(body)),
        tool_choice=_tool_choice(fields.get("tool_choice")),
        parallel=fields.get("parallel_tool_calls") is not False,
        thinks=body.thinks(),
        shows_thinking=_shows_thinking(body),
        max_tokens=_count(fields.get("max_completion_tokens")) or _count(fields.get("max_tokens")),
        stop=_stop_sequences(fields.get("stop")),
        schema=_schema(fields.get("response_format")),
        choices=_count(fields.get("n")) or 1,
        prompt_tokens=sum(map(estimate_tokens, words)) + _TOKENS_PER_MESSAGE * len(past) + _TOKENS_PER_REQUEST,
    )


def _past_messages(body: ChatBody) -> Iterator[PastMessage]:
    for pointer, message in body.messages():
        role = text(message, "role")
        if role in ("tool", "function"):
            yield PastMessage(role="user", results=(message_text(message),))
        elif role == "assistant":
            calls = sum(1 for _ in calls_of(pointer, message))
            yield PastMessage(role="assistant", texts=_texts(message), calls=calls)
        elif role not in ("system", "developer"):
            yield PastMessage(role="user", texts=_texts(message))


def _texts(message: Fields) -> tuple[str, ...]:
    content = message.get("content")
    parts = [[part] for part in content] if isinstance(content, list) else [content]
    return tuple(filter(None, (message_text({"content": part}) for part in parts)))


def _name_and_arguments(call: Fields) -> tuple[str, str]:
    function = call.get("function") or call.get("custom")
    if not isinstance(function, dict):
        return "", ""
    arguments = function.get("arguments", function.get("input", ""))
    return text(function, "name"), arguments if isinstance(arguments, str) else jsonio.encode(arguments).decode()


def _offered_tools(body: ChatBody) -> Iterator[OfferedTool]:
    for _, tool in body.tools():
        type = text(tool, "type") or "function"
        function = tool.get(type) if type in ("function", "custom") else None
        if isinstance(function, dict):
            schema = function.get("parameters")
            yield OfferedTool(
                name=text(function, "name"),
                schema=schema if isinstance(schema, dict) else {},
                is_custom=type == "custom",
            )


def _tool_choice(choice: Any) -> str:
    if isinstance(choice, str):
        return "required" if choice == "any" else choice
    function = (choice.get("function") or choice.get("custom")) if isinstance(choice, dict) else None
    return text(function, "name") or "auto" if isinstance(function, dict) else "auto"


def _shows_thinking(body: ChatBody) -> bool:
    reasoning = body.body.get("reasoning")
    hidden = (isinstance(reasoning, dict) and reasoning.get("exclude") is True) or (
        body.body.get("reasoning_format") == "hidden"
    )
    return not hidden and body.requested_thinking is not False and body.body.get("include_reasoning") is not False


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _stop_sequences(value: Any) -> tuple[str, ...]:
    sequences = value if isinstance(value, list) else [value]
    return tuple(sequence for sequence in sequences if isinstance(sequence, str) and sequence)


def _schema(format: Any) -> dict[str, Any] | None:
    if not isinstance(format, dict) or format.get("type") in (None, "text"):
        return None
    inner = format.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else {}
