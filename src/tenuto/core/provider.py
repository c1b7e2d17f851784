"""Whom a request goes to: a provider's row, a model's traits, and what becomes of a request on its way. Types, no data."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core.loss import Loss

__all__ = [
    "AnthropicSwitches",
    "ChatSwitches",
    "Dialect",
    "EmbeddingSwitches",
    "GeminiSwitches",
    "ModelInfo",
    "ModelTraits",
    "Passback",
    "Provider",
    "ResponsesSwitches",
    "Target",
    "WireRequest",
]

Dialect: TypeAlias = Literal["anthropic-messages", "openai-responses", "openai-chat", "gemini"]
Passback: TypeAlias = Literal["never", "tool_turns", "always"]
"""Which assistant messages get their reasoning sent back as text: none, those with tool calls, all."""


class ChatSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's chat dialect differs from the common one. Each switch is named for what it does."""

    strip: tuple[str, ...] = ()
    """Body fields that are left out, each with a `Loss` where it was asked for. The first act on the finished body."""
    rename: dict[str, str] = {}
    """Body fields under another name: ours to the provider's. The second act."""
    clamp: dict[str, float | tuple[float, float]] = {}
    """Body fields (by the provider's name) that are forced to a number, or into a pair of bounds. The third act."""
    defaults: dict[str, Any] = {}
    """Body fields that are set where nobody set them. The last act."""
    max_tokens_field: str = "max_tokens"
    """What the limit of tokens is called; a model's own word wins."""
    stream_options: bool = True
    """Usage of a stream must be asked for, with `stream_options.include_usage`."""
    effort_field: Literal["reasoning_effort", "reasoning.effort", ""] = "reasoning_effort"
    """Where the effort stands. Empty: there is no such field; the toggle says what can be said."""
    effort_words: dict[str, str] = {}
    """Efforts that this provider spells differently: ours to its own."""
    thinking_toggle: Literal[
        "thinking.type", "enable_thinking", "reasoning.enabled", "template", "disable_reasoning", ""
    ] = ""
    """How thinking is turned on and off; `template` is `chat_template_kwargs.enable_thinking`."""
    budget_field: Literal["thinking_budget", "thinking.budget_tokens", "reasoning.max_tokens", ""] = ""
    """Where a budget of thinking tokens stands."""
    show_field: Literal["include_reasoning", "reasoning.exclude", ""] = ""
    """How one asks for, or against, readable reasoning."""
    one_thinking_field: bool = False
    """Effort and toggle refuse each other: where both are asked for, only the effort goes out."""
    with_thinking: dict[str, Any] = {}
    """Body fields that go along whenever an effort or thinking is asked for and not turned off."""
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details", "content"] = "reasoning_content"
    """Where reasoning goes back to whose own field is not known; reasoning that came from here keeps its field."""
    passback: Passback = "always"
    """Which messages get their readable reasoning sent back; the model's traits win. Tokens always go back."""
    empty_reasoning: bool = False
    """Where reasoning is wanted back and a message with calls has none, an empty string stands for it."""
    think_tags: bool = False
    """Reasoning may come as `<think>...</think>` at the start of the text."""
    call_id: Literal["free", "nine"] = "free"
    """What a call's id may look like: anything, or exactly nine letters and digits."""
    call_id_max: int = 64
    """How long a call's id may be; longer ones are shortened, the same way on the call and its result."""
    stop_as_list: bool = False
    """Stop sequences are a list even when there is one."""
    stop_max: int = 0
    """How many stop sequences are taken; 0: any number."""
    logprobs_as_number: bool = False
    """`logprobs` is the number that others call `top_logprobs`."""
    required_word: str = "required"
    """The word for "call some tool"."""
    none_drops_tools: bool = False
    """"Call no tool" is not obeyed, so the tools stay out."""
    strict_tools: bool = True
    """Tool definitions may say `strict`."""
    refusals: bool = False
    """An assistant's refusal goes back in a field of its own; otherwise it is text."""
    alternate: bool = False
    """Users and assistants have to take turns: neighbours of one role are joined."""
    one_system: bool = False
    """Only one system message is taken, the first: leading ones are joined."""
    developer_role: bool = False
    """Instructions to a model that thinks have the role `developer`."""
    image_urls: bool = True
    """Pictures may be given by an address on the web."""
    images_in_results: bool = False
    """A tool's answer may hold pictures."""
    audio_as_uri: bool = False
    """Sound goes out as a data URI instead of bare base64."""
    file_parts: bool = True
    """Documents may be given as `file` parts."""
    cache_control: bool = False
    """Parts of the prompt may carry `cache_control`; elsewhere caching is the provider's own affair."""
    null_content: bool = True
    """An assistant's message without text has `content: null`; otherwise it is an empty string."""
    prefix_flag: str = ""
    """The flag on a last assistant message that asks to continue it (`prefix`, `partial`); the model's traits win."""
    name_on_tool_message: bool = False
    """A tool's answer names the tool."""
    names: bool = True
    """Messages may carry the speaker's `name`."""
    output_excludes_reasoning: bool = False
    """`completion_tokens` do not contain the reasoning tokens."""
    json_schema: bool = True
    """`response_format` knows `json_schema`; otherwise `json_object` goes out, and the schema is a `Loss`."""
    replayed_fields: tuple[str, ...] = ("name",)
    """Fields of an assistant's message beside its blocks that are sent back; everything else is kept, not sent."""


class AnthropicSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one host of the Messages dialect differs from the common one.

    Where `raw_predict` is set, the model stands in the path, which ends in `:rawPredict`, and not in the body; the body
    has this word as its `anthropic_version`.
    """

    raw_predict: str = ""


class ResponsesSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's Responses endpoint differs from the common one.

    `store` lets the server keep replies unless the request says otherwise. `calls_last` moves the calls of a turn behind
    its messages. `plain_reasoning` says that reasoning is taken back without a ciphertext, `reasoning_status` that it is
    taken back with its status. `call_id_max` is the longest id that is taken; 0 means any. `strip` names fields of the
    body that the endpoint refuses.
    """

    store: bool = False
    calls_last: bool = False
    plain_reasoning: bool = False
    reasoning_status: bool = False
    call_id_max: int = 64
    strip: tuple[str, ...] = ()


class GeminiSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one Gemini host differs from the common one.

    `vertex` leaves off what only the Gemini API takes (`serviceTier`, `store`, `includeServerSideToolInvocations`).
    `result_body` is the shape of a function's answer: `{"output": ...}` or `{"error": ...}`, or always both `content`
    and `error`. Without `json_schema`, schemas go out in the upper-case OpenAPI dialect.
    """

    vertex: bool = False
    result_body: Literal["output", "content"] = "output"
    json_schema: bool = True


class EmbeddingSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's embeddings differ from the common ones."""

    path: str = "/embeddings"
    """Where texts are embedded, below the row's own address; empty: nowhere. Gemini's dialect has a verb instead."""
    batch: int = 0
    """How many texts a request may hold; 0: nobody says, and a cautious number goes out at a time."""
    tokens: int = 0
    """How many tokens the texts of a request may come to; 0: nobody says."""
    dimensions_field: str = "dimensions"
    """What the number of dimensions is called; empty: it cannot be chosen."""
    task_field: str = ""
    """What the purpose of an embedding is called; empty: there is no such field. Gemini's dialect has its own."""
    packed: Literal["base64", "base64_int8"] = "base64"
    """What an embedding is that comes as a string: floats of four bytes, or whole numbers of one."""
    default_model: str = ""
    """Who embeds where no model is named; empty: nobody does."""
    predict: dict[str, int] = {}
    """Models, by patterns of their names, that Gemini's dialect embeds by `:predict`; how many texts that may hold."""


class Provider(msgspec.Struct, frozen=True, omit_defaults=True):
    """One provider: a row.

    Paths are below `base_url`, or below the entry of `base_urls` for the dialect; words in braces are the user's to
    fill in, or are held by the variables that `fill` names for them. `base_url_env` are variables that hold another
    address, tried in order; `base_url_path` is the path that such an address leaves out, because the vendor's own SDK
    adds it. `key_env` and then `bearer_env` are tried in order; what the latter hold goes out as a bearer token. `auth`
    `none` needs no key, and sends one as a bearer token if there is one. A row with a `hosts_others` model asks its
    vendor's table. `models_path` is where the models are listed, below `base_url`; empty: nowhere. `retired` is the day
    (ISO) on which the service ended. `plays` are the rows whose part this one can play: it is a simulator, its models
    begin with one of them, and its address is the client's to find. `default_model` is whom the command asks if there is
    a key for this row and nobody names a model.
    """

    name: str
    dialect: Dialect
    base_url: str
    auth: Literal["bearer", "x-api-key", "x-goog-api-key", "api-key", "none"] = "bearer"
    key_env: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = ()
    base_url_path: str = ""
    fill: dict[str, tuple[str, ...]] = {}
    headers: dict[str, str] = {}
    aliases: tuple[str, ...] = ()
    bearer_env: tuple[str, ...] = ()
    base_urls: dict[Dialect, str] = {}
    retired: str = ""
    anthropic: AnthropicSwitches = AnthropicSwitches()
    chat: ChatSwitches = ChatSwitches()
    responses: ResponsesSwitches = ResponsesSwitches()
    gemini: GeminiSwitches = GeminiSwitches()
    embeddings: EmbeddingSwitches = EmbeddingSwitches()
    models_path: str = "/models"
    hosts_others: bool = False
    source: str = ""
    as_of: str = ""
    notes: str = ""
    plays: tuple[str, ...] = ()
    default_model: str = ""


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model accepts. The defaults describe a model nobody knows: everything passes untouched.

    `pattern` matches every id of the family. `thinking` lists the modes that are accepted (`adaptive`, `budget`,
    `disabled`, `between_tools`, `effort`, `level`, `toggle`, `always`, `none`); empty means unknown. `efforts` are the
    values it takes, `effort_default` what the server assumes. `budget` bounds a number of thinking tokens (0 may turn
    it off as well), `effort_when_off` is the highest effort that goes with thinking turned off. `refuses` names
    parameters of a request that are refused or without effect, `exclusive` those of which one at most may be given.
    `chat_tools` says what Chat Completions makes of function tools. `prefix_bound` thinking is taken back only behind
    the very messages it was given after. `output_modalities` are the kinds of content that a reply can contain.
    `served` is false for a model that the vendor's own API does not serve (open weights). `retires` is the day (ISO) from which the model is not served.
    """

    known: bool = False
    pattern: str = ""
    family: str = ""
    dialect: Dialect | None = None
    context_window: int | None = None
    max_output: int | None = None
    thinking: tuple[str, ...] = ()
    efforts: tuple[str, ...] | None = None
    effort_default: str = ""
    thinking_default: Literal["no", "yes", "always", ""] = ""
    sampling: Literal["ok", "rejected", "ignored", "only_without_reasoning"] = "ok"
    forced_tool_choice: Literal["ok", "rejected", "not_with_thinking", "ignored"] = "ok"
    prefill: Literal["ok", "rejected", "no_effect", "flag:prefix", "flag:partial"] = "ok"
    system_mid: Literal["native", "ignored", "rejected", "top_only", "unverified"] = "unverified"
    structured_output: Literal["native", "tool", "prompt", "none"] = "native"
    tools: bool = True
    parallel_tools: bool = True
    images_in: bool = True
    audio_in: bool = True
    documents_in: bool = True
    output_modalities: tuple[Literal["text", "image", "audio"], ...] = ("text",)
    served: bool = True
    passback: Passback | None = None
    continuity: str = ""
    interleaved_beta: bool = False
    max_tokens_field: str = ""
    budget: tuple[int, int] | None = None
    effort_when_off: str = ""
    refuses: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    chat_tools: Literal["ok", "effort_none", "rejected"] = "ok"
    prefix_bound: bool = False
    retires: str = ""
    source: str = ""
    as_of: str = ""
    confidence: str = ""
    notes: str = ""


class ModelInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a provider's list says of one model. None, and an empty string, where it says nothing.

    `created` is a day (ISO). `raw` is the whole entry as JSON text: lists differ, and capabilities stand there.
    """

    id: str
    name: str = ""
    created: str = ""
    context_window: int | None = None
    max_output: int | None = None
    raw: str = ""


class Target(msgspec.Struct, frozen=True):
    """A provider's row, a model, what that model accepts, and the dialect in which it is asked.

    `account` is the fingerprint of the key and `platform` the host, once they are known.
    """

    provider: Provider
    model: str
    dialect: Dialect
    traits: ModelTraits = ModelTraits()
    account: str = ""
    platform: str = ""


class WireRequest(msgspec.Struct, frozen=True):
    """A request as bytes. `path` is below the provider's base URL; `headers` hold no key."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    losses: tuple[Loss, ...] = ()
