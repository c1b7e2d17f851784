"""Responses: the view of a request body, and the rules for its shape, parameters and tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.rules.body import CallInBody, Fields, RequestBody, Violation, escape, objects, text
from tenuto.rules.book import UnverifiedText, section
from tenuto.rules.issued_tokens import CompactedMessages, StoredReply
from tenuto.rules.schemas import NOT_CLOSED, NOT_REQUIRED, open_objects
from tenuto.rules.shapes import (
    OPENAI_MISSING,
    OPENAI_WRONG_TYPE,
    openai_path,
    openai_violation,
    quote_names,
    shapes,
    wrong_values,
)

OPENAI_HOSTS = ("openai", "azure")
LOCAL_HOSTS = ("ollama", "lmstudio", "vllm", "llamacpp")
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""Calls that the client answers, with the type of their output."""
IMAGE_TOKENS = 700
"""The tokens of an image or a file, roughly."""
_MEDIA = ("input_image", "input_file")

responses = section("openai-responses", type="invalid_request_error")
openai = section("openai-responses", type="invalid_request_error", only=OPENAI_HOSTS)


class Item(msgspec.Struct, frozen=True, gc=False):
    """An item of the input. A text field is empty if the item has none or a value of another type."""

    index: int
    fields: Fields
    kind: str
    """The type; `message` for an item without a type that has a role."""
    role: str
    """The role of a message; empty for other items."""
    id: str
    call_id: str
    blob: str
    """The encrypted content."""

    @property
    def pointer(self) -> str:
        return f"/input/{self.index}"


class ToolInBody(msgspec.Struct, frozen=True):
    """A tool definition of `tools` or of an `additional_tools` item."""

    pointer: str
    k: int
    """The index in its list; for a tool in a namespace the index of the namespace."""
    fields: Fields
    namespace: str
    name: str


class ResponsesBody(RequestBody):
    dialect = "openai-responses"
    conversation = "input"

    @cached_property
    def all_items(self) -> tuple[Item, ...]:
        items = self.body.get("input")
        indexed = enumerate(items if isinstance(items, list) else ())
        return tuple([_item(index, fields) for index, fields in indexed if isinstance(fields, dict)])

    @cached_property
    def _by_kind(self) -> dict[str, list[Item]]:
        grouped: dict[str, list[Item]] = {}
        for item in self.all_items:
            grouped.setdefault(item.kind, []).append(item)
        return grouped

    def items(self, *kinds: str) -> Sequence[Item]:
        """Return the items of the input; those of some types if `kinds` are given."""
        if not kinds:
            return self.see(self.all_items)
        if len(kinds) == 1:
            return self.see(self._by_kind.get(kinds[0], ()))
        return self.see(sorted((i for kind in kinds for i in self._by_kind.get(kind, ())), key=lambda item: item.index))

    def item_after(self, item: Item) -> Item | None:
        return self.all_items[item.index + 1] if item.index + 1 < len(self.all_items) else None

    @cached_property
    def tools(self) -> tuple[ToolInBody, ...]:
        """The tools of the request and of `additional_tools` items, those in a namespace after their namespace."""
        items = self._by_kind.get("additional_tools", ())
        lists = [("/tools", self.body.get("tools"))]
        lists += [(f"{item.pointer}/tools", item.fields.get("tools")) for item in items]
        return tuple(tool for pointer, value in lists for tool in _tools(pointer, value))

    def client_tools(self) -> Sequence[ToolInBody]:
        client_types = ("function", "custom")
        return self.see([tool for tool in self.tools if tool.fields.get("type") in client_types and tool.name])

    @property
    def reasoning(self) -> Fields:
        value = self.setting("reasoning")
        return value if isinstance(value, dict) else {}

    @property
    def effort(self) -> str:
        """The effort of the request, else the default of the model."""
        return text(self.reasoning, "effort") or self.traits.effort_default

    def includes(self, name: str) -> bool:
        value = self.setting("include")
        return isinstance(value, list) and name in value

    @property
    def continues_stored(self) -> bool:
        """Whether the request continues a stored response or conversation."""
        return any(self.body.get(name) for name in ("previous_response_id", "conversation"))

    @property
    def has_stored_history(self) -> bool:
        return self.continues_stored or "item_reference" in self._by_kind

    def find_stored(self, id: str) -> StoredReply | None:
        """Find a stored reply by its id or the id of an item. Nothing of a request with `store: false` is stored."""
        find = self.context.stored
        reply = find(id) if find is not None and id.isascii() else None
        return reply if reply is not None and reply.request.get("store") is not False else None

    @cached_property
    def previous(self) -> StoredReply | None:
        """The stored reply with the id `previous_response_id`."""
        id = text(self.body, "previous_response_id")
        reply = self.find_stored(id) if id else None
        return reply if reply is not None and reply.response.get("id") == id else None

    @cached_property
    def chain(self) -> tuple[Fields, ...]:
        """The items of the stored replies that the request continues, oldest first."""
        links: list[Fields] = []
        reply = self.previous
        while reply is not None:
            links = [*input_items(reply.request), *_objects(reply.response.get("output")), *links]
            id = text(reply.request, "previous_response_id")
            reply = self.find_stored(id) if id else None
        return tuple(links)

    def resolve_reference(self, item: Fields) -> Fields:
        """Return the stored item that an `item_reference` names; the item itself if it is not one or not stored."""
        id = text(item, "id")
        reply = self.find_stored(id) if item.get("type") == "item_reference" and id else None
        output = _objects(reply.response.get("output")) if reply is not None else []
        return next((stored for stored in output if stored.get("id") == id), item)

    @property
    def history(self) -> list[Fields]:
        """The items of the stored replies and of the input."""
        return [*self.chain, *input_items(self.body)]

    def compacted_messages(self, item: Fields) -> CompactedMessages | None:
        """Return what a compaction item stands for, as far as it is known."""
        issued = self.tokens.find(text(item, "encrypted_content")) if item.get("type") == "compaction" else None
        return issued.compacted if issued is not None else None

    @cached_property
    def prompt_tokens(self) -> int:
        """An estimate of the tokens of the input, with a quarter of a token per character.

        Before the last compaction, only messages of the user count.
        """
        items = self.history
        start = max((index for index, item in enumerate(items) if item.get("type") == "compaction"), default=0)
        fields = [item for item in items[:start] if item.get("role") == "user"] + items[start:]
        texts = [text(self.body, "instructions"), *(part for item in fields for part in item_texts(item))]
        texts += [compacted.summary for item in fields if (compacted := self.compacted_messages(item))]
        contents = [item.get("content") or item.get("output") for item in fields]
        media = sum(part.get("type") in _MEDIA for content in contents for part in _objects(content))
        tools = jsonio.encode(self.body["tools"]).decode() if self.body.get("tools") else ""
        return sum(len(part) // 4 + 1 for part in [*texts, tools] if part) + media * IMAGE_TOKENS + 6

    @cached_property
    def calls(self) -> Sequence[CallInBody]:
        calls = []
        for item in self.all_items:
            if item.call_id and item.kind.endswith("_call"):
                args = item.fields.get("arguments" if item.kind == "function_call" else "input")
                calls.append(CallInBody(f"{item.pointer}/call_id", item.call_id, text(item.fields, "name"), args))
        return calls

    def accepts_call_id(self, id: str) -> bool:
        return len(id) <= (self.context.row.responses.call_id_max or len(id))

    def sent_tokens(self) -> Sequence[str]:
        return [item.blob for item in self.all_items if item.blob]

    def results(self) -> Sequence[tuple[str, str]]:
        outputs = [item for item in self.all_items if item.call_id and item.kind.endswith("_output")]
        return [(f"{item.pointer}/call_id", item.call_id) for item in outputs]


def _item(index: int, fields: Fields) -> Item:
    kind, role = fields.get("type"), text(fields, "role")
    if not isinstance(kind, str):
        kind = "message" if kind is None and role else ""
    return Item(
        index=index, fields=fields, kind=kind, role=role if kind == "message" else "", id=text(fields, "id"),
        call_id=text(fields, "call_id"), blob=text(fields, "encrypted_content"),
    )  # fmt: skip


def _tools(pointer: str, value: Any) -> Iterator[ToolInBody]:
    for place, tool in objects(value, pointer):
        k = int(place.rpartition("/")[2])
        yield ToolInBody(place, k, tool, "", text(tool, "name"))
        if tool.get("type") == "namespace":
            for inner_place, inner in objects(tool.get("tools"), f"{place}/tools"):
                yield ToolInBody(inner_place, k, inner, text(tool, "name"), text(inner, "name"))


def _objects(value: Any) -> list[Fields]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def input_items(body: Fields) -> list[Fields]:
    """Return the items of an input; a string is one user message."""
    value = body.get("input")
    return [{"type": "message", "role": "user", "content": value}] if isinstance(value, str) else _objects(value)


def content_text(content: Any) -> str:
    """Return the text of a message's content or of a call's output."""
    if isinstance(content, str):
        return content
    return "".join(text(part, "text") or text(part, "refusal") for part in _objects(content))


def item_texts(item: Fields) -> list[str]:
    """Return the texts of an item that the model reads."""
    kind = text(item, "type") or "message"
    if kind == "message":
        return [content_text(item.get("content"))]
    if kind.endswith("_call"):
        return [text(item, "name"), text(item, "arguments") or text(item, "input")]
    return [content_text(item.get("output"))]


_ITEM_TYPES = frozenset((
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "item_reference", "file_search_call", "computer_call", "computer_call_output", "web_search_call",
    "tool_search_call", "tool_search_output", "additional_tools", "configuration_update", "compaction",
    "compaction_trigger", "image_generation_call", "code_interpreter_call", "local_shell_call",
    "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
    "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "program", "program_output",
))  # fmt: skip
_PART_TYPES = ("input_text", "input_image", "input_file", "input_audio", "output_text", "refusal")
_ROLES = ("assistant", "system", "developer", "user")
_SHAPES = shapes({
    "Request": (
        "input:s|Item* instructions previous_response_id include:a* tools:Tool* text:o reasoning:o temperature:n top_p:n "
        "max_output_tokens:i context_management:Edit* prompt_cache_options:o"
    ),
    "Item=message": "type id call_id name",
    "Item.message": "role! content!:Part*|s id",
    "Item.function_call": "call_id! name! arguments!:a id",
    "Item.custom_tool_call": "call_id! name! input!:a id",
    "Item.function_call_output Item.custom_tool_call_output": "call_id! output!:a id",
    "Item.item_reference": "id!",
    "Item.additional_tools": "tools:Tool* id",
    "Part Tool": "type!",
    "Edit": "",
    "Tool.function Tool.custom": "name!",
    "Tool.namespace": "name! tools:Tool*",
})  # fmt: skip


@responses("OAR-SHAPE", "The body has the JSON types and required fields of a Responses request.",
    OPENAI_MISSING,
    OPENAI_WRONG_TYPE,
    UnverifiedText("Invalid '{field}': integer below minimum value. Expected a value >= 1, but got {value} instead."),
    UnverifiedText("Invalid value: '{value}'. Supported values are: {allowed}."), param="{field}", code="{code}",
    final=True, remedy="Write the body as the API reference describes it.", as_of="2026-11",
    documented="OpenAI API reference; wording of the types seen in traffic")  # fmt: skip
def wrong_shape(request: ResponsesBody) -> Iterator[Violation]:
    request.see(list(request.body))
    yield from map(openai_violation, wrong_values(request.body, "Request", _SHAPES))
    limit = request.setting("max_output_tokens")
    if isinstance(limit, int) and limit < 1:
        fields = {"field": "max_output_tokens", "value": limit, "code": "integer_below_min_value"}
        yield Violation("/max_output_tokens", fields, 2)
    for item in request.items("message"):
        if item.role not in _ROLES and isinstance(item.fields.get("role"), str):
            fields = {"value": item.role, "allowed": quote_names(_ROLES), "code": "invalid_value"}
            yield Violation(f"{item.pointer}/role", {**fields, "field": f"input[{item.index}].role"}, 3)


@openai("OAR-ITEM-11", "Items and the parts of messages have types that the API knows.",
    UnverifiedText("Invalid value: '{value}'. Supported values are: {allowed}."), final=True, param="{param}",
    code="invalid_value", remedy="Use the item and part types of this API; text is `input_text` or `output_text`.",
    as_of="2026-11", documented="OpenAI API reference")  # fmt: skip
def unknown_type(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items():
        if item.kind not in _ITEM_TYPES:
            fields = {"value": item.kind, "allowed": quote_names(sorted(_ITEM_TYPES)), "param": f"input[{item.index}]"}
            yield Violation(f"{item.pointer}/type", fields)
        elif item.kind == "message":
            for pointer, part in objects(item.fields.get("content"), f"{item.pointer}/content"):
                if part.get("type") not in _PART_TYPES:
                    allowed, param = quote_names(_PART_TYPES), openai_path(pointer)
                    yield Violation(f"{pointer}/type", {"value": part.get("type"), "allowed": allowed, "param": param})


_PARAMETERS = frozenset((
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens",
    "max_tool_calls", "reasoning", "text", "include", "store", "previous_response_id", "conversation", "background",
    "stream", "stream_options", "truncation", "temperature", "top_p", "top_logprobs", "metadata", "client_metadata",
    "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "prompt", "context_management", "moderation", "access_programs", "image", "user",
))  # fmt: skip
"""The fields of the API reference, and `client_metadata`, which Codex sends."""
_COMPACT_PARAMETERS = frozenset((
    "model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "service_tier", "image",
))  # fmt: skip
"""The fields of `/responses/compact`."""
_NOT_A_RESPONSE = ("chatcmpl-", "cmpl-", "gen-", "msg_", "rs_", "fc_", "ctc_", "call_", "conv_", "toolu_", "srvtoolu_")
"""Prefixes of ids of other providers, or of items."""
_LOGPROBS = "message.output_text.logprobs"

responses("OAR-PARAM-08", "The model name fits the provider's naming pattern. This endpoint answers with 400, not 404.",
    "The requested model '{model}' does not exist.", only=("openai",), param="model", code="model_not_found",
    at="/model",
    when=lambda request: request.is_well_named is False and request.context.platform in request.context.row.base_url,
    remedy="Use a model of the provider's list.", as_of="2026",
    recorded="C/openai-responses/openai/pydantic-ai__model_name_suggestions.inferred_model_name_suggestion")  # fmt: skip

responses("OAR-PARAM-13",
    "The model name fits the provider's naming pattern, but the catalog can only guess what the model accepts.",
    severity="warned", only=("openai",), at="/model",
    when=lambda request: request.is_well_named and (not request.traits.known or request.traits.confidence == "low"),
    remedy="Check the name against the provider's list of models.", as_of="2026-11",
    inferred="decision: an unknown name that fits is played by the simulator")  # fmt: skip

openai("OAR-PARAM-10", "Every field of the body is one of this endpoint, not of Chat Completions.",
    UnverifiedText("Unknown parameter: '{name}'."), param="{name}", code="unknown_parameter",
    each=lambda request: [
        (f"/{escape(name)}", name) for name in request.see([*request.body])
        if name not in (_COMPACT_PARAMETERS if request.context.method == "compact" else _PARAMETERS)
    ],
    fields=lambda item: {"name": item[1]}, remedy="Write the request in this dialect.", as_of="2026",
    source="jcode#1028 (same code); openai-python 3.51 ResponseCreateParams; codex-rs/core/src/client.rs")  # fmt: skip

_MOST = {"temperature": 2, "top_p": 1}
_LIMIT_CODES = ("decimal_below_min_value", "decimal_above_max_value")
responses("OAR-PARAM-03", "`temperature` is between 0 and 2, `top_p` between 0 and 1.",
    "Invalid '{name}': decimal below minimum value. Expected a value >= 0, but got {value} instead.",
    UnverifiedText("Invalid '{name}': decimal above maximum value. Expected a value <= {most}, but got {value} "
    "instead."), refused_by=OPENAI_HOSTS, param="{name}", code="{code}", each=lambda request: request.settings(*_MOST),
    when=lambda item: not 0 <= item[1] <= _MOST[item[0][1:]],
    fields=lambda item: {"name": item[0][1:], "value": number(item[1]),
    "most": _MOST[item[0][1:]], "code": _LIMIT_CODES[item[1] > 0]},
    message=lambda item: item[1] > 0, remedy="Keep the value in its range.", as_of="2026",
    recorded="C/openai-responses/openai/pydantic-ai__openai_responses.openai_responses_model_http_error")  # fmt: skip


def number(value: float) -> str:
    """Write a number as JSON, without a fraction if it is whole."""
    return f"{value:g}" if isinstance(value, float) else str(value)


openai("OAR-PARAM-12", "`max_output_tokens` is at least 16.",
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {value} instead.",
    param="max_output_tokens", code="integer_below_min_value",
    each=lambda request: request.settings("max_output_tokens"),
    when=lambda item: isinstance(item[1], int) and item[1] < 16, fields=lambda item: {"value": item[1]},
    remedy="Send 16 or more, or leave the limit out.", as_of="2026-07",
    source="pi#6265; hindsight#58; inspect_evals#694")  # fmt: skip

_CACHE_WORDS = {"mode": ("implicit", "explicit"), "ttl": ("30m", "12h")}


@openai("OAR-CACHE-01", "Only GPT-5.6 and later accept `prompt_cache_options` and `prompt_cache_breakpoint`.",
    "prompt_cache_breakpoint is not supported on this model",
    UnverifiedText("prompt_cache_options is not supported on this model"), param="{param}", code="invalid_parameter",
    applies=lambda request: request.traits.known and not request.traits.cache_breakpoints,
    remedy="Leave them out: the model caches by itself; `prompt_cache_key` routes equal prompts to one cache.",
    as_of="2026-09", source="kilocode#13052; LLMRequests.jl changelog (400 from gpt-5.4-mini); openai-python 3.51")  # fmt: skip
def cache_options_of_earlier_model(request: ResponsesBody) -> Iterator[Violation]:
    certain = request.traits.confidence != "low"
    if request.setting("prompt_cache_options") is not None:
        yield Violation("/prompt_cache_options", {"param": "prompt_cache_options"}, 1, certain)
    for item in request.items():
        for name in ("content", "output"):
            for pointer, part in objects(item.fields.get(name), f"{item.pointer}/{name}"):
                if part.get("prompt_cache_breakpoint") is not None:
                    place = f"{pointer}/prompt_cache_breakpoint"
                    yield Violation(place, {"param": openai_path(place)}, certain=certain)


openai("OAR-CACHE-02", "The mode of the prompt cache is `implicit` or `explicit`, the lifetime `30m` or `12h`.",
    UnverifiedText("Invalid value: '{value}'. Supported values are: {allowed}."), code="invalid_value",
    param="prompt_cache_options.{name}",
    each=lambda request: [
        (f"/prompt_cache_options/{name}", name, options[name])
        for options in [request.setting("prompt_cache_options") or {}] for name in _CACHE_WORDS if name in options
    ],
    when=lambda item: item[2] not in _CACHE_WORDS[item[1]],
    fields=lambda item: {"name": item[1], "value": item[2], "allowed": quote_names(_CACHE_WORDS[item[1]])},
    remedy="Use one of these values; the lifetime is a minimum.", as_of="2026-11",
    documented="openai-python 3.51 ResponseCreateParams")  # fmt: skip


def _reasons(request: ResponsesBody) -> bool:
    return request.traits.thinking != ("none",)


responses("OAR-PARAM-02", "The reasoning effort is one that the model has.",
    "Unsupported value: '{effort}' is not supported with the '{model}' model. Supported values are: {allowed}.",
    applies=lambda request: bool(request.traits.efforts) and _reasons(request), refused_by=OPENAI_HOSTS,
    param="reasoning.effort", code="unsupported_value", at="/reasoning/effort",
    when=lambda request: text(request.reasoning, "effort") not in ("", *request.traits.efforts),
    fields=lambda request: {"effort": request.reasoning["effort"], "allowed": quote_names(request.traits.efforts)},
    certain=lambda request: request.traits.confidence != "low",
    remedy="Use an effort of the model; see `tenuto models`.", as_of="2026-09",
    recorded="C/openai-responses/openai/mirascope-ts__input.text-encoded-thoughts.openai_responses; protocols "
    "B.1")  # fmt: skip


def _rejects_sampling(request: ResponsesBody) -> bool:
    traits = request.traits
    if traits.sampling != "only_without_reasoning":
        return traits.sampling == "rejected"
    return request.effort != "none" and not (not request.effort and traits.thinking_default == "no")


@openai("OAR-PARAM-01",
    "Models that reason accept no sampling parameters and no log probabilities, unless the effort is `none`.",
    "Unsupported parameter: '{name}' is not supported with this model.",
    applies=lambda request: request.traits.sampling in ("rejected", "only_without_reasoning"), param="{name}",
    remedy="Leave them out, or set the effort to `none` (GPT-5.1 and later).", as_of="2026",
    source="C/openai-responses/openai/vercel-ai__reasoning-model-temperature-error (recorded:false); "
    "incidentfox#111")  # fmt: skip
def sampling_of_reasoning_model(request: ResponsesBody) -> Iterator[Violation]:
    rejected = _rejects_sampling(request)
    for name in ("temperature", "top_p", "top_logprobs"):
        if request.setting(name) is not None and rejected:
            yield Violation(f"/{name}", {"name": name})
    if request.includes(_LOGPROBS) and rejected:
        yield Violation("/include", {"name": "include"})


@openai("OAR-REAS-12", "Models that do not reason accept no reasoning options.",
    "Encrypted content is not supported with this model.",
    UnverifiedText("Unsupported parameter: '{name}' is not supported with this model."), param="{name}",
    code="unsupported_parameter", remedy="Set reasoning options only for models that reason.", as_of="2026-08",
    source="cairn#127; second text from memory")  # fmt: skip
def reasoning_not_supported(request: ResponsesBody) -> Iterator[Violation]:
    reasons = _reasons(request)
    if request.includes("reasoning.encrypted_content") and not reasons:
        yield Violation("/include", {"name": "include"})
    for key in ("effort", "summary"):
        if request.reasoning.get(key) is not None and not reasons:
            yield Violation(f"/reasoning/{key}", {"name": f"reasoning.{key}"}, message=1)


@openai("OAR-PARAM-04", "JSON mode needs the word JSON in a message.",
    UnverifiedText("Response input messages must contain the word 'json' in some form to use 'text.format' of type "
    "'json_object'."), param="input", remedy="Use a `json_schema` format, or ask for JSON in a message.", as_of="2026",
    source="protocols B.1; text from memory")  # fmt: skip
def json_mode_without_the_word(request: ResponsesBody) -> Iterator[Violation]:
    if _text_format(request).get("type") != "json_object":
        return
    unknown = request.continues_stored and (request.context.stored is None or request.body.get("conversation"))
    if unknown or request.body.get("prompt"):
        return
    items = request.history
    if not any("json" in content_text(item.get("content")).lower() for item in items):
        # Whether names and tool results count is not known.
        elsewhere = any("json" in part.lower() for item in items for part in item_texts(item))
        yield Violation("/text/format", certain=not elsewhere)


def _text_format(request: ResponsesBody) -> Fields:
    options = request.setting("text")
    value = options.get("format") if isinstance(options, dict) else None
    return value if isinstance(value, dict) else {}


openai("OAR-PARAM-05", "A request continues a previous response or a conversation, not both.",
    UnverifiedText("Mutually exclusive parameters: 'previous_response_id' and 'conversation'."),
    param="previous_response_id", code="mutually_exclusive_parameters", at="/previous_response_id",
    when=lambda request: len(request.settings("previous_response_id", "conversation")) == 2,
    certain=lambda request: request.body["previous_response_id"] and request.body["conversation"],
    remedy="Send one of them.", as_of="2026-11", documented="protocols B.1")  # fmt: skip


@responses("OAR-PARAM-06", "The previous response is stored.",
    "Previous response with id '{id}' not found.", only=(*OPENAI_HOSTS, "xai"), param="previous_response_id",
    code="previous_response_not_found", remedy="Send the whole conversation.", as_of="2026-03",
    source="bifrost#2441; protocols B.4.1; P27")  # fmt: skip
def previous_response_unknown(request: ResponsesBody) -> Iterator[Violation]:
    id = request.setting("previous_response_id")
    if id is None:
        return
    if request.context.stored is not None:
        unknown = request.previous is None
    else:
        foreign = request.context.foreign
        unknown = not id or id.startswith(_NOT_A_RESPONSE) or (bool(foreign) and all(foreign))
    if unknown:
        yield Violation("/previous_response_id", {"id": id}, certain=bool(id))


responses("OAR-PARAM-07", "Organizations with zero data retention cannot continue a stored response.",
    "Previous response cannot be used for this organization due to Zero Data Retention.", param="previous_response_id",
    unchecked="a request does not show whether its organization has zero data retention",
    remedy="Send `store: false` and the whole conversation.", as_of="2026-06",
    source="oh-my-pi#2341; vscode#317158")  # fmt: skip

openai("OAR-PARAM-11", "Instructions are not carried over from the previous response.", severity="lost",
    at="/instructions",
    when=lambda request: request.previous and request.previous.request.get("instructions")
    and not request.setting("instructions"),
    remedy="Send the instructions with every request.", as_of="2026-11", documented="protocols B.1")  # fmt: skip

_TOOL_NAME = re.compile("[a-zA-Z0-9_-]+")

openai("OAR-TOOL-06", "A request has at most 128 tools.",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {n} "
    "instead.", param="tools", code="array_above_max_length", at="/tools",
    when=lambda request: len(request.list("tools")) > 128, fields=lambda request: {"n": len(request.list("tools"))},
    remedy="Send fewer tools, or use tool_search.", as_of="2025-11",
    source="Tools4AI#16; opencode#4909; claude-code-router#686")  # fmt: skip

openai("OAR-TOOL-04", "Tool names have letters, digits, `_` and `-`, and at most 64 characters.",
    UnverifiedText("Invalid '{param}': string does not match pattern. Expected a string that matches the pattern "
    "'^[a-zA-Z0-9_-]+$'."),
    UnverifiedText("Invalid '{param}': string too long. Expected a string with maximum length 64, but got a string "
    "with length {n} instead."), param="{param}", code="invalid_value", each=lambda request: request.client_tools(),
    at="/name", when=lambda tool: len(tool.name) > 64 or not _TOOL_NAME.fullmatch(tool.name),
    fields=lambda tool: {"param": openai_path(f"{tool.pointer}/name"), "n": len(tool.name)},
    message=lambda tool: _TOOL_NAME.fullmatch(tool.name) is not None, remedy="Map tool names to valid ones and back.",
    as_of="2026-11", documented="protocols F")  # fmt: skip

openai("OAR-TOOL-03", "A tool with `defer_loading` needs the tool_search tool.",
    "Deferred tools require tools.tool_search", certain=False, param="tools",
    each=lambda request: () if any(tool.fields.get("type") == "tool_search" for tool in request.tools)
    else request.tools,
    at="/defer_loading", when=lambda tool: tool.fields.get("defer_loading") is True, remedy="Add the tool_search tool.",
    as_of="2026-08", source="protocols B.2")  # fmt: skip


@openai("OAR-TOOL-05", "Every object of a strict schema forbids other properties and requires its own.",
    f"Invalid schema for function '{{name}}': {NOT_CLOSED}",
    f"Invalid schema for function '{{name}}': {NOT_REQUIRED}", param="{param}", code="invalid_function_parameters",
    remedy="Rewrite the schema, or send `strict: false`.", as_of="2026-08",
    source="openai-agents#1023; opencode#13737; laravel/ai#506")  # fmt: skip
def open_schema_of_strict_tool(request: ResponsesBody) -> Iterator[Violation]:
    for tool in request.client_tools():
        if tool.fields.get("type") == "function" and tool.fields.get("strict") is True:
            pointer = f"{tool.pointer}/parameters"
            yield from _open_schema(pointer, tool.name, tool.fields.get("parameters"))


@openai("OAR-PARAM-14", "Every object of a strict response format forbids other properties and requires its own.",
    f"Invalid schema for response_format '{{name}}': {NOT_CLOSED}",
    f"Invalid schema for response_format '{{name}}': {NOT_REQUIRED}", param="text.format.schema",
    code="invalid_json_schema", remedy="Rewrite the schema, or send `strict: false`.", as_of="2026-08",
    source="adk-python#4039; xsai#202 (both Chat Completions)")  # fmt: skip
def open_schema_of_strict_format(request: ResponsesBody) -> Iterator[Violation]:
    options = _text_format(request)
    if options.get("type") == "json_schema" and options.get("strict") is True:
        yield from _open_schema("/text/format/schema", text(options, "name"), options.get("schema"))


def _open_schema(pointer: str, name: str, schema: Any) -> Iterator[Violation]:
    """Yield the first object of a schema that strict mode refuses."""
    for _, path, missing in islice(open_objects(schema, ""), 1):
        fields = {"name": name, "path": path, "key": missing, "param": openai_path(pointer)}
        yield Violation(pointer, fields, message=1 if missing else 0)
