"""The simulator on one's own machine, which plays the others."""

from __future__ import annotations

from tenuto.core.target import Provider

__all__ = ["ROWS"]

ROWS = (
    Provider(
        "sim",
        "openai-chat",
        "{sim}/v1",
        auth="none",
        fill={"sim": ("TENUTO_SIM_URL",)},
        base_urls={"gemini": "{sim}/v1beta"},
        plays=(
            *("anthropic", "openai", "gemini", "chat", "deepseek", "moonshot", "mistral", "xai", "groq", "zai"),
            *("alibaba", "minimax", "openrouter", "perplexity", "cohere", "meta", "azure", "vertex", "together"),
            *("fireworks", "cerebras", "sambanova", "nvidia", "huggingface", "ollama", "lmstudio", "vllm", "llamacpp"),
        ),
        hosts_others=True,
        source="inf",
        as_of="2026-11-15",
        notes="Its models are styles: sim/anthropic, sim/anthropic/claude-opus-4-6; chat is a plain server of the chat "
        "dialect. A style has the dialect, the switches and the embeddings of its row, a model the traits of its "
        "vendor's. It is found at the base_url that was passed, then at TENUTO_SIM_URL; where neither is set, the "
        "client starts one in its own process, with TENUTO_SIM_SEED, TENUTO_SIM_PACE and TENUTO_SIM_SCRIPT (a file).",
    ),
)
