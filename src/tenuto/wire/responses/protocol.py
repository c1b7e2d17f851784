"""The Responses wire: the pieces that make up most of a stream, and the tables of what exists.

A reply is a list of items. A message holds parts, which become blocks of their own; every other item is one block.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core.events import ArgumentsDelta, CodeDelta, TextDelta, ThinkingDelta
from tenuto.core.messages import StopReason
from tenuto.wire.usage import MODALITY_FIELDS, UsageTable, count_paths

__all__ = [
    "CLIENT_CALLS",
    "EVENT_FIELDS",
    "HOSTED_CALLS",
    "INCOMPLETE",
    "INPUTS",
    "MARKERS",
    "MAX_INDEX",
    "OUTPUTS",
    "PIECES",
    "PROGRESS",
    "PROGRESS_FIELDS",
    "RESPONSE_ONLY",
    "ArgumentsPiece",
    "CodePiece",
    "InputPiece",
    "McpPiece",
    "Piece",
    "RefusalPiece",
    "SummaryPiece",
    "TextPiece",
    "ThoughtPiece",
    "piece_of",
]


MAX_INDEX = 1 << 31
"""Indices of a response are smaller than this."""


class Piece(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", gc=False):
    """One delta. Its place is `output_index` and the index within the item; `item_id` may change from event to event.

    `obfuscation` is padding against length analysis, and the finished item repeats `logprobs` in full. `tells` is the
    delta of our own events that it gives rise to.
    """

    tells: ClassVar[type[TextDelta | ThinkingDelta | ArgumentsDelta | CodeDelta]]

    output_index: Annotated[int, msgspec.Meta(lt=MAX_INDEX)]
    delta: str
    content_index: int = 0
    summary_index: int = 0
    item_id: Raw = Raw()
    logprobs: Raw = Raw()
    obfuscation: Raw = Raw()
    sequence_number: int = 0


class TextPiece(Piece, tag="response.output_text.delta"):
    """More of what is said."""

    tells = TextDelta


class RefusalPiece(Piece, tag="response.refusal.delta"):
    """More of a refusal."""

    tells = TextDelta


class SummaryPiece(Piece, tag="response.reasoning_summary_text.delta"):
    """More of a summary of reasoning."""

    tells = ThinkingDelta


class ThoughtPiece(Piece, tag="response.reasoning_text.delta"):
    """More of the reasoning itself, where a host shows it."""

    tells = ThinkingDelta


class ArgumentsPiece(Piece, tag="response.function_call_arguments.delta"):
    """More of a function's arguments."""

    tells = ArgumentsDelta


class InputPiece(Piece, tag="response.custom_tool_call_input.delta"):
    """More of a custom tool's free text."""

    tells = ArgumentsDelta


class McpPiece(Piece, tag="response.mcp_call_arguments.delta"):
    """More of the arguments of a call that the provider makes."""

    tells = ArgumentsDelta


class CodePiece(Piece, tag="response.code_interpreter_call_code.delta"):
    """More of the code that the provider runs."""

    tells = CodeDelta


AnyPiece: TypeAlias = (
    TextPiece | RefusalPiece | SummaryPiece | ThoughtPiece | ArgumentsPiece | InputPiece | McpPiece | CodePiece
)
PIECES: dict[str, type[AnyPiece]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        TextPiece,
        RefusalPiece,
        SummaryPiece,
        ThoughtPiece,
        ArgumentsPiece,
        InputPiece,
        McpPiece,
        CodePiece,
    )
}
piece_of = msgspec.json.Decoder(AnyPiece).decode
"""Read an event that is one of the pieces; anything else, and any unknown field, is a `msgspec.DecodeError`."""

PROGRESS = frozenset(
    {
        "keepalive",
        "response.content_part.done",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
        "response.compaction.compacting",
        "response.steer.accepted",
        "response.steer.pending",
        "response.steer.failed",
    }
)
"""Events that say nothing which the finished item does not say: previews, states, and pieces of structured input."""

EVENT_FIELDS = frozenset(
    {
        *("type", "sequence_number", "event_id", "response", "output_index", "item_id", "item", "obfuscation"),
        *("content_index", "part", "annotation_index", "annotation", "delta", "error", "code", "message", "param"),
    }
)
"""The fields of the events that are neither pieces nor progress; any other is told as a `Loss`."""
PROGRESS_FIELDS = EVENT_FIELDS | frozenset(
    {
        *("summary_index", "text", "status", "command", "command_index", "action", "diff", "output", "logprobs"),
        *("partial_image_b64", "partial_image_index", "size", "quality", "background", "output_format", "action_type"),
    }
)
"""What events of progress say in their own way; the finished item says it in full."""

Form: TypeAlias = Literal["text", "json"]
INPUTS: dict[str, tuple[str, Form]] = {
    "function_call": ("arguments", "text"),
    "custom_tool_call": ("input", "text"),
    "computer_call": ("action", "json"),
    "local_shell_call": ("action", "json"),
    "shell_call": ("action", "json"),
    "apply_patch_call": ("operation", "json"),
    "mcp_approval_request": ("arguments", "text"),
    "tool_search_call": ("arguments", "json"),
    "web_search_call": ("action", "json"),
    "file_search_call": ("queries", "json"),
    "code_interpreter_call": ("code", "text"),
    "mcp_call": ("arguments", "text"),
    "program": ("code", "text"),
}
"""Where each kind of call keeps its input, and whether that is a string or any other JSON value."""

OUTPUTS: dict[str, str] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "computer_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "tool_search_output": "tools",
    "mcp_list_tools": "tools",
    "mcp_approval_response": "approve",
    "program_output": "result",
}
"""Items that hold what a tool gave, and the field that holds it."""

CLIENT_CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_approval_request",
        "tool_search_call",
    }
)
"""Calls that the caller answers. A shell or a tool search may also run at the provider: the item says so."""

HOSTED_CALLS = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "program"})
"""Calls that the provider makes by itself; every other type that ends in `_call` is taken for one."""

MARKERS = frozenset({"compaction", "additional_tools", "compaction_trigger", "configuration_update", "item_reference"})
"""Items that are neither said nor called."""

INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "content_filter",
    "steered": "stop",
}
"""Why a reply is incomplete, in our words; any other reason counts as an error."""

RESPONSE_ONLY: dict[str, str] = {
    "reasoning.status": "refused in a request: unknown parameter 'input[].status'",
    "created_by": "no field of any input item",
}
"""Fields of a reply that are not sent back, `type.field` or a field of every item, each with its reason."""

USAGE_TABLE = UsageTable(
    counts=count_paths(
        input="input_tokens",
        cache_read="input.cached_tokens",
        cache_write="input.cache_write_tokens",
        audio_input="input.audio_tokens",
        output="output_tokens",
        reasoning="output.reasoning_tokens",
        audio_output="output.audio_tokens",
        total="total_tokens",
    ),
    input_details=("input_tokens_details",),
    output_details=("output_tokens_details",),
    modalities=MODALITY_FIELDS,
    keeps_parts=True,
)
