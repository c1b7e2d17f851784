"""Every provider of the catalog can be imitated, and a model name finds its provider."""

from __future__ import annotations

import pytest

from tenuto.catalog import PROVIDERS
from tenuto.sim.providers import all_providers, exists, find


def test_every_provider_is_imitated_in_its_dialects():
    imitated = {(provider.name, provider.dialect) for provider in all_providers()}

    for name, row in PROVIDERS.items():
        if name == row.name and name != "sim" and not row.retired:
            own = "gemini" if name == "google" else name
            assert {(own, dialect) for dialect in (row.dialect, *row.base_urls)} <= imitated, name


@pytest.mark.parametrize(
    ("requested", "dialect", "provider", "model"),
    [
        ("deepseek", "openai-chat", "deepseek", ""),
        ("deepseek/deepseek-v4-pro", "openai-chat", "deepseek", "deepseek-v4-pro"),
        ("deepseek-v4-pro", "openai-chat", "deepseek", "deepseek-v4-pro"),
        ("deepseek-v4-pro", "anthropic-messages", "deepseek", "deepseek-v4-pro"),
        ("kimi-k3", "openai-chat", "moonshot", "kimi-k3"), ("kimi/kimi-k3", "openai-chat", "moonshot", "kimi-k3"),
        ("mistral-large-latest", "openai-chat", "mistral", "mistral-large-latest"),
        ("codestral-2508", "openai-chat", "mistral", "codestral-2508"),
        ("gpt-6.1-sol", "openai-chat", "openai", "gpt-6.1-sol"), ("o3", "openai-chat", "openai", "o3"),
        ("gpt-oss-20b", "openai-chat", "chat", "gpt-oss-20b"),
        ("openai/gpt-oss-120b", "openai-chat", "groq", "openai/gpt-oss-120b"),
        ("groq/openai/gpt-oss-120b", "openai-chat", "groq", "openai/gpt-oss-120b"),
        ("grok-4.7", "openai-responses", "xai", "grok-4.7"), ("GLM-5.3", "openai-chat", "zai", "GLM-5.3"),
        ("qwen3-max", "openai-chat", "alibaba", "qwen3-max"),
        ("MiniMax-M2.7", "openai-chat", "minimax", "MiniMax-M2.7"),
        ("command-a-03-2025", "openai-chat", "cohere", "command-a-03-2025"),
        ("openrouter/anthropic/claude-opus-4.6", "openai-chat", "openrouter", "anthropic/claude-opus-4.6"),
        ("my-own-model", "openai-chat", "chat", "my-own-model"), ("chat", "openai-chat", "chat", ""),
        ("claude-opus-5-5", "anthropic-messages", "anthropic", "claude-opus-5-5"),
        ("vertex/claude-opus-5-5", "anthropic-messages", "vertex", "claude-opus-5-5"),
        ("azure", "openai-responses", "azure", ""), ("models/gemini-4-argon", "gemini", "gemini", "gemini-4-argon"),
        ("google/gemini-4-argon", "gemini", "gemini", "gemini-4-argon"),
        ("vertex/gemini-4-argon", "gemini", "vertex", "gemini-4-argon"),
    ],
)  # fmt: skip
def test_model_name_finds_its_provider(requested, dialect, provider, model):
    found, rest = find(requested, dialect)

    assert (found.name, found.dialect, rest) == (provider, dialect, model)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "", True),
        ("openai", "gpt-4o-mini-2024-07-18", True),
        ("openai", "gpt-oss-20b", False),
        ("deepseek", "gpt-4o", False),
        ("mistral", "pixtral-12b", True),
        ("chat", "anything/at-all", True),
    ],
)
def test_model_exists_if_it_fits_the_names_of_its_provider(provider, model, expected):
    assert exists(find(provider, "openai-chat")[0], model) is expected
