"""The block types of the providers' protocols: none of them may be decoded as opaque."""

from __future__ import annotations

__all__ = ["NAMED"]

_RESULTS = "web_search web_fetch code_execution bash_code_execution text_editor_code_execution tool_search advisor"

NAMED: dict[str, frozenset[str]] = {
    "anthropic-messages": frozenset(
        [
            *["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "container_upload"],
            *["mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "compaction", "fallback"],
            *(f"{name}_tool_result" for name in _RESULTS.split()),
        ]
    ),
    "openai-chat": frozenset(["text", "thinking", "image_url", "input_audio", "refusal", "function", "custom"]),
    "openai-responses": frozenset(
        [
            *["message", "reasoning", "function_call", "custom_tool_call", "compaction", "program", "program_output"],
            *["file_search_call", "web_search_call", "computer_call", "tool_search_call", "tool_search_output"],
            *["image_generation_call", "code_interpreter_call", "local_shell_call", "shell_call", "shell_call_output"],
            *["apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_approval_request", "mcp_call"],
            *["output_text", "refusal", "summary_text", "reasoning_text", "additional_tools"],
        ]
    ),
    "gemini": frozenset(
        [
            "text",
            "inlineData",
            "fileData",
            "functionCall",
            "functionResponse",
            "executableCode",
            "codeExecutionResult",
            "toolCall",
            "toolResponse",
        ]
    ),
}
