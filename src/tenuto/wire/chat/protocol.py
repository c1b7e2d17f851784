"""Structs and tables of the Chat Completions format.

The structs fit nearly all frames of a stream and forbid unknown fields. A frame that does not fit is read field by
field, so no field is lost.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenuto.core.messages import StopReason
from tenuto.wire.usage import MODALITY_FIELDS, UsageTable, count_paths


class FunctionPiece(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """More of a call's arguments, and nothing else."""

    arguments: str
    name: Literal[""] | UnsetType | None = UNSET


class CallPiece(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    index: int
    function: FunctionPiece
    id: Literal[""] | UnsetType | None = UNSET
    type: Literal["function", ""] | UnsetType | None = UNSET


class ChunkDelta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: str | list[Raw] | UnsetType | None = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    reasoning: str | UnsetType | None = UNSET
    reasoning_details: list[Raw] | UnsetType = UNSET
    tool_calls: list[CallPiece] | UnsetType = UNSET
    role: Literal["assistant"] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A choice without a finish reason."""

    index: int
    delta: ChunkDelta
    logprobs: UnsetType | None = UNSET
    finish_reason: UnsetType | None = UNSET
    native_finish_reason: UnsetType | None = UNSET


class Chunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A frame in the middle of a stream: one choice, no usage, no error."""

    id: str
    choices: tuple[ChunkChoice]
    model: str = ""
    object: Literal["chat.completion.chunk"] | UnsetType = UNSET
    created: int | None = None
    system_fingerprint: str | UnsetType | None = UNSET
    service_tier: str | UnsetType | None = UNSET
    provider: str | UnsetType | None = UNSET
    usage: UnsetType | None = UNSET
    obfuscation: str | UnsetType = UNSET
    p: str | UnsetType = UNSET


decode_chunk = msgspec.json.Decoder(Chunk).decode


PADDING = ("obfuscation", "p")
"""Fields of a frame that are padding against traffic analysis. They are dropped."""

_FINISH_REASONS: dict[StopReason, str] = {
    "stop": "stop eos end_turn stop_sequence COMPLETE STOP_SEQUENCE",
    "length": "length max_tokens model_length MAX_TOKENS",
    "tool_calls": "tool_calls tool_use function_call TOOL_CALL",
    "content_filter": "content_filter sensitive refusal",
    "error": "error insufficient_system_resource network_error ERROR TIMEOUT",
}
STOP_REASONS = {word: reason for reason, words in _FINISH_REASONS.items() for word in words.split()}
"""The stop reason of each finish reason. An unknown one counts as `stop`; the message keeps the provider's word."""

RESPONSE_ONLY: dict[str, str] = {
    "annotations": "requests have no such field; the text block has the citations",
    "executed_tools": "providers report the server tools they ran, and do not accept them back",
    "images": "providers do not accept generated images back",
    "index": "the position of a call in the list, not a part of the call",
    "audio.data": "audio is sent back by its id",
    "audio.transcript": "audio is sent back by its id",
    "audio.expires_at": "audio is sent back by its id",
    "reasoning (next to reasoning_details)": "a readable copy of the details",
}
"""Fields of a message that are stored but not sent back, each with the reason.

A field that belongs to no block is sent back only if the provider row lists it (`ChatSwitches.replayed_fields`).
"""

USAGE_TABLE = UsageTable(
    counts=count_paths(
        input="prompt_tokens",
        cache_read="input.cached_tokens prompt_cache_hit_tokens num_cached_tokens cached_tokens",
        cache_write="input.cache_write_tokens input.cache_creation_tokens",
        audio_input="input.audio_tokens audio_prompt_tokens",
        output="completion_tokens",
        reasoning="output.reasoning_tokens reasoning_tokens",
        audio_output="output.audio_tokens",
        total="total_tokens",
    ),
    input_details=("prompt_tokens_details", "prompt_token_details", "input_tokens_details"),
    output_details=("completion_tokens_details", "completion_token_details", "output_tokens_details"),
    modalities=MODALITY_FIELDS,
)
