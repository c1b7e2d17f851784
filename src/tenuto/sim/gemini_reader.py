"""From the rule book's view of a generateContent request to a `TurnRequest`."""

from __future__ import annotations

from typing import Any

from tenuto.core import jsonio
from tenuto.rules.body import Fields, RequestContext, text
from tenuto.rules.gemini import GeminiBody
from tenuto.sim import providers
from tenuto.sim.dialects import OfferedTool, ParsedRequest, PastMessage, TurnRequest

_TYPE_NUMBERS = {1: "string", 2: "number", 3: "integer", 4: "boolean", 5: "array", 6: "object", 7: "null"}
"""The types of a schema by their enum numbers."""


def open_request(request: ParsedRequest) -> GeminiBody:
    """Return the view of a request, for its options."""
    row = providers.imitated_row(request.provider)
    return GeminiBody(request.body, RequestContext(row=row, method=request.method))


def to_turn_request(body: GeminiBody, request: ParsedRequest) -> TurnRequest:
    config = body.config
    system = (body.fields.get("systemInstruction") or {}).get("parts") or []
    return TurnRequest(
        request=request,
        turn=sum(content.get("role") == "model" for content in body.contents),
        system="\n".join(_texts(system)),
        messages=tuple(_message(content) for content in body.contents),
        tools=_tools(body),
        tool_choice=_tool_choice(body),
        thinks="none" not in request.target.traits.thinking and body.thinking.get("thinkingBudget") != 0,
        shows_thinking=bool(body.thinking.get("includeThoughts")),
        max_tokens=config.get("maxOutputTokens"),
        stop=tuple(config.get("stopSequences") or ()),
        schema=_answer_schema(config),
        choices=max(1, config.get("candidateCount") or 1),
        prompt_tokens=sum(body.token_counts.values()),
    )


def token_details(counts: dict[str, int]) -> list[dict[str, Any]]:
    return [{"modality": modality, "tokenCount": count} for modality, count in counts.items()]


def count_tokens(request: TurnRequest) -> dict[str, Any]:
    counts = open_request(request.request).token_counts
    return {"totalTokens": sum(counts.values()), "promptTokensDetails": token_details(counts)}


def _texts(parts: list[Fields]) -> list[str]:
    return [part["text"] for part in parts if part.get("text") and not part.get("thought")]


def _message(content: Fields) -> PastMessage:
    parts = content.get("parts") or []
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return PastMessage(
        role="assistant" if content.get("role") == "model" else "user",
        texts=tuple(_texts(parts)),
        calls=sum("functionCall" in part for part in parts),
        results=tuple(_result_text(result.get("response") or {}) for result in results),
    )


def _result_text(response: Fields) -> str:
    for key in ("output", "result", "content", "error"):
        if len(response) == 1 and isinstance(response.get(key), str):
            return str(response[key])
    return jsonio.encode(response).decode()


def _tools(body: GeminiBody) -> tuple[OfferedTool, ...]:
    tools = []
    for _, _, function in body.declarations:
        schema = function.get("parametersJsonSchema")
        if not isinstance(schema, dict):
            schema = _json_schema(function.get("parameters") or {})
        tools.append(OfferedTool(name=text(function, "name"), schema=schema))
    return tuple(tools)


def _tool_choice(body: GeminiBody) -> str:
    config = body.tool_config.get("functionCallingConfig") or {}
    mode = str(config.get("mode", "AUTO")).upper()
    if mode == "ANY":
        names = config.get("allowedFunctionNames") or [text(function, "name") for _, _, function in body.declarations]
        return str(names[0]) if len(names) == 1 else "required"
    return "none" if mode == "NONE" else "auto"


def _answer_schema(config: Fields) -> dict[str, Any] | None:
    formats = config.get("responseFormat") or []
    for format in formats if isinstance(formats, list) else [formats]:
        content = format.get("text") if isinstance(format, dict) else None
        if isinstance(content, dict):
            schema = content.get("jsonSchema") or content.get("json_schema") or content.get("schema")
            return schema if isinstance(schema, dict) else {}
    for name in ("responseJsonSchema", "_responseJsonSchema"):
        if isinstance(config.get(name), dict):
            return dict(config[name])
    if "responseSchema" in config:
        return _json_schema(config["responseSchema"])
    return {} if config.get("responseMimeType") == "application/json" else None


def _json_schema(schema: Fields) -> dict[str, Any]:
    """Write a schema of Google's as JSON Schema: lower-case types, `nullable` as a second type."""
    result = dict(schema)
    if "type" in result:
        type = _TYPE_NUMBERS.get(result["type"]) or str(result["type"]).lower()
        result["type"] = [type, "null"] if result.pop("nullable", False) else type
    if isinstance(result.get("properties"), dict):
        result["properties"] = {name: _json_schema(inner) for name, inner in result["properties"].items()}
    if isinstance(result.get("items"), dict):
        result["items"] = _json_schema(result["items"])
    if "anyOf" in result:
        result["anyOf"] = [_json_schema(inner) for inner in result["anyOf"]]
    return result
