"""Anthropic Messages: the frequent frames as structs, and tables of the protocol's names."""

import msgspec

from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta
from tenuto.core.messages import StopReason
from tenuto.wire.usage import UsageTable, count_paths

DIALECT = "anthropic-messages"
TOKENS = (AnthropicMeta, AnthropicRedactedMeta)


class WireTextDelta(msgspec.Struct, tag="text_delta", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str


class WireThinkingDelta(msgspec.Struct, tag="thinking_delta", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str = msgspec.field(name="thinking")


class WireJsonDelta(msgspec.Struct, tag="input_json_delta", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str = msgspec.field(name="partial_json")


class BlockDelta(msgspec.Struct, tag="content_block_delta", tag_field="type", forbid_unknown_fields=True):
    """A frame with one of the three deltas that make up nearly all of a stream."""

    index: int
    delta: WireTextDelta | WireThinkingDelta | WireJsonDelta


FRAMES: dict[str, frozenset[str]] = {
    "message_start": frozenset({"type", "message"}),
    "content_block_start": frozenset({"type", "index", "content_block"}),
    "content_block_delta": frozenset({"type", "index", "delta"}),
    "content_block_stop": frozenset({"type", "index"}),
    "message_delta": frozenset({"type", "delta", "usage"}),
    "message_stop": frozenset({"type"}),
    "ping": frozenset({"type"}),
}
"""The fields of each frame that the decoder reads."""

STOP_REASONS: dict[str, StopReason] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "pause_turn", "compaction"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")  # block types of calls that the provider runs itself

MARKERS = ("compaction", "fallback", "container_upload", "mcp_tool_listing", "connector_text")

STREAM_ONLY = ("estimated_tokens",)
"""Fields of deltas that count the progress of the stream and are not part of the block."""

SERVER_TOOLS: dict[str, tuple[str, str]] = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
    "memory": ("memory_20250818", "memory"),
    "bash": ("bash_20250124", "bash"),
    "text_editor": ("text_editor_20250728", "str_replace_based_edit_tool"),
    "tool_search": ("tool_search_tool_regex_20251119", "tool_search_tool_regex"),
}
"""The type and name of each server tool, by its kind. A request may set another type."""

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
