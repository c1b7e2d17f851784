"""Gemini generateContent: the request view, and the rules for its shape, keys, parameters, tools and schemas."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import groupby
from typing import Any

import msgspec

from tenuto.rules.body import CallInBody, Fields, RequestBody, RequestContext, Violation, escape, text
from tenuto.rules.book import UnverifiedText, section

# The JSON reader of the real service accepts camelCase and snake_case, one value in place of a list, null for an absent
# field, and numbers as strings. Sources: types and converters of google-genai 3.1.
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
    types: tuple[type, ...]
    """The Python types of a value; empty: any."""
    type: str = "s"
    many: str = ""
    host: str = ""


def snake_case(name: str) -> str:
    """Write a camelCase name in snake_case."""
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


def _field(text: str) -> _Field:
    rest, _, host = text.partition("@")
    many = rest[-1] if rest[-1] in "*%" else ""
    name, _, type = rest.removesuffix(many).partition(":")
    return _Field(name, snake_case(name), _TYPES.get(type or "s", (dict,)), type or "s", many, host)


_BY_KEY = {
    message: {key: field for field in map(_field, fields.split()) for key in (field.name, field.snake)}
    for message, fields in _MESSAGES.items()
}


def read_fields(body: Fields, message: str, *, vertex: bool) -> NormalizedBody:
    """Normalize a body; note what does not belong there."""
    host = "cloud" if vertex else "api"
    if _is_plain(body, message, host):
        return NormalizedBody(body)
    reader = _Reader(host)
    fields = reader.read_message(body, message, "", "", 0)
    return NormalizedBody(fields, reader.unknown, tuple(reader.wrong), is_plain=False)


@cache
def _plain_fields(host: str) -> dict[str, dict[str, tuple[tuple[type, ...], str, str]]]:
    """Return the fields of each message at a host: the types of a value, `many`, and the message that a value is."""
    return {
        message: {
            field.name: (field.types, field.many, field.type if field.type in _MESSAGES else "")
            for field in fields.values()
            if field.host in ("", host)
        }
        for message, fields in _BY_KEY.items()
    }


def _is_plain(body: Fields, message: str, host: str) -> bool:
    """Tell whether a body is normalized already. Most bodies are, and this takes a fifth of the time of a reader."""
    table = _plain_fields(host)
    waiting: list[tuple[Fields, str]] = [(body, message)]
    while waiting:
        fields, name = waiting.pop()
        known = table[name]
        for key, value in fields.items():
            if key not in known:
                return False
            types, many, inner = known[key]
            if many and type(value) is not (list if many == "*" else dict):
                return False
            if not many and not inner:
                if (types and type(value) not in types) or value is None:
                    return False
                continue
            for item in value if many == "*" else value.values() if many else (value,):
                if types and type(item) not in types:
                    return False
                if inner:
                    waiting.append((item, inner))
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
        elif type(value) in field.types:
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


gemini = section("gemini", type="INVALID_ARGUMENT")

DATA_FIELDS = (
    "functionCall", "text", "inlineData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
    "functionResponse", "fileData",
)  # fmt: skip
"""The fields of which a part has one."""
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_MEDIA_TOKENS = {
    "image": ("IMAGE", 258), "audio": ("AUDIO", 192), "video": ("VIDEO", 1_315), "application": ("DOCUMENT", 516),
}  # fmt: skip
MOST_MEDIA_TOKENS = max(count for _, count in _MEDIA_TOKENS.values())
_CLIENT_TOOLS = ("functionDeclarations", "computerUse", "mcpServers")
"""Tools that go with functions: the client runs them, or nothing is known."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a content, with normalized fields."""

    content: int
    index: int
    fields: Fields
    signature: str
    """Its thought signature; empty if it has none."""

    @property
    def pointer(self) -> str:
        return f"/contents/{self.content}/parts/{self.index}"

    @property
    def kind(self) -> str:
        """The data field of the part; `text` for a thought without text; empty if it has none."""
        for name in DATA_FIELDS:
            if name in self.fields:
                return name
        return "text" if self.fields.get("thought") and self.signature else ""

    def object(self, name: str) -> Fields:
        """Return a data field that is an object; empty if the part has another one."""
        value: Fields = self.fields.get(name) or {}
        return value


class Run(msgspec.Struct, frozen=True, gc=False):
    """Adjacent contents of one role, which count as one."""

    role: str
    first: int
    last: int
    parts: tuple[Part, ...]
    calls: tuple[Part, ...]
    responses: tuple[Part, ...]


class GeminiBody(RequestBody):
    """A generateContent or countTokens request. Pointers in selections are those of the normalized body."""

    dialect = "gemini"
    conversation = "contents"

    def __init__(self, body: Fields, context: RequestContext) -> None:
        super().__init__(body, context)
        self.vertex = context.row.gemini.vertex
        """Whether the host is Vertex AI, not the Gemini API."""

    @cached_property
    def normal_form(self) -> NormalizedBody:
        counts = self.context.method == "countTokens"
        message = "CountTokensRequest" if counts else "GenerateContentRequest"
        return read_fields(self.body, message, vertex=self.vertex)

    @cached_property
    def fields(self) -> Fields:
        """The normalized request; the inner one of a countTokens request."""
        fields = self.normal_form.fields
        return fields.get("generateContentRequest") or fields

    @property
    def config(self) -> Fields:
        return self.fields.get("generationConfig") or {}

    def options(self, *names: str) -> Sequence[tuple[str, Any]]:
        """Return the values of `generationConfig` with these names, and their pointers."""
        return self.see([(f"/generationConfig/{name}", self.config[name]) for name in names if name in self.config])

    @property
    def thinking(self) -> Fields:
        return self.config.get("thinkingConfig") or {}

    @property
    def level(self) -> str:
        """The thinking level in upper case; empty without one."""
        return str(self.thinking.get("thinkingLevel", "")).upper()

    @property
    def tool_config(self) -> Fields:
        return self.fields.get("toolConfig") or {}

    @cached_property
    def contents(self) -> list[Fields]:
        contents: list[Fields] = self.fields.get("contents") or []
        return contents

    @cached_property
    def runs(self) -> list[Run]:
        """The contents, adjacent ones of one role joined. A missing role is the user's."""
        runs = []
        indexed = enumerate(self.contents)
        for role, group in groupby(indexed, key=lambda item: item[1].get("role") or "user"):
            contents = list(group)
            parts = tuple(
                [
                    Part(i, j, part, part.get("thoughtSignature", ""))
                    for i, content in contents
                    for j, part in enumerate(content.get("parts") or ())
                ]
            )
            calls = tuple([part for part in parts if "functionCall" in part.fields]) if role == "model" else ()
            responses = tuple([part for part in parts if "functionResponse" in part.fields]) if role != "model" else ()
            runs.append(Run(role, contents[0][0], contents[-1][0], parts, calls, responses))
        return runs

    @cached_property
    def parts(self) -> list[Part]:
        return [part for run in self.runs for part in run.parts]

    @cached_property
    def model_runs(self) -> list[Run]:
        return [run for run in self.runs if run.role == "model"]

    @cached_property
    def turn_start(self) -> int:
        """The index of the last content with user input; -1 without any. Function results are not input."""
        return self.last_input(bool)

    def last_input(self, is_input: Callable[[Any], bool]) -> int:
        """Return the index of the last content of the user with a text or file that counts as input; -1 without any."""
        for run in reversed(self.runs):
            for part in reversed(run.parts) if run.role == "user" else ():
                if any(is_input(part.fields.get(name)) for name in ("text", "inlineData", "fileData")):
                    return part.content
        return -1

    @cached_property
    def declarations(self) -> list[tuple[str, str, Fields]]:
        """The declared functions: pointer, path in the notation of the service, declaration."""
        return [
            (f"/tools/{t}/functionDeclarations/{k}", f"tools[{t}].function_declarations[{k}]", function)
            for t, tool in enumerate(self.fields.get("tools") or ())
            for k, function in enumerate(tool.get("functionDeclarations") or ())
        ]

    @cached_property
    def server_tools(self) -> list[str]:
        return [name for tool in self.fields.get("tools") or () for name in tool if name not in _CLIENT_TOOLS]

    @cached_property
    def schemas(self) -> list[tuple[str, str, Fields]]:
        """Every schema in Google's form and every one inside it: pointer, path with names of properties, schema."""
        schemas = [
            (f"{pointer}/{name}", f"{path}.{name}", function[name])
            for pointer, path, function in self.declarations
            for name in ("parameters", "response")
            if name in function
        ]
        for pointer, schema in self.options("responseSchema"):
            schemas.append((pointer, "generation_config.response_schema", schema))
        waiting, schemas = schemas[::-1], []
        while waiting:
            schemas.append(waiting.pop())
            waiting += reversed(list(_subschemas(*schemas[-1])))
        return schemas

    @cached_property
    def token_counts(self) -> dict[str, int]:
        """About how many tokens the prompt has, by modality."""
        system = (self.fields.get("systemInstruction") or {}).get("parts") or []
        counts = {"TEXT": 0}
        for _, _, function in self.declarations:
            counts["TEXT"] += count_tokens(text(function, "description") + text(function, "name"))
        for fields in [*system, *(part.fields for part in self.parts)]:
            blob = fields.get("inlineData") or fields.get("fileData")
            if blob:
                modality, count = _MEDIA_TOKENS.get(text(blob, "mimeType").partition("/")[0], ("TEXT", 64))
            elif "text" in fields:
                modality, count = "TEXT", count_tokens(fields["text"])
            else:
                values = [value for value in fields.values() if isinstance(value, dict)]
                modality, count = "TEXT", sum(count_tokens(json.dumps(value, ensure_ascii=False)) for value in values)
            counts[modality] = counts.get(modality, 0) + count
        return counts

    def violation(
        self, pointer: str, fields: Fields | None = None, *, message: int = 0, certain: bool = True
    ) -> Violation:
        """Return a violation at a pointer of the normalized body, with the pointer as the request writes it."""
        written = self._written(pointer)
        numbers = {} if written == pointer else dict(zip("ij", re.findall(r"/(\d+)(?=/|$)", pointer), strict=False))
        return Violation(written, {**numbers, **(fields or {})}, message, certain)

    def _written(self, pointer: str) -> str:
        if self.normal_form.is_plain and self.fields is self.normal_form.fields:
            return pointer
        steps = pointer.split("/")[1:]
        if self.fields is not self.normal_form.fields:
            steps.insert(0, "generateContentRequest")
        value: Any = self.body
        written = ""
        for step in steps:
            if isinstance(value, list):
                value = value[int(step)]
            elif isinstance(value, dict) and (step in value or not step.isdigit()):
                key = step.replace("~1", "/").replace("~0", "~")
                key = snake_case(key) if key not in value and snake_case(key) in value else key
                value = value.get(key)
                written += f"/{escape(key)}"
                continue
            elif step.isdigit() and value is not None:
                continue  # one value in place of a list
            written += f"/{step}"
        return written

    @cached_property
    def calls(self) -> Sequence[CallInBody]:
        calls = []
        for part in [part for run in self.runs for part in run.calls]:
            call = part.object("functionCall")
            id = text(call, "id")
            pointer = self._written(f"{part.pointer}/functionCall{'/id' if id else ''}")
            calls.append(CallInBody(pointer, id, text(call, "name"), call.get("args")))
        return calls

    def sent_tokens(self) -> Sequence[str]:
        return [part.signature for part in self.parts if part.signature]

    def results(self) -> Sequence[tuple[str, str]]:
        parts = [part for run in self.runs for part in run.responses if part.object("functionResponse").get("id")]
        ids = [(f"{part.pointer}/functionResponse/id", part.object("functionResponse")["id"]) for part in parts]
        return [(self._written(pointer), id) for pointer, id in ids]


def count_tokens(value: str) -> int:
    return (len(value) + 3) // 4


def _subschemas(pointer: str, path: str, schema: Fields) -> Iterator[tuple[str, str, Fields]]:
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{pointer}/{name}", f"{path}.{snake_case(name)}", schema[name]
    for n, inner in enumerate(schema.get("anyOf") or ()):
        yield f"{pointer}/anyOf/{n}", f"{path}.any_of[{n}]", inner
    for name in ("properties", "defs"):
        for key, inner in (schema.get(name) or {}).items():
            yield f"{pointer}/{name}/{escape(key)}", f"{path}.{name}[{key}]", inner


@gemini("GEM-SHAPE", "Every value has the JSON type of its field.",
    UnverifiedText("{message}"), param="{path}", final=True,
    remedy="Send the types of the API reference; lists and messages cannot replace each other.", as_of="2026-11",
    documented="the types of google-genai; wording of the JSON reader of Google APIs")  # fmt: skip
def wrong_type(request: GeminiBody) -> Sequence[Violation]:
    request.see(request.contents)
    return request.normal_form.wrong


_UNKNOWN_KEY = (
    "Invalid JSON payload received. Unknown name \"{key}\" at '{path}': Cannot find field.",
    'Invalid JSON payload received. Unknown name "{key}": Cannot find field.',
)


def _unknown(kind: str) -> Callable[[GeminiBody], Sequence[Violation]]:
    """Return the check of a rule that is broken by unknown keys of a kind."""

    def check(request: GeminiBody) -> Sequence[Violation]:
        request.see(request.schemas if kind == "schema" else request.contents)
        return request.normal_form.unknown.get(kind, [])

    return check


gemini("GEM-PART-04", "Every key is known to the host in its place; camelCase and snake_case are both known.",
    *_UNKNOWN_KEY, param="{path}", remedy="Send only keys that the host knows.", as_of="2026-02",
    source="zed#44875; LibreChat#11761")(_unknown(""))  # fmt: skip

gemini("GEM-PARAM-09", "The Gemini API refuses keys of Vertex AI, such as `streamFunctionCallArguments` or `labels`.",
    *_UNKNOWN_KEY, applies=lambda request: not request.vertex, param="{path}", remedy="Send the key to Vertex AI only.",
    as_of="2026-11", documented="google-genai")(_unknown("cloud"))  # fmt: skip

gemini("GEM-SIG-04", "The signature of a call is in its part, not inside `functionCall`.",
    UnverifiedText(_UNKNOWN_KEY[0]), param="{path}", remedy="Put `thoughtSignature` next to `functionCall`.",
    as_of="2026-01", source="snow-cli#104; google-genai")(_unknown("signature"))  # fmt: skip


@gemini("GEM-PARAM-11", "The model exists and generateContent serves it.",
    "models/{model} is not found for API version v1beta, or is not supported for {method}. Call ListModels to see the "
    "list of available models and their supported methods.",
    "Publisher Model `projects/simulated/locations/us-central1/publishers/google/models/{model}` not found.",
    only=("google", "vertex"), status=404, type="NOT_FOUND", remedy="Request a model that is listed.", as_of="2026",
    recorded="two recorded refusals")  # fmt: skip
def unknown_model(request: GeminiBody) -> Iterator[Violation]:
    model = request.model.rpartition("models/")[2]
    if not model or "/" in model:  # a tuned model
        return
    request.see(model)
    if not request.traits.known or request.traits.other_api:
        method = request.context.method or "generateContent"
        yield Violation("/model", {"model": model, "method": method}, message=int(request.vertex))


gemini("GEM-PARAM-01", "The temperature is between 0 and 2.",
    "Unable to submit request because it has a temperature value of {value} but the supported range is from 0 "
    "(inclusive) to 2.0001 (exclusive). Update the value and try again.",
    each=lambda request: request.options("temperature"), when=lambda item: not 0 <= item[1] < 2.0001,
    fields=lambda item: {"value": f"{item[1]:g}"}, remedy="Use a value from 0 to 2; from Gemini 3 on, leave it at 1.",
    as_of="2026", recorded="a recorded refusal")  # fmt: skip

gemini("GEM-PARAM-13", "The output limit is at least 1.",
    "Unable to submit request because it has a maxOutputTokens value of {value} but the supported range is from 1 "
    "(inclusive) to {end} (exclusive). Update the value and try again.",
    each=lambda request: [(*item, request.traits.max_output or 65_536) for item in request.options("maxOutputTokens")],
    when=lambda item: item[1] < 1, fields=lambda item: {"value": item[1], "end": item[2] + 1},
    certain=lambda item: item[1] < 0, remedy="Leave `maxOutputTokens` out, or send a positive number.", as_of="2025-01",
    source="bolt.diy#955")  # fmt: skip

gemini("GEM-PARAM-02", "Models before Gemini 3 have no thinking level.",
    UnverifiedText("Thinking level is not supported for this model."),
    applies=lambda request: bool(request.traits.thinking) and "level" not in request.traits.thinking,
    at="/generationConfig/thinkingConfig/thinkingLevel", when=lambda request: request.level,
    certain=lambda request: request.traits.functions_alone and not request.level.endswith("UNSPECIFIED"),
    remedy="Set a thinking budget instead.", as_of="2026-02", source="kilocode#5139; neurolink#1707")  # fmt: skip

gemini("GEM-PARAM-03", "A request sets a thinking level or a thinking budget, not both.",
    UnverifiedText("You can only set only one of thinking budget and thinking level."),
    applies=lambda request: "level" in request.traits.thinking, at="/generationConfig/thinkingConfig",
    when=lambda request: request.see(request.level) and "thinkingBudget" in request.thinking,
    certain=lambda request: not request.level.endswith("UNSPECIFIED"),
    remedy="Set a level from Gemini 3 on, a budget before.", as_of="2026",
    documented="provider documentation; a recorded budget alone on 3.5 Flash")  # fmt: skip


@gemini("GEM-PARAM-04", "The thinking budget is in the range of the model; 0 only if the model can stop thinking.",
    "Budget 0 is invalid. This model only works in thinking mode.",
    "Unable to submit request because The model does not support setting thinking_budget to 0",
    UnverifiedText("The thinking budget {value} is invalid. Please choose a value between {low} and {high}."),
    applies=lambda request: request.traits.budget is not None, remedy="Use a value in the range, or -1.",
    as_of="2026-07", source="vercel/ai#8027; pi#3460; EnviousWispr#1769")  # fmt: skip
def budget_out_of_range(request: GeminiBody) -> Iterator[Violation]:
    value = request.thinking.get("thinkingBudget")
    low, high = request.traits.budget or (0, 0)
    if value is None or not request.see([value]) or value == -1 or low <= value <= high:
        return
    if value or "always" in request.traits.thinking:
        message = 2 if value else int(request.vertex)
        fields = {"value": value, "low": low, "high": high}
        yield request.violation("/generationConfig/thinkingConfig/thinkingBudget", fields, message=message)


gemini("GEM-PARAM-05", "The thinking level is one of the model's; many models have no MINIMAL.",
    UnverifiedText("Thinking level {level} is not supported for this model."),
    applies=lambda request: "level" in request.traits.thinking and request.traits.efforts is not None,
    at="/generationConfig/thinkingConfig/thinkingLevel",
    when=lambda request: request.see(request.level) and not request.level.endswith("UNSPECIFIED")
    and request.level.lower() not in request.traits.efforts,
    fields=lambda request: {"level": request.level}, certain=lambda request: request.level == "MINIMAL",
    remedy="Use the next higher level.", as_of="2026", documented="provider documentation; llmberjack#14")  # fmt: skip


@gemini("GEM-PARAM-06", "Functions can be forced or listed only if some are declared.",
    UnverifiedText("Function calling config is set without function_declarations."), certain=False,
    remedy="Without functions, leave `toolConfig` out.", as_of="2026",
    source="wording from memory; recorded acceptances of AUTO, and one of a request without functions")  # fmt: skip
def forced_without_functions(request: GeminiBody) -> Iterator[Violation]:
    config = request.tool_config.get("functionCallingConfig")
    if config is None or not request.see([config]) or request.declarations:
        return
    if str(config.get("mode", "")).upper() == "ANY" or config.get("allowedFunctionNames"):
        yield request.violation("/toolConfig")


@gemini("GEM-PARAM-07",
    "Functions and server tools in one request need `includeServerSideToolInvocations`; before Gemini 3 they exclude "
    "each other.",
    "Tool use with function calling is unsupported",
    "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.",
    remedy="Set the flag from Gemini 3 on, or send two requests.", as_of="2026-04",
    source="symfony/ai#803; go-genai#323; Open-WebUI-Functions#159; celeste-python#197; three recorded acceptances "
    "with the flag, two of Google Search on Vertex AI without it")  # fmt: skip
def functions_with_server_tools(request: GeminiBody) -> Iterator[Violation]:
    if not request.server_tools or not request.declarations:
        return
    request.see(request.server_tools)
    if request.traits.functions_alone:
        yield request.violation("/tools")
    elif request.vertex:
        if any(name != "googleSearch" for name in request.server_tools):
            yield request.violation("/tools", certain=False)
    elif not request.tool_config.get("includeServerSideToolInvocations"):
        yield request.violation("/tools", message=1)


gemini("GEM-PARAM-08", "Before Gemini 3, JSON output by media type and functions exclude each other.",
    "Function calling with a response mime type: 'application/json' is unsupported",
    applies=lambda request: request.traits.functions_alone,
    each=lambda request: request.options("responseMimeType") if request.see(request.declarations) else (),
    when=lambda item: item[1] == "application/json", remedy="Request the JSON in a second request.", as_of="2026-03",
    source="symfony/ai#803; symfony/ai#1777")  # fmt: skip

gemini("GEM-SCHEMA-01", "`parameters` and `responseSchema` accept only the keywords of Google's schema.",
    _UNKNOWN_KEY[0], param="{path}",
    remedy="Use `parametersJsonSchema` or `responseJsonSchema`, which accept all keywords, or remove the keyword.",
    as_of="2026-06", source="zed#44875; zed#59938; openswarm#24; smart-composer#455")(_unknown("schema"))  # fmt: skip


@gemini("GEM-SCHEMA-02", "A schema has one type, and an array has `items`.",
    "Invalid JSON payload received. Unknown name \"type\" at '{path}': Proto field is not repeating, cannot start "
    "list.",
    "* GenerateContentRequest.{path}.items: missing field.",
    remedy="Use `nullable`, add `items`, or use `parametersJsonSchema`.", as_of="2026-04",
    source="zed#53919; cline#7339")  # fmt: skip
def several_types_or_no_items(request: GeminiBody) -> Iterator[Violation]:
    yield from request.normal_form.unknown.get("list", ())
    for pointer, path, schema in request.see(request.schemas):
        if str(schema.get("type", "")).upper() in ("ARRAY", "5") and "items" not in schema:
            yield request.violation(pointer, {"path": path}, message=1)


gemini("GEM-SCHEMA-03", "A function name has at most 64 letters, digits and `_.:-`, and starts with a letter or `_`.",
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores "
    "(_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", param="{path}.name",
    each=lambda request: request.declarations, at="/name",
    when=lambda item: not _FUNCTION_NAME.fullmatch(item[2].get("name", "")), fields=lambda item: {"path": item[1]},
    remedy="Send another name, and translate it back in the reply.", as_of="2025-11",
    source="ccs#25; gemini-cli#2966; gemini-cli#12425; cline#7339")  # fmt: skip


@gemini("GEM-SCHEMA-04", "A schema is given in Google's form or as JSON Schema, not both.",
    UnverifiedText("Only one of {field} and {field}_json_schema may be set."), remedy="Send one of the two.",
    as_of="2026-11", documented="google-genai")  # fmt: skip
def schema_in_both_forms(request: GeminiBody) -> Iterator[Violation]:
    for pointer, _, function in request.see(request.declarations):
        for name in ("parameters", "response"):
            if name in function and f"{name}JsonSchema" in function:
                yield request.violation(pointer, {"field": name})
    if "responseSchema" in request.config and not {"responseJsonSchema", "_responseJsonSchema"}.isdisjoint(
        request.config
    ):
        yield request.violation("/generationConfig", {"field": "response"})


gemini("GEM-PARAM-12", "The key is valid; an invalid one is a 400 here, not a 401.",
    "API key not valid. Please pass a valid API key.", code="API_KEY_INVALID",
    unchecked="the simulator accepts every key; the audit cannot check one",
    remedy="Recognize it by the reason in the details.", as_of="2026-03",
    source="openai-scala-client#109; oh-my-pi#449")  # fmt: skip

gemini("GEM-RESP-01", "A blocked prompt is answered with status 200, a reason, and no candidates.",
    '{"promptFeedback":{"blockReason":"MODEL_ARMOR","blockReasonMessage":".."},"usageMetadata":{..}}', status=200,
    unchecked="no request shows what a filter blocks; a scripted `refuse` is answered in this form",
    remedy="Read the reason, and treat it as a refusal, not as an empty answer.", as_of="2026",
    recorded="a recorded block")  # fmt: skip

gemini("GEM-INT-01", "The Interactions API without storage needs every step back, in order, with its signature.",
    UnverifiedText("Invalid input steps."), unchecked="the Interactions API is not supported",
    remedy="Send every step back, in order.", as_of="2026-11", documented="provider documentation")  # fmt: skip
