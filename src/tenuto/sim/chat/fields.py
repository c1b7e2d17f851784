"""Fields that a provider knows, where it refuses others; and models of OpenRouter that lack something."""

from __future__ import annotations

__all__ = ["BLIND", "FIREWORKS", "FIREWORKS_MESSAGE", "MISTRAL", "TOOLLESS", "UNFORCED"]

MISTRAL = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
"""The keys of a message, by its role."""

FIREWORKS = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
    *("max_tokens", "max_completion_tokens", "n", "stop", "stream", "stream_options", "user", "metadata", "seed"),
    *("temperature", "top_p", "top_k", "min_p", "typical_p", "frequency_penalty", "presence_penalty"),
    *("repetition_penalty", "mirostat_lr", "mirostat_target", "logit_bias", "logprobs", "top_logprobs", "echo"),
    *("echo_last", "ignore_eos", "response_format", "reasoning_effort", "reasoning_history", "thinking"),
    *("context_length_exceeded_behavior", "prompt_truncate_len", "prompt_cache_key", "prompt_cache_isolation_key"),
    *("service_tier", "speculation", "prediction", "perf_metrics_in_response", "raw_output", "return_token_ids"),
    *("safe_tokenization", "prompt_cache_max_len", "chat_template_kwargs"),
}
FIREWORKS_MESSAGE = {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "reasoning_content"}

TOOLLESS = r"(?:perplexity|gryphe|sao10k|undi95)/.*|google/gemma-[12].*|meta-llama/llama-guard.*|.*-base(?::\w+)?"
"""Models that no host serves with tools."""
UNFORCED = r"deepseek/deepseek-r1.*|qwen/qwq.*"
"""Models that no host makes call a tool."""
BLIND = r"deepseek/deepseek-(?:chat|r1|v3|v4-pro).*|openai/gpt-3\.5.*|qwen/qwq.*|z-ai/glm-\d(?:\.\d)?(?::\w+)?"
"""Models that no host shows pictures to."""
