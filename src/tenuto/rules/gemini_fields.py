"""The fields of a generateContent request, and a reader that normalizes a body by them.

The JSON reader of the real service accepts camelCase and snake_case, one value in place of a list, null for an absent
field, and numbers as strings. Sources: types and converters of google-genai 3.1.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import msgspec

from tenuto.rules.body import Fields, Violation, escape

_MESSAGES = {
    "GenerateContentRequest": (
        "model contents:Content* systemInstruction:Content tools:Tool* toolConfig:ToolConfig "
        "safetySettings:SafetySetting* generationConfig:GenerationConfig cachedContent serviceTier:e "
        "store:b@api continuationToken labels:?@cloud modelArmorConfig:ModelArmorConfig@cloud outputConfig:?@cloud"
    ),
    "CountTokensRequest": (
        "model contents:Content* generateContentRequest:GenerateContentRequest systemInstruction:Content tools:Tool* "
        "generationConfig:GenerationConfig toolConfig:ToolConfig instances:?@cloud"
    ),
    "Content": "role parts:Part*",
    "Part": (
        "text inlineData:Blob fileData:FileData functionCall:FunctionCall functionResponse:FunctionResponse "
        "executableCode:ExecutableCode codeExecutionResult:CodeExecutionResult toolCall:ToolCall@api "
        "toolResponse:ToolResponse@api thought:b thoughtSignature mediaResolution:? videoMetadata:VideoMetadata "
        "partMetadata:?@api mediaProcessing:e audioTranscription:? speechMetadata:?"
    ),
    "Blob": "mimeType data displayName",
    "FileData": "fileUri mimeType displayName",
    "FunctionCall": "id name args:o partialArgs:PartialArg*@cloud willContinue:b@cloud",
    "PartialArg": "jsonPath stringValue numberValue:n boolValue:b nullValue:? willContinue:b",
    "FunctionResponse": "id name response:o parts:FunctionResponsePart* willContinue:b@api scheduling:e",
    "FunctionResponsePart": "inlineData:Blob fileData:FileData mediaProcessing:e@api",
    "ExecutableCode": "id language:e code",
    "CodeExecutionResult": "id outcome:e output",
    "ToolCall": "id toolType:e args:o",
    "ToolResponse": "id toolType:e response:o",
    "VideoMetadata": "startOffset endOffset fps:n",
    "Tool": (
        "functionDeclarations:FunctionDeclaration* googleSearch:? googleSearchRetrieval:? googleMaps:? urlContext:? "
        "codeExecution:? fileSearch:?@api computerUse:? mcpServers:? retrieval:?@cloud "
        "enterpriseWebSearch:?@cloud parallelAiSearch:?@cloud exaAiSearch:?@cloud"
    ),
    "FunctionDeclaration": (
        "name description parameters:Schema parametersJsonSchema:? response:Schema responseJsonSchema:? behavior:e"
    ),
    "Schema": (
        "type:e format title description nullable:b default:? example:? enum* items:Schema minItems:i maxItems:i "
        "properties:Schema% propertyOrdering* required* minProperties:i maxProperties:i minLength:i maxLength:i "
        "pattern anyOf:Schema* minimum:n maximum:n additionalProperties:?@cloud defs:Schema%@cloud ref@cloud"
    ),
    "ToolConfig": (
        "functionCallingConfig:FunctionCallingConfig retrievalConfig:? includeServerSideToolInvocations:b@api"
    ),
    "FunctionCallingConfig": "mode:e allowedFunctionNames* streamFunctionCallArguments:b@cloud",
    "SafetySetting": "category:e threshold:e method:e@cloud",
    "ModelArmorConfig": "promptTemplateName responseTemplateName",
    "GenerationConfig": (
        "temperature:n topP:n topK:n candidateCount:i maxOutputTokens:i stopSequences* seed:i presencePenalty:n "
        "frequencyPenalty:n responseLogprobs:b logprobs:i responseMimeType responseSchema:Schema responseJsonSchema:? "
        "_responseJsonSchema:? responseFormat:? responseModalities:e* speechConfig:? imageConfig:? mediaResolution:e "
        "thinkingConfig:ThinkingConfig enableEnhancedCivicAnswers:b@api audioTimestamp:b@cloud routingConfig:?@cloud "
        "modelConfig:?@cloud modelSelectionConfig:?@cloud enableAffectiveDialog:b translationConfig:? "
        "audioTranscriptionConfig:?"
    ),
    "ThinkingConfig": "includeThoughts:b thinkingBudget:i thinkingLevel:e",
}
"""`name`: a string. `name:n`, `:i`, `:b`, `:e`: number, integer, boolean, enum. `:o`: an object, `:?`: anything.
`:Message`: a message. `*`: repeated. `%`: a map. `@api`: only known to the Gemini API; `@cloud`: only known to Vertex AI.
"""
_TYPES: dict[str, tuple[type, ...]] = {
    "s": (str,), "n": (int, float), "i": (int,), "b": (bool,), "e": (str, int), "o": (dict,), "?": (),
}  # fmt: skip
_TYPE_NAMES = {
    "s": "TYPE_STRING", "n": "TYPE_DOUBLE", "i": "TYPE_INT32", "b": "TYPE_BOOL", "e": "TYPE_ENUM",
    "o": "google.protobuf.Struct",
}  # fmt: skip
_PROTO = "type.googleapis.com/google.ai.generativelanguage.v1beta."
_MAX_DEPTH = 100
"""The depth at which protocol buffers stop reading JSON."""


class NormalizedBody(msgspec.Struct, frozen=True):
    """A normalized body: names in camelCase, lists where they belong, without nulls and unknown keys."""

    fields: Fields
    unknown: dict[str, list[Violation]] = {}
    """The keys that the host does not know, by kind: `list` (the type of a schema is a list), `schema` (a keyword),
    `signature` (inside a call), `cloud` (known to Vertex AI only), or empty."""
    wrong: tuple[Violation, ...] = ()
    """The values of a wrong JSON type."""
    is_plain: bool = True
    """Whether the body was in this form already; then every pointer is right for both."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    snake: str
    type: str = "s"
    many: str = ""
    host: str = ""


def snake_case(name: str) -> str:
    """Write a camelCase name in snake_case."""
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


def _field(text: str) -> _Field:
    rest, _, host = text.partition("@")
    many = rest[-1] if rest[-1] in "*%" else ""
    name, _, type = rest.removesuffix(many).partition(":") if many else rest.partition(":")
    return _Field(name, snake_case(name), type or "s", many, host)


_FIELDS = {message: [_field(text) for text in fields.split()] for message, fields in _MESSAGES.items()}
_BY_KEY = {
    message: {key: field for field in fields for key in (field.name, field.snake)}
    for message, fields in _FIELDS.items()
}
_PLAIN = {
    host: {
        message: {
            field.name: (frozenset(_TYPES.get(field.type, (dict,))), field.many, field.type)
            for field in fields
            if field.host in ("", host)
        }
        for message, fields in _FIELDS.items()
    }
    for host in ("api", "cloud")
}
"""The fields of each message at a host: the types of a value, `many`, and the type in `_MESSAGES`."""


def read_fields(body: Fields, message: str, *, vertex: bool) -> NormalizedBody:
    """Normalize a body; note what does not belong there."""
    host = "cloud" if vertex else "api"
    if _is_plain(body, message, _PLAIN[host]):
        return NormalizedBody(body)
    reader = _Reader(host)
    fields = reader.read_message(body, message, "", "", 0)
    return NormalizedBody(fields, reader.unknown, tuple(reader.wrong), is_plain=False)


def _is_plain(body: Fields, message: str, table: dict[str, dict[str, tuple[frozenset[type], str, str]]]) -> bool:
    """Tell whether a body is normalized already. Most bodies are, and this takes a fifth of the time of a reader."""
    waiting: list[tuple[Fields, str]] = [(body, message)]
    while waiting:
        fields, name = waiting.pop()
        known = table[name]
        for key, value in fields.items():
            found = known.get(key)
            if found is None or value is None:
                return False
            types, many, type_name = found
            if not types:
                continue
            values = value if many == "*" else [value]
            if many == "%":
                values = list(value.values()) if type(value) is dict else None
            if type(values) is not list or not types.issuperset(map(type, values)):
                return False
            if type_name in table:
                waiting += [(item, type_name) for item in values]
    return True


class _Reader:
    def __init__(self, host: str) -> None:
        self.host = host
        self.unknown: dict[str, list[Violation]] = defaultdict(list)
        self.wrong: list[Violation] = []

    def read_message(self, value: object, message: str, path: str, pointer: str, depth: int) -> Fields:
        fields: Fields = {}
        if not isinstance(value, dict):
            self._refuse(value, path, pointer, _PROTO + message)
            return fields
        if depth > _MAX_DEPTH:
            self._add_wrong(pointer, path, "Message too deep. Max recursion depth reached.")
            return fields
        for key, inner in value.items():
            field = _BY_KEY[message].get(key)
            below = f"{pointer}/{escape(key)}"
            if field is None or field.host not in ("", self.host):
                is_signature = message == "FunctionCall" and snake_case(key) == "thought_signature"
                kind = "schema" if message == "Schema" else "signature" if is_signature else ""
                kind = kind or ("cloud" if field is not None and field.host == "cloud" else "")
                self.unknown[kind].append(Violation(below, {"key": key, "path": path}, message=0 if path else 1))
            elif inner is not None:
                read = self._read(inner, field, f"{path}.{field.snake}".removeprefix("."), below, depth + 1)
                if read is not None:
                    fields[field.name] = read
        return fields

    def _read(self, value: object, field: _Field, path: str, pointer: str, depth: int) -> Any:
        if field.many == "*":
            items = value if isinstance(value, list) else [value]
            read = [
                self._read_one(item, field, f"{path}[{n}]", f"{pointer}/{n}" if items is value else pointer, depth)
                for n, item in enumerate(items)
            ]
            return [item for item in read if item is not None]
        if field.many == "%" and isinstance(value, dict):
            return {
                name: self._read_one(item, field, f"{path}[{n}].value", f"{pointer}/{escape(name)}", depth)
                for n, (name, item) in enumerate(value.items())
            }
        return self._read_one(value, field, path, pointer, depth)

    def _read_one(self, value: object, field: _Field, path: str, pointer: str, depth: int) -> Any:
        if field.type == "?":
            return value
        if isinstance(value, list):
            holder = path.rpartition(".")[0]
            if field.name == "type":
                self.unknown["list"].append(Violation(pointer, {"path": holder}))
            else:
                text = f"Unknown name \"{field.name}\" at '{holder}': Proto field is not repeating, cannot start list."
                self._add_wrong(pointer, path, f"Invalid JSON payload received. {text}")
            return {} if field.type in _MESSAGES else None
        if field.type in _MESSAGES:
            return self.read_message(value, field.type, path, pointer, depth)
        if field.type in "ni":
            number = _number(value)
            if number is not None:
                return int(number) if field.type == "i" else number
        elif type(value) in _TYPES[field.type]:
            return value
        self._refuse(value, path, pointer, _TYPE_NAMES[field.type])
        return None

    def _refuse(self, value: object, path: str, pointer: str, type: str) -> None:
        shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:200]
        self._add_wrong(pointer, path, f"Invalid value at '{path}' ({type}), {shown}")

    def _add_wrong(self, pointer: str, path: str, message: str) -> None:
        self.wrong.append(Violation(pointer, {"message": message, "path": path}))


def _number(value: object) -> float | int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(?:\.\d+)?", value):
        return float(value) if "." in value else int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return value
    return None
