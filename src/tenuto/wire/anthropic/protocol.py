"""The wire of Anthropic Messages: the frames of the hot path as structs, and the words as tables."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tenuto.core.events import ArgumentsDelta, TextDelta, ThinkingDelta
from tenuto.core.messages import StopReason
from tenuto.wire.usage import UsageTable, count_paths

__all__ = [
    "CALLS",
    "FRAMES",
    "HOT",
    "MARKERS",
    "RESPONSE_ONLY",
    "SERVER_TOOLS",
    "STOP_REASONS",
    "STREAM_ONLY",
    "JsonPiece",
    "TextPiece",
    "ThinkingPiece",
]


class TextPiece(msgspec.Struct, tag="text_delta", tag_field="type", forbid_unknown_fields=True, gc=False):
    tells: ClassVar = TextDelta
    piece: str = msgspec.field(name="text")


class ThinkingPiece(msgspec.Struct, tag="thinking_delta", tag_field="type", forbid_unknown_fields=True, gc=False):
    tells: ClassVar = ThinkingDelta
    piece: str = msgspec.field(name="thinking")


class JsonPiece(msgspec.Struct, tag="input_json_delta", tag_field="type", forbid_unknown_fields=True, gc=False):
    tells: ClassVar = ArgumentsDelta
    piece: str = msgspec.field(name="partial_json")


class BlockDelta(msgspec.Struct, tag="content_block_delta", tag_field="type", forbid_unknown_fields=True):
    index: int
    delta: TextPiece | ThinkingPiece | JsonPiece


HOT = msgspec.json.Decoder(BlockDelta)
"""Reads the three deltas that make up nearly all of a stream; everything else falls through to the table of frames.

Each knows what it `tells`: the delta of our own events that it gives rise to.
"""

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "pause_turn": "stop",
    "refusal": "content_filter",
    "model_context_window_exceeded": "length",
    "compaction": "stop",
}

FRAMES: dict[str, frozenset[str]] = {
    "message_start": frozenset({"type", "message"}),
    "content_block_start": frozenset({"type", "index", "content_block"}),
    "content_block_delta": frozenset({"type", "index", "delta"}),
    "content_block_stop": frozenset({"type", "index"}),
    "message_stop": frozenset({"type"}),
    "ping": frozenset({"type"}),
}
"""The fields of each frame that are read. Of a `message_delta` all are: they belong to the message."""

CALLS = ("server_tool_use", "mcp_tool_use")
"""Calls that the provider makes by itself."""

MARKERS = ("compaction", "fallback", "container_upload", "mcp_tool_listing", "connector_text")

STREAM_ONLY: dict[str, str] = {"estimated_tokens": "counts a stream's progress; the finished block has no such field"}
"""Fields of deltas that are no part of the block."""

RESPONSE_ONLY: dict[str, str] = {}
"""Fields of a received block that a request refuses. There are none: each block type is accepted as it was sent."""

SERVER_TOOLS: dict[str, tuple[str, str]] = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
    "memory": ("memory_20250818", "memory"),
    "bash": ("bash_20250124", "bash"),
    "text_editor": ("text_editor_20250728", "str_replace_based_edit_tool"),
    "tool_search": ("tool_search_tool_regex_20251119", "tool_search_tool_regex"),
}
"""Our word for a provider's tool, its type and its name here. A request may force another type."""

USAGE_TABLE = UsageTable(
    counts=count_paths(
        input="input_tokens",
        cache_read="cache_read_input_tokens",
        cache_write="cache_creation_input_tokens",
        output="output_tokens",
        reasoning="output.thinking_tokens",
    ),
    input_includes_cache=False,
    output_details=("output_tokens_details",),
    iterations="iterations",
    extra_iterations=("compaction", "advisor_message"),
)
