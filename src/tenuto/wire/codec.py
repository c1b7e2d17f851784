"""One dialect as a value: everything that the rest of the code knows of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.core.blocks import Block, ProviderMeta
from tenuto.core.jsonio import Fields
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.wire.decoder import Decoder

if TYPE_CHECKING:
    from tenuto.wire.body_builder import BodyBuilder
    from tenuto.wire.embeddings import EmbeddingEndpoint

PAGE_SIZE = "1000"  # models on a page of a model list: the most that providers with pages accept


class CallIdRule(msgspec.Struct, frozen=True):
    pattern: str = ""  # a regular expression for the whole id; empty: any text
    max_length: int = 0  # 0: no limit


class TurnOrder(msgspec.Struct, frozen=True):
    """The order of roles that a target requires."""

    user_first: bool = False  # the conversation begins with a user message
    user_last: bool = False  # the conversation ends with a user message, whatever the model's traits say of a prefill
    alternates: bool = False  # an assistant message separates tool results from the next user message


class ReplayRules(msgspec.Struct, frozen=True):
    """How the messages of a transcript are ordered and named when they are sent."""

    call_ids: Callable[[Target], CallIdRule] = lambda target: CallIdRule()
    turn_order: Callable[[Target], TurnOrder] = lambda target: TurnOrder()
    calls_last: bool = False  # text must not follow a call in the same message


class TokenCounter(msgspec.Struct, frozen=True):
    fields: frozenset[str]  # the fields of the request body that the endpoint accepts
    total: str  # the field of the response with the count
    write: Callable[[WireRequest, Fields, Fields, Target], tuple[str, dict[str, Any]]]
    """Make the path and the body, from the written request, all its fields and those the endpoint accepts."""


class ModelList(msgspec.Struct, frozen=True):
    page_query: Callable[[str], str] = lambda page: ""  # make the query for a page; the first page has no name
    headers: Mapping[str, str] = {}
    may_lack_list: bool = False  # an empty list is left out of the response


class Codec(msgspec.Struct, frozen=True, kw_only=True):
    """A dialect: how to write a request in it, and how to read a reply."""

    name: str
    decoder: type[Decoder]  # reads one reply
    encode: Callable[[BodyBuilder], WireRequest]  # write an adapted request
    verbatim: Callable[[AssistantMessage], list[Any]]
    """Write the blocks of a reply as the dialect has them, without adapting anything."""
    replay_rules: ReplayRules = ReplayRules()
    response_only: Mapping[str, str] = {}  # fields of a reply that are not sent back, with the reason

    # --- which blocks it can hold
    metas: tuple[type[ProviderMeta], ...] = ()  # the token types that this dialect issues
    accepts: Callable[[Block, Target], bool] = lambda block, target: True
    """Whether a block that no provider issued can be written in this dialect."""
    holds_media: bool = False  # an assistant message can contain images, audio and documents
    holds_code: bool = False  # an assistant message can contain code that the provider ran, and its result
    holds_annotations: bool = False  # an assistant message can contain URL citations of other providers, as annotations
    call_needs_id: bool = True
    separate_reasoning_text: bool = False  # reasoning that is sent as text is a part of its own

    # --- what it cannot express
    takes_schemas: Callable[[Target], bool] = lambda target: True
    """Whether a request can contain a JSON Schema for the answer."""
    functions_exclude_format: Callable[[ChatRequest, Target], bool] = lambda request, target: False
    """Whether this request cannot ask for JSON because it declares functions."""
    limits_tools_with_reasoning: bool = False  # `ModelTraits.chat_tools` applies

    # --- compaction
    compacts: Callable[[Target], bool] = lambda target: False
    """Whether the provider compacts a conversation itself (`ChatRequest.compaction`)."""
    compaction_takes_instructions: bool = True
    """Whether it does so with the caller's instructions, without an endpoint of its own for that."""

    # --- prompt cache
    cache_miss_reason: Callable[[ChatResponse], str] = lambda response: ""
    """Read why the provider did not read the prompt from its cache, in its own word; empty without a diagnosis."""

    # --- other endpoints
    count_tokens: TokenCounter | None = None
    list_models: ModelList = ModelList()
    embeddings: Callable[[Target], EmbeddingEndpoint] | None = None
    """Choose the embedding endpoint of a target; None: the dialect has no embeddings."""

    # --- reasoning
    reasoning_format: str = ""
    """The format of this dialect's reasoning in `reasoning_details`; empty: the reply names it."""
    encrypts_reasoning: bool = False
    """Reasoning can be continued only in this dialect, not in the provider's chat dialect."""


_MODULES: dict[str, str] = {
    "anthropic-messages": "tenuto.wire.anthropic",
    "openai-responses": "tenuto.wire.responses",
    "openai-chat": "tenuto.wire.chat",
    "gemini": "tenuto.wire.gemini",
}
_codecs: dict[str, Codec] = {}


def codec_for(dialect: str) -> Codec:
    """Return the codec of a dialect, and import it if this is its first use. Raise `KeyError` for an unknown one."""
    codec = _codecs.get(dialect)
    if codec is None:
        codec = _codecs[dialect] = importlib.import_module(_MODULES[dialect]).CODEC
    return codec


def dialect_names() -> tuple[str, ...]:
    return (*_MODULES, *(name for name in _codecs if name not in _MODULES))


def register(codec: Codec) -> None:
    """Add a dialect, or replace one of the same name."""
    _codecs[codec.name] = codec
