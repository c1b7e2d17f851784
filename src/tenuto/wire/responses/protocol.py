"""The delta events of Responses, and tables of event and item types. Each part of a message item becomes a block."""

from typing import Annotated

import msgspec
from msgspec import Raw

from tenuto.core.blocks import Block, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import ArgumentsDelta, CodeDelta, TextDelta, ThinkingDelta
from tenuto.core.messages import StopReason
from tenuto.wire.usage import MODALITY_FIELDS, UsageTable, count_paths

MAX_INDEX = 1 << 31  # indices of a response are smaller than this


class DeltaEvent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An event that extends one part of an item. Identified by index: `item_id` varies."""

    type: str
    output_index: Annotated[int, msgspec.Meta(lt=MAX_INDEX)]
    delta: str
    content_index: int = 0
    summary_index: int = 0
    item_id: Raw = Raw()
    logprobs: Raw = Raw()  # unused: the finished item repeats them
    obfuscation: Raw = Raw()  # padding against length analysis
    sequence_number: int = 0


class DeltaTarget(msgspec.Struct, frozen=True):
    """What a type of delta extends."""

    item_type: str  # the item to start if no event announced it
    block: Block  # the block to start if no event announced its part
    event: type[TextDelta | ThinkingDelta | ArgumentsDelta | CodeDelta]  # the delta to emit
    done_field: str = ""
    """The field of the matching `.done` event that repeats the complete text; empty: the event is not read."""


DELTAS = {
    "response.output_text.delta": DeltaTarget("message", Text(""), TextDelta, "text"),
    "response.refusal.delta": DeltaTarget("message", Refusal(""), TextDelta, "refusal"),
    "response.reasoning_summary_text.delta": DeltaTarget("reasoning", Reasoning(), ThinkingDelta),
    "response.reasoning_text.delta": DeltaTarget("reasoning", Reasoning(), ThinkingDelta),
    "response.function_call_arguments.delta": DeltaTarget(
        "function_call", ToolUse("", "", ""), ArgumentsDelta, "arguments"
    ),
    "response.custom_tool_call_input.delta": DeltaTarget(
        "custom_tool_call", ToolUse("", "", "", kind="custom"), ArgumentsDelta, "input"
    ),
    "response.mcp_call_arguments.delta": DeltaTarget(
        "mcp_call", ServerToolUse("", "mcp", kind="mcp_call"), ArgumentsDelta, "arguments"
    ),
    "response.code_interpreter_call_code.delta": DeltaTarget(
        "code_interpreter_call", ServerToolUse("", "code_interpreter", kind="code_interpreter_call"), CodeDelta, "code"
    ),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROGRESS = _names("""
    keepalive response.content_part.done response.reasoning_part.added response.reasoning_part.done
    response.reasoning_summary_part.added response.reasoning_summary_part.done
    response.reasoning_summary_text.done response.reasoning_text.done response.audio.done response.audio.transcript.done
    response.code_interpreter_call.in_progress response.code_interpreter_call.interpreting
    response.code_interpreter_call.completed
    response.file_search_call.in_progress response.file_search_call.searching response.file_search_call.completed
    response.web_search_call.in_progress response.web_search_call.searching response.web_search_call.completed
    response.image_generation_call.in_progress response.image_generation_call.generating
    response.image_generation_call.partial_image response.image_generation_call.completed
    response.mcp_call.in_progress response.mcp_call.completed response.mcp_call.failed
    response.mcp_list_tools.in_progress response.mcp_list_tools.completed response.mcp_list_tools.failed
    response.shell_call_command.added response.shell_call_command.delta response.shell_call_command.done
    response.shell_call_output_content.delta response.shell_call_output_content.done
    response.apply_patch_call_operation_diff.delta response.apply_patch_call_operation_diff.done
    response.compaction.compacting response.steer.accepted response.steer.pending response.steer.failed
""")
"""Events whose content the finished item repeats: previews, states, and deltas of structured input."""

EVENT_FIELDS = _names("""
    type sequence_number event_id response output_index item_id item obfuscation content_index part annotation_index
    annotation delta error code message param
""")
"""The fields of all other events; an unknown field is a `Loss`."""
PROGRESS_FIELDS = EVENT_FIELDS | _names("""
    summary_index text status command command_index action diff output logprobs partial_image_b64 partial_image_index
    size quality background output_format action_type
""")
"""The fields of progress events; an unknown field is a `Loss`."""

CLIENT_CALLS: dict[str, tuple[str, str]] = {
    "function_call": ("arguments", "text"),
    "custom_tool_call": ("input", "text"),
    "computer_call": ("action", "json"),
    "local_shell_call": ("action", "json"),
    "shell_call": ("action", "json"),
    "apply_patch_call": ("operation", "json"),
    "mcp_approval_request": ("arguments", "text"),
    "tool_search_call": ("arguments", "json"),
}
"""Calls that the caller runs: the field with the input, and whether it is a string or another JSON value. A shell or a
tool search may also run at the provider: a field of the item decides.
"""

INPUTS = CLIENT_CALLS | {
    "web_search_call": ("action", "json"),
    "file_search_call": ("queries", "json"),
    "code_interpreter_call": ("code", "text"),
    "mcp_call": ("arguments", "text"),
    "program": ("code", "text"),
}
"""The same for all calls. The provider also runs every other type that ends in `_call`."""

OUTPUTS = {
    "tool_search_output": "tools",
    "mcp_list_tools": "tools",
    "mcp_approval_response": "approve",
    "program_output": "result",
}
"""Items with a tool result in this field. Every other type that ends in `_output` has it in `output`."""

MARKERS = frozenset({"compaction", "additional_tools", "compaction_trigger", "configuration_update", "item_reference"})
"""Items that are neither a message nor a call."""

INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "content_filter",
    "steered": "stop",
}
"""The stop reason for each reason of an incomplete reply; any other is an error."""

RESPONSE_ONLY: dict[str, str] = {
    "reasoning.status": "refused in a request: unknown parameter 'input[].status'",
    "created_by": "not a field of any input item",
}
"""Fields that are not sent back, as `type.field` or a field of every item, each with the reason."""

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
