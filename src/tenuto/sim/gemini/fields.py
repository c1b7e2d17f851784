"""The fields of a request, message by message, and the walk that sorts a body by them.

Keys come in camelCase or in snake_case, a repeated field may hold one bare value, null is absence, and a number may be
told as a string: so the JSON reader in front of the real service has it. What it does not know is kept as a `Stray`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Malformed

__all__ = ["Stray", "sorted_out"]

_PROTO = "type.googleapis.com/google.ai.generativelanguage.v1beta."
_TOLD = {"s": "TYPE_STRING", "n": "TYPE_DOUBLE", "i": "TYPE_INT32", "b": "TYPE_BOOL", "e": "TYPE_ENUM"}
_MESSAGES = {
    "GenerateContentRequest": (
        "model contents:Content* systemInstruction:Content tools:Tool* toolConfig:ToolConfig "
        "safetySettings:SafetySetting* generationConfig:GenerationConfig cachedContent serviceTier:e "
        "store:b@gemini continuationToken labels:?@vertex modelArmorConfig:ModelArmorConfig@vertex "
        "generationOutputConfig:?@vertex"
    ),
    "CountTokensRequest": (
        "model contents:Content* generateContentRequest:GenerateContentRequest systemInstruction:Content tools:Tool* "
        "generationConfig:GenerationConfig toolConfig:ToolConfig instances:?@vertex"
    ),
    "Content": "role parts:Part*",
    "Part": (
        "text inlineData:Blob fileData:FileData functionCall:FunctionCall functionResponse:FunctionResponse "
        "executableCode:ExecutableCode codeExecutionResult:CodeExecutionResult toolCall:ToolCall@gemini "
        "toolResponse:ToolResponse@gemini thought:b thoughtSignature mediaResolution:? videoMetadata:VideoMetadata "
        "partMetadata:?@gemini mediaProcessing:e audioTranscription:? speechMetadata:?"
    ),
    "Blob": "mimeType data displayName",
    "FileData": "fileUri mimeType displayName",
    "FunctionCall": "id name args:o partialArgs:PartialArg*@vertex willContinue:b@vertex",
    "PartialArg": "jsonPath stringValue numberValue:n boolValue:b nullValue:? willContinue:b",
    "FunctionResponse": "id name response:o parts:FunctionResponsePart* willContinue:b@gemini scheduling:e",
    "FunctionResponsePart": "inlineData:Blob fileData:FileData mediaProcessing:e@gemini",
    "ExecutableCode": "id language:e code",
    "CodeExecutionResult": "id outcome:e output",
    "ToolCall": "id toolType:e args:o",
    "ToolResponse": "id toolType:e response:o",
    "VideoMetadata": "startOffset endOffset fps:n",
    "Tool": (
        "functionDeclarations:FunctionDeclaration* googleSearch:? googleSearchRetrieval:? googleMaps:? urlContext:? "
        "codeExecution:? fileSearch:?@gemini computerUse:? mcpServers:?@gemini retrieval:?@vertex "
        "enterpriseWebSearch:?@vertex parallelAiSearch:?@vertex exaAiSearch:?@vertex"
    ),
    "FunctionDeclaration": (
        "name description parameters:Schema parametersJsonSchema:? response:Schema responseJsonSchema:? behavior:e"
    ),
    "Schema": (
        "type:e format title description nullable:b default:? example:? enum* items:Schema minItems:i maxItems:i "
        "properties:Schema% propertyOrdering* required* minProperties:i maxProperties:i minLength:i maxLength:i "
        "pattern anyOf:Schema* minimum:n maximum:n additionalProperties:?@vertex defs:Schema%@vertex ref@vertex"
    ),
    "ToolConfig": (
        "functionCallingConfig:FunctionCallingConfig retrievalConfig:? includeServerSideToolInvocations:b@gemini"
    ),
    "FunctionCallingConfig": "mode:e allowedFunctionNames* streamFunctionCallArguments:b@vertex",
    "SafetySetting": "category:e threshold:e method:e@vertex",
    "ModelArmorConfig": "promptTemplateName responseTemplateName",
    "GenerationConfig": (
        "temperature:n topP:n topK:n candidateCount:i maxOutputTokens:i stopSequences* seed:i presencePenalty:n "
        "frequencyPenalty:n responseLogprobs:b logprobs:i responseMimeType responseSchema:Schema responseJsonSchema:? "
        "responseFormat:? responseModalities:e* speechConfig:? imageConfig:? mediaResolution:e "
        "thinkingConfig:ThinkingConfig enableEnhancedCivicAnswers:b audioTimestamp:b@vertex routingConfig:?@vertex "
        "modelSelectionConfig:?@vertex enableAffectiveDialog:b translationConfig:? audioTranscriptionConfig:?"
    ),
    "ThinkingConfig": "includeThoughts:b thinkingBudget:i thinkingLevel:e",
}
"""`name`: a string. `name:n`, `:i`, `:b`, `:e`: number, whole number, truth, word of a list. `:o`: any object, `:?`:
anything. `:Message`: a message. `*`: repeated. `%`: by names of the caller's. `@host`: known to that host only.
"""


class Stray(msgspec.Struct, frozen=True):
    """A key in a place where it is not known, or a list where there is to be one value: the rule that says so."""

    rule: str
    key: str
    path: str
    at: str


class _Field(msgspec.Struct, frozen=True):
    name: str
    snake: str
    type: str = "s"
    many: str = ""
    host: str = ""


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)


def _field(told: str) -> _Field:
    rest, _, host = told.partition("@")
    many = rest[-1] if rest[-1] in "*%" else ""
    name, _, type = rest.removesuffix(many).partition(":") if many else rest.partition(":")
    return _Field(name, _snake(name), type or "s", many, host)


_FIELDS = {
    message: {key: field for field in map(_field, told.split()) for key in (field.name, field.snake)}
    for message, told in _MESSAGES.items()
}


def sorted_out(body: dict[str, Any], message: str, host: str) -> tuple[dict[str, Any], list[Stray]]:
    """Return a body with the names in camelCase, and what does not belong there. `Malformed` where nothing fits."""
    walk = _Walk(host)
    return walk.message(body, message, "", ""), walk.strays


class _Walk:
    def __init__(self, host: str) -> None:
        self.host = host
        self.strays: list[Stray] = []

    def message(self, value: object, message: str, path: str, at: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Malformed(f"Invalid value at '{path}' ({_PROTO}{message}), {_shown(value)}", at)
        fields = _FIELDS[message]
        found: dict[str, Any] = {}
        for key, inner in value.items():
            field = fields.get(key)
            if field is None or field.host not in ("", self.host):
                self.strays.append(Stray(_rule(message, key, field), key, path, f"{at}/{_escaped(key)}"))
            elif inner is not None:
                below = f"{path}.{field.snake}" if path else field.snake
                read = self._value(inner, field, below, f"{at}/{_escaped(key)}")
                found[field.name] = read
        return found

    def _value(self, value: object, field: _Field, path: str, at: str) -> Any:
        if field.many == "*":
            many = value if isinstance(value, list) else [value]
            return [self._one(each, field, f"{path}[{n}]", f"{at}/{n}") for n, each in enumerate(many)]
        if field.many == "%" and isinstance(value, dict):
            return {
                name: self._one(each, field, f"{path}[{n}].value", f"{at}/{_escaped(name)}")
                for n, (name, each) in enumerate(value.items())
            }
        return self._one(value, field, path, at)

    def _one(self, value: object, field: _Field, path: str, at: str) -> Any:
        if field.type == "?":
            return value
        if isinstance(value, list):
            place = path.rpartition(".")[0]
            if field.name == "type":
                self.strays.append(Stray("GEM-SCHEMA-02", field.name, place, at))
                return ""
            told = f"Unknown name \"{field.name}\" at '{place}': Proto field is not repeating, cannot start list."
            raise Malformed(f"Invalid JSON payload received. {told}", at)
        if field.type in _FIELDS:
            return self.message(value, field.type, path, at)
        return _scalar(value, field.type, path, at)


def _rule(message: str, key: str, field: _Field | None) -> str:
    if message == "FunctionCall" and key in ("thoughtSignature", "thought_signature"):
        return "GEM-SIG-04"
    if message == "Schema":
        return "GEM-SCHEMA-01"
    return "GEM-PARAM-09" if field and field.host == "vertex" else "GEM-PART-04"


def _scalar(value: object, type: str, path: str, at: str) -> Any:
    if type == "o" and isinstance(value, dict):
        return value
    if type in "ni":
        number = _number(value)
        if number is not None:
            return int(number) if type == "i" else number
    elif (
        (type == "s" and isinstance(value, str))
        or (type == "b" and isinstance(value, bool))
        or (type == "e" and isinstance(value, str | int))
    ):
        return value
    raise Malformed(f"Invalid value at '{path}' ({_TOLD.get(type, 'google.protobuf.Struct')}), {_shown(value)}", at)


def _number(value: object) -> float | int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(?:\.\d+)?", value):
        return float(value) if "." in value else int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return value
    return None


def _shown(value: object) -> str:
    return jsonio.encode(value).decode()[:200]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
