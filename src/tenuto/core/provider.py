"""Providers, models, targets and encoded requests: types without data."""

from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core.loss import Loss, Placement

Dialect: TypeAlias = Literal["anthropic-messages", "openai-responses", "openai-chat", "gemini"]
Passback: TypeAlias = Literal["never", "tool_turns", "always"]
"""The assistant messages whose reasoning is sent back as text: none, those with tool calls, all."""
ThinkingMode: TypeAlias = Literal[
    "adaptive", "budget", "disabled", "between_tools", "effort", "level", "toggle", "always", "none"
]
EffortName: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "default"]


class ChatSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences of one provider from the common chat dialect.

    The finished body goes through `strip`, `rename`, `clamp` and `defaults`, in this order.
    """

    strip: tuple[str, ...] = ()
    """Body fields to leave out, each with a `Loss` if the caller set it."""
    rename: dict[str, str] = {}
    """Body fields with another name: our name to the provider's."""
    clamp: dict[str, float | tuple[float, float]] = {}
    """Body fields, by the provider's name, that must have one value or a value between two bounds."""
    defaults: dict[str, Any] = {}
    """Body fields to set if the caller did not set them."""
    max_tokens_field: str = "max_tokens"
    """The field for the limit of output tokens; the model's traits win."""
    stream_options: bool = True
    """Whether a stream reports usage only with `stream_options.include_usage`."""
    effort_field: Literal["reasoning_effort", "reasoning.effort", ""] = "reasoning_effort"
    """The field for the reasoning effort. Empty: the provider has none; use `thinking_toggle`."""
    effort_words: dict[str, str] = {}
    """Efforts that the provider names differently: our name to its name."""
    thinking_toggle: Literal[
        "thinking.type", "enable_thinking", "reasoning.enabled", "template", "disable_reasoning", ""
    ] = ""
    """The field that turns thinking on and off; `template` is `chat_template_kwargs.enable_thinking`."""
    budget_field: Literal["thinking_budget", "thinking.budget_tokens", "reasoning.max_tokens", ""] = ""
    """The field for the number of thinking tokens."""
    show_field: Literal["include_reasoning", "reasoning.exclude", ""] = ""
    """The field that includes or excludes readable reasoning."""
    one_thinking_field: bool = False
    """Whether the provider refuses effort and toggle together; then only the effort is sent."""
    with_thinking: dict[str, Any] = {}
    """Body fields to add if an effort or thinking is requested and not turned off."""
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details", "content"] = "reasoning_content"
    """The message field for reasoning whose original field is unknown; otherwise it goes into its original field."""
    passback: Passback = "always"
    """The messages whose readable reasoning is sent back; the model's traits win. Tokens are always sent back."""
    empty_reasoning: bool = False
    """Whether a message with tool calls and without reasoning gets an empty reasoning string."""
    think_tags: bool = False
    """Whether reasoning may arrive as `<think>...</think>` at the start of the text."""
    call_id: Literal["free", "nine"] = "free"
    """The form of a call id: any, or exactly nine letters and digits."""
    call_id_max: int = 64
    """The maximum length of a call id; longer ids are shortened alike on the call and its result."""
    stop_as_list: bool = False
    """Whether one stop sequence is sent as a list, too."""
    stop_max: int = 0
    """The maximum number of stop sequences; 0: no limit."""
    logprobs_as_number: bool = False
    """Whether `logprobs` is the number that other providers call `top_logprobs`."""
    required_word: str = "required"
    """The value of `tool_choice` that forces a tool call."""
    none_drops_tools: bool = False
    """Whether the provider ignores `tool_choice="none"`; then the tools are left out instead."""
    strict_tools: bool = True
    """Whether tool definitions may have `strict`."""
    refusals: bool = False
    """Whether a refusal is sent back in its own field; otherwise as text."""
    alternate: bool = False
    """Whether user and assistant messages must alternate; neighbors of the same role are merged."""
    one_system: bool = False
    """Whether only the first system message is accepted; leading ones are merged."""
    developer_role: bool = False
    """Whether instructions to a reasoning model have the role `developer`."""
    refuses_developer: bool = False
    """Whether the role `developer` is refused for every model."""
    image_urls: bool = True
    """Whether images may be web URLs."""
    images_in_results: bool = False
    """Whether a tool result may contain images."""
    audio_as_uri: bool = False
    """Whether audio is sent as a data URI instead of bare base64."""
    file_parts: bool = True
    """Whether documents may be sent as `file` parts."""
    cache_control: bool = False
    """Whether parts of the prompt may have `cache_control`; other providers cache on their own."""
    null_content: bool = True
    """Whether an assistant message without text has `content: null`; otherwise an empty string."""
    prefix_flag: str = ""
    """The flag on a last assistant message to continue it (`prefix`, `partial`); the model's traits win."""
    name_on_tool_message: bool = False
    """Whether a tool result has the name of the tool."""
    names: bool = True
    """Whether messages may have the `name` of the speaker."""
    output_excludes_reasoning: bool = False
    """Whether `completion_tokens` exclude the reasoning tokens."""
    json_schema: bool = True
    """Whether `response_format` takes `json_schema`; otherwise `json_object` is sent, and the schema is a `Loss`."""
    replayed_fields: tuple[str, ...] = ("name",)
    """Extra fields of an assistant message to send back; other fields are stored, not sent."""


class AnthropicSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences of one host from the common Messages dialect."""

    raw_predict: str = ""
    """The `anthropic_version` for the body if the model is in a path that ends in `:rawPredict`; else empty."""
    compaction: bool = False
    """Whether the host compacts conversations."""
    cache_diagnosis: bool = False
    """Whether the host explains cache misses (`diagnostics`)."""


class ResponsesSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences of one provider from the common Responses dialect."""

    store: bool = False
    """Whether the server stores replies unless the request says otherwise."""
    calls_last: bool = False
    """Whether the calls of a turn are moved after its messages."""
    plain_reasoning: bool = False
    """Whether the provider accepts reasoning without encrypted content."""
    reasoning_status: bool = False
    """Whether the provider accepts reasoning with its status."""
    call_id_max: int = 64
    """The maximum length of a call id; 0: no limit."""
    strip: tuple[str, ...] = ()
    """Body fields that the endpoint refuses."""
    cache_key: bool = False
    """Whether the provider routes requests with the same `prompt_cache_key` to the same cache."""
    cache_options: bool = False
    """Whether the provider accepts `prompt_cache_options` and breakpoints for models with `cache_breakpoints`."""
    compaction: bool = False
    """Whether the host compacts conversations."""


class GeminiSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences of one host from the common Gemini dialect."""

    vertex: bool = False
    """Whether the host refuses fields of the Gemini API: `serviceTier`, `store`, `includeServerSideToolInvocations`."""
    result_body: Literal["output", "content"] = "output"
    """The body of a function result: `{"output": ...}` or `{"error": ...}`; or always both `content` and `error`."""
    json_schema: bool = True
    """Whether schemas are JSON Schema; otherwise the OpenAPI form with upper-case types."""


class EmbeddingSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences of one provider from the common embeddings endpoint."""

    path: str = "/embeddings"
    """The path below the base URL; empty: no embeddings. The Gemini dialect uses a method name instead."""
    batch: int = 0
    """The maximum number of texts in a request; 0: not documented, a cautious number is used."""
    tokens: int = 0
    """The maximum number of tokens in a request; 0: not documented."""
    dimensions_field: str = "dimensions"
    """The field for the number of dimensions; empty: not supported."""
    task_field: str = ""
    """The field for the purpose of an embedding; empty: not supported. The Gemini dialect has its own."""
    packed: Literal["base64", "base64_int8"] = "base64"
    """The numbers in an embedding that arrives as a string: four-byte floats, or one-byte integers."""
    default_model: str = ""
    """The model to use if the caller names none; empty: none."""
    predict: dict[str, int] = {}
    """Models that the Gemini dialect embeds with `:predict`: patterns of names to the maximum number of texts."""


class Provider(msgspec.Struct, frozen=True, omit_defaults=True):
    """A provider row: base URL, authentication and differences from its dialects."""

    name: str
    """The part of a model name before the slash."""
    dialect: Dialect
    """The dialect to use unless the model or the caller names another."""
    base_url: str
    """The URL that paths are appended to. Words in braces are filled in by the user, or from `fill`."""
    auth: Literal["bearer", "x-api-key", "x-goog-api-key", "api-key", "none"] = "bearer"
    """The header for the key. `none`: no key is needed; a key is sent as a bearer token if one is set."""
    key_env: tuple[str, ...] = ()
    """Environment variables for the key, in order."""
    base_url_env: tuple[str, ...] = ()
    """Environment variables for another base URL, in order."""
    base_url_path: str = ""
    """The path to append to a URL from `base_url_env`, because the vendor's SDK appends it, too."""
    fill: dict[str, tuple[str, ...]] = {}
    """Environment variables for the words in braces of `base_url`."""
    headers: dict[str, str] = {}
    """Headers of every request."""
    aliases: tuple[str, ...] = ()
    """Other names of the provider."""
    bearer_env: tuple[str, ...] = ()
    """Environment variables for a bearer token, tried after `key_env`."""
    base_urls: dict[Dialect, str] = {}
    """Base URLs of other dialects."""
    retired: str = ""
    """The day (ISO) on which the service ended."""
    anthropic: AnthropicSwitches = AnthropicSwitches()
    chat: ChatSwitches = ChatSwitches()
    responses: ResponsesSwitches = ResponsesSwitches()
    gemini: GeminiSwitches = GeminiSwitches()
    embeddings: EmbeddingSwitches = EmbeddingSwitches()
    models_path: str = "/models"
    """The path of the list of models, below `base_url`; empty: none."""
    model_names: str = ""
    """A pattern for the model ids of the vendor's API, which refuses others; empty: any name may exist."""
    hosts_others: bool = False
    """Whether the provider serves models of other vendors; their traits come from the vendor's rows."""
    source: str = ""
    """URLs of the documentation."""
    as_of: str = ""
    """The day (ISO) on which the row was last checked."""
    notes: str = ""
    """Remarks for a reader of the row."""
    plays: tuple[str, ...] = ()
    """For a simulator: the providers that it imitates. Model names start with one of them; the client finds the URL."""
    default_model: str = ""
    """The model that the command uses if this provider has a key and the user names no model."""


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The features and limits of a model. The defaults are those of an unknown model: everything is sent unchanged."""

    known: bool = False
    """Whether the catalog has a row for the model."""
    pattern: str = ""
    """The pattern that matches every model id of the family."""
    family: str = ""
    """The readable name of the family."""
    dialect: Dialect | None = None
    """The dialect to use for the model, if it differs from the provider's."""
    context_window: int | None = None
    """The maximum number of tokens of input and output together."""
    max_output: int | None = None
    """The maximum number of output tokens."""
    thinking: tuple[ThinkingMode, ...] = ()
    """The thinking modes; empty: unknown."""
    efforts: tuple[EffortName, ...] | None = None
    """The efforts that the model accepts; None: unknown."""
    effort_default: EffortName | Literal[""] = ""
    """The effort that the server assumes."""
    thinking_default: Literal["no", "yes", "always", ""] = ""
    """Whether the model thinks if the request does not say."""
    sampling: Literal["ok", "rejected", "ignored", "only_without_reasoning"] = "ok"
    """The effect of sampling parameters such as `temperature`."""
    forced_tool_choice: Literal["ok", "rejected", "not_with_thinking", "ignored"] = "ok"
    """The effect of forcing a tool call."""
    prefill: Literal["ok", "rejected", "no_effect", "flag:prefix", "flag:partial"] = "ok"
    """The effect of an assistant message at the end; `flag:` names the field that it needs."""
    system_mid: Literal["native", "ignored", "rejected", "top_only", "unverified"] = "unverified"
    """The effect of a system message after the first user message."""
    structured_output: Literal["native", "tool", "prompt", "none"] = "native"
    """The way to request JSON of a schema."""
    tools: bool = True
    """Whether the model accepts tools."""
    parallel_tools: bool = True
    """Whether the model can call several tools in one turn."""
    images_in: bool = True
    """Whether the model accepts images."""
    audio_in: bool = True
    """Whether the model accepts audio."""
    documents_in: bool = True
    """Whether the model accepts documents."""
    output_modalities: tuple[Literal["text", "image", "audio"], ...] = ("text",)
    """The kinds of content that a reply can contain."""
    served: bool = True
    """Whether the vendor's own API serves the model; false for open weights."""
    passback: Passback | None = None
    """The messages whose readable reasoning is sent back; None: as the provider's row says."""
    continuity: str = ""
    """Whether the model accepts its own earlier turns: `yes`, `no-reasoning`, `reasoning-rejected`, ...; empty: unknown."""
    interleaved_beta: bool = False
    """Whether thinking between tool calls needs a beta header."""
    max_tokens_field: str = ""
    """The field for the limit of output tokens; empty: as the provider's row says."""
    budget: tuple[int, int] | None = None
    """The bounds of the number of thinking tokens; 0 may turn thinking off, too."""
    effort_when_off: EffortName | Literal[""] = ""
    """The highest effort that is accepted with thinking turned off."""
    refuses: tuple[str, ...] = ()
    """Request parameters that the model refuses or ignores."""
    exclusive: tuple[str, ...] = ()
    """Request parameters of which at most one may be set."""
    chat_tools: Literal["ok", "effort_none", "effort_unset", "rejected"] = "ok"
    """The effect of function tools in Chat Completions: accepted, only with the effort none, also without an effort,
    refused."""
    chat_search: bool = False
    """Whether Chat Completions accepts `web_search_options`."""
    system_role: bool = True
    """Whether messages may have the role `system` or `developer`."""
    developer_role: bool = True
    """Whether Chat Completions accepts the role `developer`."""
    user_images_only: bool = False
    """Whether Chat Completions refuses images in messages of other roles; otherwise it may ignore them."""
    streamed_thinking_only: bool = False
    """Whether the model thinks only in streamed replies; a request for another reply is refused."""
    reasoning_required: bool = False
    """Whether a message with tool calls is refused without its reasoning while the model thinks."""
    reasoning_format: str = ""
    """The `format` of the signed reasoning details that a gateway gives for the model; empty: unsigned or unknown."""
    reasoning_context: Literal["current_turn", "all_turns", ""] = ""
    """The turns whose reasoning the model reads unless `reasoning.context` says otherwise; empty: unknown."""
    cache_breakpoints: bool = False
    """Whether content may have a `prompt_cache_breakpoint`, and a request `prompt_cache_options`."""
    phases: bool = False
    """Whether its messages have a `phase`: commentary or final answer."""
    configuration_update: Literal["ok", "rejected"] = "ok"
    """The effect of a `configuration_update` item in the input."""
    prefix_bound: bool = False
    """Whether thinking is accepted only after the exact messages that it followed at first."""
    unreadable_thinking: str = ""
    """A pattern for the ids of other models whose thinking the model drops."""
    omits_thinking: bool = False
    """Whether thinking blocks have no text unless the request asks for a summary."""
    fast_speed: bool = True
    """Whether the model accepts `speed="fast"`."""
    compaction: bool = True
    """Whether the model accepts a request for a summary of the conversation."""
    refused_tools: tuple[str, ...] = ()
    """Types of server tools that the model refuses."""
    signed_calls: Literal["required", "optional", ""] = ""
    """Whether a function call must be sent back with its signature: `required`: a call without it is refused;
    `optional`: it may be left out; empty: no signatures, or unknown."""
    strict_turns: bool = False
    """Whether function results must have the id of their call, and earlier turns all or none of their signatures."""
    functions_alone: bool = False
    """Whether function tools exclude server tools, JSON output and media in their results."""
    other_api: bool = False
    """Whether only another API of the vendor serves the model, such as live sessions or interactions."""
    retires: str = ""
    """The day (ISO) from which the model is no longer served."""
    source: str = ""
    """URLs of the documentation."""
    as_of: str = ""
    """The day (ISO) on which the row was last checked."""
    confidence: Literal["high", "medium", "low", ""] = ""
    """How sure the row is, such as `high` or `low`."""
    notes: str = ""
    """Remarks for a reader of the row."""


class ModelInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model in a provider's list. None or an empty string: the list does not say."""

    id: str
    name: str = ""
    created: str = ""
    """The day (ISO) on which the model was created."""
    context_window: int | None = None
    max_output: int | None = None
    raw: str = ""
    """The whole entry as JSON text, with the fields that only this provider has."""


class Target(msgspec.Struct, frozen=True):
    """The provider, model and dialect of a request."""

    provider: Provider
    model: str
    dialect: Dialect
    traits: ModelTraits = ModelTraits()
    account: str = ""
    """The fingerprint of the key, once it is known."""
    platform: str = ""
    """The host, once it is known."""


class WireRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    """The path below the provider's base URL."""
    headers: dict[str, str]
    """The headers without the key."""
    body: bytes
    losses: tuple[Loss, ...] = ()
    placements: tuple[Placement, ...] = ()
    """One for each block of the transcript, from `write_request(..., trace=True)`."""
