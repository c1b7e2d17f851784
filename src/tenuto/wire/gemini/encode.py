"""Encode requests for Gemini's generateContent."""

from typing import Any, TypeGuard

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    Document,
    GeminiMeta,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.jsonio import is_null, raw_object, to_raw
from tenuto.core.loss import Location
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import WireRequest
from tenuto.core.request import AUTO_CACHE, ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.schema.openapi import to_openapi
from tenuto.wire.body_builder import BodyBuilder, TurnList, extra_fields, model_path, set_parameters, with_locations
from tenuto.wire.gemini.parts import DATA, add_extra, write_media, write_part
from tenuto.wire.gemini.protocol import DIALECT, RESPONSE_ONLY, SERVER_TOOLS, SKIP_SIGNATURE
from tenuto.wire.token_scope import issuer_check

Wire = dict[str, Any]
BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
"""Thinking tokens for each effort, for models that take a budget instead of a level."""
LEVELS = ("minimal", "low", "medium", "high")
MIN_BUDGET = 128  # the smallest budget of models that cannot stop thinking
_CONFIG_NAMES = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "n": "candidateCount",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "seed": "seed",
}
"""Field in `generationConfig` of each parameter."""
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_SPEECH_FIELDS = ("voiceConfig", "multiSpeakerVoiceConfig", "languageCode")
_MIXABLE_TOOLS = ("computerUse", "mcpServers")
"""Server tools that every model accepts together with functions, as far as known."""
_UNSUPPORTED = ("logit_bias", "user", "verbosity", "container", "compaction")
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def encode(builder: BodyBuilder) -> WireRequest:
    contents = _ContentsBuilder(builder)
    for index, message in enumerate(builder.request.transcript):
        contents.add(message, Location(index))
    if contents.system:
        part = {"text": "\n\n".join(str(message) for _, message in contents.system)}
        builder.body["systemInstruction"] = {"parts": [part]}
        for location, message in contents.system:
            builder.place_texts(location, message.parts, part, "text")
    builder.body["contents"] = contents.finish()
    write_options(builder)
    verb = "streamGenerateContent?alt=sse" if builder.request.stream else "generateContent"
    return builder.finish(f"{model_path(builder.target.model)}:{verb}")


def verbatim(message: AssistantMessage) -> list[Any]:
    """Write the parts of a received message as they were received; those of a stream as the decoder joined them."""
    return [write_part(block) for block in message.blocks]


class _ContentsBuilder:
    """Builds `contents`. Neighbors of one role share a content; the results of one turn have their own."""

    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder
        self._turns = TurnList(builder, "parts", lambda text: {"text": text})
        self.system: list[tuple[Location, SystemMessage]] = []  # the system messages that are not empty
        self._issued = issuer_check(builder.target)
        self._calls: dict[str, tuple[int, ToolUse]] = {}  # the latest call of each id, with its number
        self._call_count = 0
        self._own_calls: set[int] = set()  # the `id()` of the parts with calls that the target made
        self._results: list[tuple[int, Wire]] = []  # results that are not written yet, each with the number of its call
        self._result_media: list[Wire | Raw] = []  # media of these results that go into a content of their own
        self._result_content: Wire | None = None  # the last content with results

    def add(self, message: Message, location: Location) -> None:
        match message:
            case UserMessage():
                self._flush_results()
                contents = self._builder.accepted_parts(message.parts, location)
                parts = self._builder.write_all(contents, self._write_content)
                self._add_parts("user", parts, location)
                if message.name:
                    self._builder.record_loss("unsupported-parameter", location.field("name"), message.name)
            case ToolResults():
                for place, result in with_locations(message.results, location):
                    self._add_result(result, place)
            case AssistantMessage():
                self._flush_results()
                is_own = message.origin is not None and self._issued(message.origin)
                blocks = with_locations(message.blocks, location)
                parts = self._builder.write_all(blocks, lambda *block: self._write_block(*block, is_own=is_own))
                if is_own:
                    self._own_calls |= {id(part) for part in parts if isinstance(part, dict) and "functionCall" in part}
                if not parts:
                    self._builder.leave_out_if_empty(message, location)
                self._add_parts("model", parts, location)
            case SystemMessage():
                if self._turns.messages or self._results:
                    detail = "instructions in mid-conversation moved to the top"
                    self._builder.record_loss("system-hoisted", location, detail)
                if str(message):
                    self.system.append((location, message))

    def finish(self) -> list[Wire]:
        """Return the contents, with a signature that skips validation on calls that Gemini did not sign."""
        self._flush_results()
        if self._turns.empty_turn is not None:
            self._turns.fill_empty_turn(self._turns.empty_turn)
        traits = self._builder.target.traits
        if "level" in traits.thinking or not traits.known:
            self._skip_signatures(only_foreign="level" not in traits.thinking)
        return self._turns.messages

    def _add_parts(self, role: str, parts: list[Any], location: Location) -> None:
        contents = self._turns.messages
        joins = not contents or contents[-1] is not self._result_content
        self._turns.append(role, parts, location, joins=joins)

    def _skip_signatures(self, *, only_foreign: bool) -> None:
        """Sign the unsigned first call of each content since the last user text; if `only_foreign`, no own ones."""
        contents = self._turns.messages
        start = len(contents)
        while start and not _has_user_text(contents[start - 1]):
            start -= 1
        for content, location in zip(contents[start:], self._turns.locations[start:], strict=True):
            parts = content["parts"]
            call = next((part for part in parts if isinstance(part, dict) and "functionCall" in part), None)
            if call is None or "thoughtSignature" in call or (only_foreign and id(call) in self._own_calls):
                continue
            call["thoughtSignature"] = SKIP_SIGNATURE
            fields = call["functionCall"]
            name = fields.get("name", "") if isinstance(fields, dict) else "unknown"  # a caller's own extra field
            detail = f"the call of {name} has no signature of this model"
            self._builder.record_loss("missing-signature", self._builder.location_of(call, location), detail)

    def _write_content(self, content: Content, place: Location) -> Wire | Raw | None:
        if isinstance(content, Opaque):
            return self._write_opaque(content, place)
        if not isinstance(content, Audio) and content.cache:
            self._builder.record_loss("unsupported-parameter", place.field("cache"), content.cache)
        if isinstance(content, Text):
            return add_extra(content, {"text": content.text}) if content.text else None
        part = self._write_media(content, content.text if isinstance(content, Document) else "", place)
        if part is None:
            return None
        if isinstance(content, Image) and content.detail in _RESOLUTIONS:
            if "level" in self._builder.target.traits.thinking:
                part["mediaResolution"] = {"level": _RESOLUTIONS[content.detail]}
            else:
                self._builder.record_loss("unsupported-parameter", place.field("detail"), content.detail)
        for name in ("title", "context", "citations") if isinstance(content, Document) else ():
            if value := getattr(content, name):
                self._builder.record_loss("unsupported-parameter", place.field(name), repr(value)[:200])
        return add_extra(content, part)

    def _write_opaque(self, block: Opaque, place: Location) -> Raw | None:
        if block.dialect != DIALECT or block.raw.strip() == "{}":
            self._builder.record_loss("unreadable-block", place, "a block of another dialect, or one without data")
            return None
        return to_raw(block.raw)

    def _write_media(self, block: Image | Audio | Document, text: str | None, place: Location) -> Wire | None:
        """Write the data of a part; `text` if there are neither bytes nor a URL; None, with a loss, without any."""
        part: Wire | None = write_media(block)
        if part is None and text:
            return {"text": text}
        if part is None:
            self._builder.record_loss("unsupported-content", place, f"{type(block).__name__.lower()} without data")
        return part

    def _add_result(self, result: ToolResult, place: Location) -> None:
        number, call = self._calls.get(result.tool_use_id, (self._call_count + 1, None))
        response: Wire = {"name": call.name if call is not None else result.tool_use_id}
        if call is not None and not call.id_generated:
            response["id"] = call.id
        content = (Text(result.content),) if isinstance(result.content, str) else result.content
        parts = list(self._builder.accepted_parts(content, place))
        text = "\n".join(part.text for _, part in parts if _is_text(part))
        if self._builder.target.provider.gemini.result_body == "content":
            response["response"] = {"content": text, "error": result.is_error}
        else:
            is_json = text.lstrip()[:1] in ("{", "[") and not jsonio.problem(text)
            response["response"] = {"error" if result.is_error else "output": to_raw(text.strip()) if is_json else text}
        written = (self._write_content(part, part_place) for part_place, part in parts if not _is_text(part))
        media = [part for part in written if part is not None]
        traits = self._builder.target.traits
        if media and traits.known and "level" not in traits.thinking:
            self._builder.record_loss("media-moved", place, "media of a tool result moved to a content of their own")
            self._result_media.extend(media)
        elif media:
            response["parts"] = media
        part = {"functionResponse": {**response, **extra_fields(result.extra)}}
        self._builder.place(place, part)
        self._results.append((number, part))

    def _flush_results(self) -> None:
        """Write the results so far, in the order of their calls."""
        if self._results:
            self._results.sort(key=lambda numbered: numbered[0])
            self._result_content = {"role": "user", "parts": [result for _, result in self._results]}
            self._turns.messages.append(self._result_content)
            self._turns.locations.append(Location())
            self._add_parts("user", self._result_media, Location())
            self._results, self._result_media = [], []

    def _write_block(self, block: Block, place: Location, *, is_own: bool) -> Wire | Raw | None:
        match block:
            case Text():
                if not block.text and not isinstance(block.meta, GeminiMeta):
                    return None
            case Reasoning():
                if not isinstance(block.meta, GeminiMeta) and not (is_own and block.text):
                    self._builder.record_loss("unsigned-reasoning", place, "reasoning without a signature is left out")
                    return None
            case ToolUse():
                return self._write_call(block, place)
            case Opaque():
                return self._write_opaque(block, place)
            case Refusal(text=text):
                return {"text": text} if text else None
            case ServerToolUse(kind=kind) | ServerToolResult(kind=kind) if kind not in ("toolCall", "toolResponse"):
                self._builder.record_loss("unsupported-content", place, f"a server tool of another dialect: {kind}")
                return None
            case Image() | Audio() | Document() if not is_own:
                media = self._write_media(block, block.transcript if isinstance(block, Audio) else "", place)
                return None if media is None else _drop_refused_fields(add_extra(block, media))
        try:
            part = write_part(block)
        except KeyError:
            self._builder.record_loss("unsupported-content", place, f"{type(block).__name__} in an assistant message")
            return None
        # The parts of text and reasoning without extra fields have nothing that a request refuses.
        return part if not block.extra and "text" in part else _drop_refused_fields(part)

    def _write_call(self, block: ToolUse, place: Location) -> Wire:
        self._call_count += 1
        self._calls[block.id] = (self._call_count, block)
        part = _drop_refused_fields(write_part(block))
        call = part["functionCall"]
        if "args" in call and not block.args_missing and raw_object(block.args or "{}") is None:
            self._builder.record_loss("arguments-not-an-object", place, block.args_error or "wrapped for replay")
            is_json = block.kind == "function" and not jsonio.problem(block.args)
            name = "value" if is_json else "input" if block.kind == "custom" else "INVALID_JSON"
            call["args"] = {name: call["args"] if is_json else block.args}
        return part


def _is_text(content: Content) -> TypeGuard[Text | Document]:
    """Whether content is text only. The `parts` of a function response hold only media."""
    return isinstance(content, Text) or (
        isinstance(content, Document) and bool(content.text) and write_media(content) is None
    )


def _has_user_text(content: Wire) -> bool:
    """Whether a content starts a turn: a user's text does, an image alone does not."""
    return content["role"] == "user" and any(isinstance(part, dict) and part.get("text") for part in content["parts"])


def _drop_refused_fields(part: Wire | Raw) -> Wire:
    """Remove the fields that a request refuses: nulls and `RESPONSE_ONLY`. A part without data becomes an empty text."""
    assert isinstance(part, dict)
    part = _drop_from(part, "")
    for name, value in part.items():
        if isinstance(value, dict):
            part[name] = _drop_from(value, f"{name}.")
    return part if not DATA.isdisjoint(part) else {**part, "text": ""}


def _drop_from(fields: Wire, prefix: str) -> Wire:
    return {
        name: value
        for name, value in fields.items()
        if f"{prefix}{name}" not in RESPONSE_ONLY and not (isinstance(value, Raw) and is_null(value))
    }


def write_options(builder: BodyBuilder) -> None:
    """Write all parameters; one that Gemini does not have becomes a `Loss`."""
    request = builder.request
    if request.tools or request.tool_choice is not None:
        _write_tools(builder)
    config = {**_sampling(request), **_output_format(builder), **_speech(builder)}
    if thinking := _thinking(builder):
        config["thinkingConfig"] = thinking
    if config:
        builder.body["generationConfig"] = config
    if builder.target.provider.gemini.vertex:
        builder.record_unsupported("service_tier", "store")
    else:
        builder.set_if_given(serviceTier=request.service_tier, store=request.store)
    builder.record_unsupported(*_UNSUPPORTED, *(["cache_diagnosis"] if request.cache_diagnosis else ()))
    if request.cache is not None and request.cache not in AUTO_CACHE:
        remedy = "name a `cachedContent` in `extra_body`; Gemini caches prefixes by itself"
        builder.record_unsupported("cache", remedy=remedy)
    if request.parallel_tool_calls is False:
        builder.record_unsupported("parallel_tool_calls", remedy="answer the first call and send the request again")


def _sampling(request: ChatRequest) -> Wire:
    config = {_CONFIG_NAMES[name]: value for name, value in set_parameters(request, _CONFIG_NAMES)}
    if isinstance(request.stop, str):
        config["stopSequences"] = [request.stop]
    elif request.stop is not None and not request.stop:
        del config["stopSequences"]
    if request.logprobs is not None or request.top_logprobs:
        config["responseLogprobs"] = request.logprobs is None or request.logprobs
    if request.top_logprobs is not None:
        config["logprobs"] = request.top_logprobs
    if request.modalities:
        config["responseModalities"] = [modality.upper() for modality in request.modalities]
    return config


def _output_format(builder: BodyBuilder) -> Wire:
    output = builder.request.response_format
    if output == "json_object":
        return {"responseMimeType": "application/json"}
    if not isinstance(output, JsonSchema):
        return {}
    schema = output.schema
    if output.description and "description" not in schema:
        schema = {**schema, "description": output.description}
    if builder.target.provider.gemini.json_schema:
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}
    openapi, losses = to_openapi(schema, path="response_format")
    builder.losses.extend(losses)
    return {"responseMimeType": "application/json", "responseSchema": openapi}


def _speech(builder: BodyBuilder) -> Wire:
    audio = builder.request.audio
    if audio is None:
        return {}
    speech: Wire = {name: audio[name] for name in _SPEECH_FIELDS if name in audio}
    if "voice" in audio and "voiceConfig" not in speech:
        speech["voiceConfig"] = {"prebuiltVoiceConfig": {"voiceName": audio["voice"]}}
    for name in audio:
        if name not in _SPEECH_FIELDS and name != "voice":
            builder.record_loss("unsupported-parameter", f"audio.{name}", repr(audio[name])[:200])
    return {"speechConfig": speech} if speech else {}


def _write_tools(builder: BodyBuilder) -> None:
    request, traits = builder.request, builder.target.traits
    functions = [_function(builder, tool) for tool in request.tools if isinstance(tool, ToolDefinition)]
    # Functions and server tools together: from Gemini 3 on, and never on Vertex.
    can_mix = not builder.target.provider.gemini.vertex and (not traits.known or "level" in traits.thinking)
    server_tools: list[Wire] = []
    for tool in request.tools:
        if not isinstance(tool, ServerTool):
            continue
        field = tool.type or SERVER_TOOLS.get(tool.kind)
        if field is None:
            builder.record_loss("unsupported-tool", "tools", tool.kind, "give its exact field as `type`")
            continue
        if functions and not can_mix and field not in _MIXABLE_TOOLS:
            # The functions stay: the transcript may have calls of them.
            detail = f"{field} cannot be combined with functions here"
            builder.record_loss("unsupported-tool", "tools", detail, "use it in a request without functions")
            continue
        server_tools.append({field: [tool.options] if field == "mcpServers" else tool.options})
    if functions or server_tools:
        declarations: list[Wire] = [{"functionDeclarations": functions}] if functions else []
        builder.body["tools"] = [*declarations, *server_tools]
    config: Wire = {}
    choice = request.tool_choice
    if functions and isinstance(choice, NamedTool):
        config["functionCallingConfig"] = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    elif functions and isinstance(choice, str):
        config["functionCallingConfig"] = {"mode": _MODES[choice]}
    elif choice not in (None, "auto", "none"):
        builder.record_loss("unsupported-parameter", "tool_choice", repr(choice), "pass the functions to choose from")
    if functions and can_mix and any("computerUse" not in tool for tool in server_tools):
        config["includeServerSideToolInvocations"] = True
    builder.set_if_given(toolConfig=config or None)


def _function(builder: BodyBuilder, tool: ToolDefinition) -> Wire:
    place = f"tools[{tool.name}]"
    function = builder.tool_fields(tool)
    schema = builder.schema_of(tool)
    if schema is not None and builder.target.provider.gemini.json_schema:
        function["parametersJsonSchema"] = schema
    elif schema is not None:
        openapi, losses = to_openapi(schema, path=f"{place}.parameters")
        builder.losses.extend(losses)
        if openapi.get("type") != "OBJECT" or openapi.get("properties"):  # an object without properties is refused
            function["parameters"] = openapi
    if tool.strict:
        remedy = "choose the mode VALIDATED"
        builder.record_loss("unsupported-parameter", f"{place}.strict", "no schema is enforced", remedy)
    if tool.cache:
        builder.record_loss("unsupported-parameter", f"{place}.cache", tool.cache)
    return {**function, **tool.options}


def _thinking(builder: BodyBuilder) -> Wire:
    effort = builder.request.effort
    if builder.request.thinking is None and effort is None:
        return {}
    thinking = builder.request.thinking or Thinking()
    mode, budget, show = thinking.mode, thinking.budget, thinking.show
    if mode == "off" or (mode is None and budget is None and effort == "none"):
        return _thinking_off(builder)
    if builder.target.traits.thinking == ("none",):
        builder.record_loss("no-such-thinking", "thinking", "this model does not think")
        return {}
    config = _thinking_depth(builder, effort if effort != "none" else None, budget)
    if show is None and budget != 0 and (config or mode is not None):
        show = True
    return config if show is None else {**config, "includeThoughts": show}


def _thinking_depth(builder: BodyBuilder, effort: str | None, budget: int | None) -> Wire:
    """Write a level or a budget, never both. An unknown model counts as a recent one."""
    modes = builder.target.traits.thinking
    if budget is not None and ("budget" in modes or effort is None):
        return {"thinkingBudget": budget}
    if budget is not None:
        builder.record_loss("no-thinking-budget", "thinking.budget", "the effort is sent: both together are refused")
    if effort is None:
        return {}
    if "budget" in modes:
        return {"thinkingBudget": BUDGETS[effort]}
    if modes and "level" not in modes:
        builder.record_loss("no-such-thinking", "effort", f"{effort}: this model takes no level")
        return {}
    if effort not in LEVELS:
        builder.record_loss("effort-mapped", "effort", f"{effort} became high")
        effort = "high"
    return {"thinkingLevel": effort.upper()}


def _thinking_off(builder: BodyBuilder) -> Wire:
    """Turn thinking off, or down to the minimum of the model."""
    traits = builder.target.traits
    modes = traits.thinking
    if not modes or ("budget" in modes and "always" not in modes):
        return {"thinkingBudget": 0}
    if "level" in modes:
        level = next((level for level in LEVELS if traits.efforts is None or level in traits.efforts), "low")
        builder.record_loss("thinking-stays-on", "thinking", f"the minimum of this model is {level}")
        return {"thinkingLevel": level.upper()}
    if "budget" in modes:
        builder.record_loss("thinking-stays-on", "thinking", f"the minimum of this model is a budget of {MIN_BUDGET}")
        return {"thinkingBudget": MIN_BUDGET}
    if traits.thinking_default != "no":
        builder.record_loss("thinking-stays-on", "thinking", "this model cannot think less")
    return {}
