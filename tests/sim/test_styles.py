"""The styles are the providers' rows, and a model's name finds the right one."""

from __future__ import annotations

import re

import pytest

from tenuto.catalog import PROVIDERS
from tenuto.sim.styles import ALIASES, STYLES, exists, find

OWN = {"chat", "gemini"}
APART = {"openai-chat", "openai-responses", "sim"}
"""Names of a row with its dialect nailed down; and the simulator itself."""


def rows():
    return [row for name, row in PROVIDERS.items() if name not in APART and not row.retired]


def test_every_provider_can_be_played_in_its_own_dialect():
    played = {(style.name, style.dialect) for style in STYLES}

    for row in rows():
        dialects = {row.dialect, *row.base_urls}
        assert {(ALIASES.get(row.name, row.name), dialect) for dialect in dialects} <= played, row.name


def test_every_style_is_a_provider():
    known = {row.name for row in rows()}

    assert {style.name for style in STYLES} - OWN <= known


def test_other_names_are_those_of_the_rows():
    named = {alias: row.name for row in rows() for alias in row.aliases}
    named.pop("gemini")

    assert named == {alias: name for alias, name in ALIASES.items() if alias != "google"}
    assert ALIASES["google"] == "gemini"


def test_names_are_given_once_and_patterns_can_be_read():
    assert len({(style.name, style.dialect) for style in STYLES}) == len(STYLES)
    for style in STYLES:
        re.compile(style.models)


@pytest.mark.parametrize(
    ("named", "dialect", "style", "model"),
    [
        ("deepseek", "openai-chat", "deepseek", ""),
        ("deepseek/deepseek-v4-pro", "openai-chat", "deepseek", "deepseek-v4-pro"),
        ("deepseek-v4-pro", "openai-chat", "deepseek", "deepseek-v4-pro"),
        ("deepseek-v4-pro", "anthropic-messages", "deepseek", "deepseek-v4-pro"),
        ("kimi-k3", "openai-chat", "moonshot", "kimi-k3"),
        ("kimi/kimi-k3", "openai-chat", "moonshot", "kimi-k3"),
        ("mistral-large-latest", "openai-chat", "mistral", "mistral-large-latest"),
        ("magistral-medium-latest", "openai-chat", "mistral", "magistral-medium-latest"),
        ("codestral-2508", "openai-chat", "mistral", "codestral-2508"),
        ("gpt-6.1-sol", "openai-chat", "openai", "gpt-6.1-sol"),
        ("o3", "openai-chat", "openai", "o3"),
        ("gpt-oss-20b", "openai-chat", "chat", "gpt-oss-20b"),
        ("openai/gpt-oss-120b", "openai-chat", "groq", "openai/gpt-oss-120b"),
        ("groq/openai/gpt-oss-120b", "openai-chat", "groq", "openai/gpt-oss-120b"),
        ("grok-4.7", "openai-chat", "xai", "grok-4.7"),
        ("grok-4.7", "openai-responses", "xai", "grok-4.7"),
        ("GLM-5.3", "openai-chat", "zai", "GLM-5.3"),
        ("qwen3-max", "openai-chat", "alibaba", "qwen3-max"),
        ("MiniMax-M2.7", "openai-chat", "minimax", "MiniMax-M2.7"),
        ("sonar", "openai-chat", "perplexity", "sonar"),
        ("command-a-03-2025", "openai-chat", "cohere", "command-a-03-2025"),
        ("openrouter/anthropic/claude-opus-4.6", "openai-chat", "openrouter", "anthropic/claude-opus-4.6"),
        ("my-own-model", "openai-chat", "chat", "my-own-model"),
        ("chat", "openai-chat", "chat", ""),
        ("claude-opus-5-5", "anthropic-messages", "anthropic", "claude-opus-5-5"),
        ("vertex/claude-opus-5-5", "anthropic-messages", "vertex", "claude-opus-5-5"),
        ("gpt-6.1-sol", "openai-responses", "openai", "gpt-6.1-sol"),
        ("azure", "openai-responses", "azure", ""),
        ("models/gemini-4-argon", "gemini", "gemini", "gemini-4-argon"),
        ("google/gemini-4-argon", "gemini", "gemini", "gemini-4-argon"),
        ("vertex/gemini-4-argon", "gemini", "vertex", "gemini-4-argon"),
    ],
)
def test_a_name_finds_its_style(named, dialect, style, model):
    found, rest = find(named, dialect)

    assert (found.name, found.dialect, rest) == (style, dialect, model)


@pytest.mark.parametrize(
    ("style", "there", "not_there"),
    [
        ("openai", ["", "gpt-5.2-pro", "gpt-4o-mini-2024-07-18", "o4-mini-deep-research", "gpt-6.1-sol", "gpt-3.5-turbo-16k"], ["gpt-5.2-proo", "gpt-oss-20b", "claude-opus-5"]),
        ("deepseek", ["deepseek-flash", "deepseek-v4-pro-0813", "deepseek-v3.2-exp", "deepseek-chat"], ["deepseek-v9-huge", "gpt-4o"]),
        ("mistral", ["zai-glm-5-2", "zai-glm-latest", "pixtral-12b", "voxtral-small-latest"], ["gpt-4o"]),
        ("zai", ["glm-4.6v", "GLM-5.3-Flash"], ["kimi-k3"]),
        ("chat", ["anything/at-all"], []),
    ],
)  # fmt: skip
def test_models_exist_or_do_not(style, there, not_there):
    found, _ = find(style, "openai-chat")

    assert [model for model in there if not exists(found, model)] == []
    assert [model for model in not_there if exists(found, model)] == []
