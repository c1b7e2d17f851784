"""Whom a request goes to: a provider's row, a model's traits, and what becomes of a request on its way. Types, no data."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "ChatSwitches",
    "Dialect",
    "GeminiSwitches",
    "Loss",
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


class Loss(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that could not be carried.

    `rule` names the reason in a word, `place` says where it stood (`messages[3].blocks[1]`, `temperature`), `what` says
    what it was, `remedy` what one can do about it.
    """

    rule: str
    place: str
    what: str
    remedy: str = ""


class ChatSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's chat dialect differs from the common one. Each switch is named for what it does.

    `strip`, `rename`, `clamp` and `defaults` act on the finished body in that order. A clamp is a value that is forced
    or a pair of bounds.
    """

    strip: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    clamp: dict[str, float | tuple[float, float]] = {}
    defaults: dict[str, Any] = {}
    max_tokens_field: str = "max_tokens"
    stream_options: bool = True
    effort_field: Literal["reasoning_effort", "reasoning.effort", ""] = "reasoning_effort"
    thinking_toggle: Literal["thinking.type", "enable_thinking", "reasoning.enabled", "template", ""] = ""
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details", "content"] = "reasoning_content"
    passback: Passback = "never"
    think_tags: bool = False
    call_id: Literal["free", "nine"] = "free"
    call_id_max: int = 40
    stop_as_list: bool = False
    required_word: str = "required"
    strict_tools: bool = True
    developer_role: bool = False
    images_in_results: bool = False
    null_content: bool = True
    prefix_flag: str = ""
    name_on_tool_message: bool = False
    citations_on_text: bool = False
    output_excludes_reasoning: bool = False
    json_schema: bool = True
    replayed_fields: tuple[str, ...] = ("name", "audio", "function_call")


class ResponsesSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's Responses endpoint differs from the common one."""

    store: bool = False
    calls_last: bool = False
    strip: tuple[str, ...] = ()


class GeminiSwitches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one Gemini host differs: Vertex's shapes, the body of a function's answer, the dialect of schemas."""

    vertex: bool = False
    result_body: Literal["output", "content"] = "output"
    json_schema: bool = True


class Provider(msgspec.Struct, frozen=True, omit_defaults=True):
    """One provider: a row. `chat_path` and friends are below `base_url`; `key_env` are tried in order."""

    name: str
    dialect: Dialect
    base_url: str
    auth: Literal["bearer", "x-api-key", "x-goog-api-key", "api-key", "none"] = "bearer"
    key_env: tuple[str, ...] = ()
    base_url_env: str = ""
    headers: dict[str, str] = {}
    aliases: tuple[str, ...] = ()
    chat: ChatSwitches = ChatSwitches()
    responses: ResponsesSwitches = ResponsesSwitches()
    gemini: GeminiSwitches = GeminiSwitches()
    hosts_others: bool = False
    source: str = ""
    as_of: str = ""
    notes: str = ""


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model accepts. The defaults describe a model nobody knows: everything passes untouched.

    `pattern` matches every id of the family. `thinking` lists the modes that are accepted (`adaptive`, `budget`,
    `disabled`, `between_tools`, `effort`, `level`, `toggle`, `always`, `none`); empty means unknown. `efforts` are the
    values it takes, `effort_default` what the server assumes.
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
    passback: Passback | None = None
    continuity: str = ""
    interleaved_beta: bool = False
    max_tokens_field: str = ""
    source: str = ""
    as_of: str = ""
    confidence: str = ""
    notes: str = ""


class Target(msgspec.Struct, frozen=True):
    """A provider's row, a model, what that model accepts, and the dialect in which it is asked."""

    provider: Provider
    model: str
    dialect: Dialect
    traits: ModelTraits = ModelTraits()
    account: str = ""


class WireRequest(msgspec.Struct, frozen=True):
    """A request as bytes. `path` is below the provider's base URL; `headers` hold no key."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    losses: tuple[Loss, ...] = ()
