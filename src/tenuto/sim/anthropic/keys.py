"""The keys and types that exist in a Messages request, and the betas that open some of them."""

from __future__ import annotations

__all__ = ["BETA_KEYS", "BLOCK_KEYS", "OPEN_TYPES", "RESULT_TYPES", "TOP_KEYS"]

TOP_KEYS = frozenset(
    [
        "model",
        "messages",
        "max_tokens",
        "system",
        "thinking",
        "output_config",
        "tools",
        "tool_choice",
        "cache_control",
        "metadata",
        "stop_sequences",
        "stream",
        "service_tier",
        "speed",
        "inference_geo",
        "container",
        "diagnostics",
        "temperature",
        "top_p",
        "top_k",
        "anthropic_version",
        "anthropic_beta",
    ]
)
BETA_KEYS: dict[str, tuple[str, ...]] = {
    "compaction": ("compact-",),
    "context_management": ("context-management-", "compact-"),
    "mcp_servers": ("mcp-client-",),
    "fallbacks": ("server-side-fallback-",),
    "fallback_credit_token": ("server-side-fallback-",),
    "thread": ("message-threads-",),
    "output_format": ("structured-outputs-",),
    "thinking.block_binding": ("thinking-binding-controls-",),
    "thinking.display.updates": ("thinking-display-updates-",),
    "output_config.task_budget": ("task-budget",),
}
"""The starts of the betas that open a key; any of them will do."""
_ANY = "type cache_control"
_RESULT = f"{_ANY} tool_use_id content caller"
_KEYS = {
    "text": "text citations",
    "thinking": "thinking signature",
    "redacted_thinking": "data",
    "tool_use": "id name input caller toolset_name",
    "tool_result": "tool_use_id content is_error toolset_name",
    "server_tool_use": "id name input caller",
    "mcp_tool_use": "id name input server_name",
    "mcp_tool_result": "tool_use_id content is_error",
    "image": "source transformations",
    "document": "source title context citations",
    "search_result": "source title content citations",
    "container_upload": "file_id",
    "compaction": "content encrypted_content signature tool_changes",
    "fallback": "from to trigger",
    "tool_addition": "tool tools",
    "tool_removal": "tool tools name",
}
_RESULTS = [
    "web_search",
    "web_fetch",
    "code_execution",
    "bash_code_execution",
    "text_editor_code_execution",
    "tool_search",
    "advisor",
]
BLOCK_KEYS: dict[str, frozenset[str]] = {
    **{type: frozenset(f"{_ANY} {keys}".split()) for type, keys in _KEYS.items()},
    **{f"{name}_tool_result": frozenset(_RESULT.split()) for name in _RESULTS},
}
"""What a block of a type may have. A mark of the cache is looked at by a rule of its own."""
OPEN_TYPES = frozenset(("connector_text", "mcp_tool_listing", "tool_reference", "browser_state"))
"""Types that exist, whose keys are not known."""
RESULT_TYPES = frozenset(("text", "image", "search_result", "document"))
"""What a result may hold, beside those."""
