"""Which models an agent takes: known when it is made, before anything is asked."""

from __future__ import annotations

import pytest

from agent.acting import add, agent, scene
from tenuto import Agent, Provider
from tenuto.agent import config
from tenuto.core.journal import Configured
from tenuto.errors import UnknownProvider, UnsupportedModel


def made(model: str, *tools, **options) -> Agent:
    return Agent(model, tools=tools, store=None, **options)


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-opus-4-5",
        "anthropic/claude-opus-4-6",
        "openai/gpt-5.2",
        "openai/gpt-5.2-pro",
        "openai/gpt-5.2-codex",
        "google/gemini-3-pro-preview",
        "google/gemini-3-flash-preview",
    ],
)
def test_the_specified_models_are_accepted(model):
    """The allowlist of the specification, although some have been retired since; with the provider and without it."""
    assert made(model, add).model == model
    assert made(model.partition("/")[2], add).model == model


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-haiku-5-5",
        "anthropic/claude-opus-9",
        "openai/gpt-6.1-sol",
        "openai/gpt-7",
        "google/gemini-4-argon",
        "google/gemini-9-xenon",
        "deepseek/deepseek-v4-pro",
        "groq/openai/gpt-oss-120b",
        "openrouter/anthropic/claude-opus-5.5",
    ],
)
def test_newer_families_and_declared_models_are_accepted(model):
    """By rule, and by what their rows declare."""
    assert made(model, add).model == model


@pytest.mark.parametrize("model", ["deepseek/deepseek-chat", "mistral/mistral-large-latest"])
def test_a_model_that_has_no_reasoning_to_lose_is_accepted(model):
    """Nothing of its turns has to be handed back."""
    assert made(model, add).model == model


REFUSED = [
    ("anthropic/claude-3-5-sonnet-20241022", "interleaved thinking"),
    ("anthropic/claude-3-opus-20240229", "interleaved thinking"),
    ("anthropic/claude-3-7-sonnet-latest", "interleaved thinking"),
    ("anthropic/claude-3-unheard-of", "interleaved thinking"),
    ("anthropic/claude-sonnet-4-20250514", "interleaved thinking"),
    ("anthropic/claude-opus-4-0", "interleaved thinking"),
    ("openai/gpt-4o", "reasoning"),
    ("openai/gpt-4o-mini", "reasoning"),
    ("openai/gpt-4.1", "reasoning"),
    ("openai/gpt-5.1", "encrypted_content"),
    ("openai/gpt-5.1-codex-max", "encrypted_content"),
    ("openai/gpt-5.1-mini", "encrypted_content"),
    ("openai/o1", "encrypted_content"),
    ("openai/o3", "encrypted_content"),
    ("openai/o3-mini", "encrypted_content"),
    ("openai-chat/gpt-4o", "encrypted_content"),
    ("google/gemini-1.5-pro", "thoughtSignature"),
    ("google/gemini-2.0-flash", "thoughtSignature"),
    ("google/gemini-2.5-pro", "thoughtSignature"),
    ("google/gemini-2.0-flash-live-001", "thoughtSignature"),
]
"""The models that the specification excludes (S0-16 to S0-18), at their vendors."""


@pytest.mark.parametrize("model, feature", REFUSED)
def test_excluded_models_are_refused_at_their_vendors(model, feature):
    """The error has the model, the missing feature and the remedy; the remedy works."""
    with pytest.raises(UnsupportedModel) as caught:
        made(model)

    assert caught.value.model == model
    assert feature in caught.value.reason
    assert caught.value.remedy == "pass allow_unverified=True to use it anyway"
    assert made(model, add, allow_unverified=True).model == model


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-opus-4-1",
        "openai/gpt-5",
        "openai/gpt-5-codex",
        "openai/o4-mini",
        "openai/gpt-4-turbo",
        "openai-chat/gpt-4-turbo",
        "alibaba/qwen3.8-max",
        "perplexity/sonar-reasoning-pro",
        "openrouter/openai/gpt-4o",
        "openrouter/anthropic/claude-3-opus",
        "openrouter/google/gemini-2.5-pro",
        "azure/gpt-4o",
        "azure/my-deployment",
        "vertex/gemini-2.5-pro",
        "ollama/llama3.2",
        "vllm/anything",
        "lmstudio/anything",
        "llamacpp/anything",
        "fireworks/anything",
        "huggingface/anything",
        "mistral/brand-new",
        "mine/llama",
    ],
)
def test_every_other_model_is_accepted(model):
    """With tools, too."""
    assert made(model, add, providers={"mine": {"base_url": "http://localhost:9/v1"}}).model == model


def test_unknown_model_is_accepted_with_one_warning(caplog):
    config.warned_models.clear()
    row = Provider("mine", "openai-chat", "http://localhost/v1")
    for _ in range(3):
        made("mine/model", providers=[row])

    assert [record.message for record in caplog.records] == [
        "mine/model is not in the catalog; its reasoning is sent back as received"
    ]


def test_known_model_is_accepted_without_a_warning(caplog):
    made("anthropic/claude-opus-4-6", add)

    assert not caplog.records


def test_nothing_is_asked_before_a_model_is_refused(tenuto_sim, tmp_path):
    """No request, no file."""
    with pytest.raises(UnsupportedModel):
        Agent("anthropic/claude-3-opus-20240229", store=tmp_path / "s.db")
    with pytest.raises(UnknownProvider):
        Agent("nobody/some-model", store=tmp_path / "s.db")

    assert not tenuto_sim.requests
    assert not list(tmp_path.iterdir())


def test_openai_agent_needs_responses_api():
    """Through Chat Completions, the reasoning of a model would be lost; the error says what works."""
    with pytest.raises(UnsupportedModel) as caught:
        made("openai-chat/gpt-5.2")
    assert "agents need the Responses API for openai models: use openai-responses/gpt-5.2" in caught.value.reason
    assert made("openai-responses/gpt-5.2").model == "openai-responses/gpt-5.2"
    assert made("openai-chat/gpt-5.2", allow_unverified=True).model == "openai-chat/gpt-5.2"


@pytest.mark.parametrize(
    "model",
    [
        "google/gemini-2.5-flash-preview-tts",
        "google/gemini-2.5-pro-tts",
        "google/gemini-2.5-flash-tts",
        "google/gemini-2.5-flash-native-audio-preview",
        "google/gemini-live-2.5-flash-preview-native-audio-09-2025",
        "google/gemini-3.8-flash-tts",
        "vertex/gemini-2.5-pro-tts",
        "openrouter/google/gemini-2.5-pro-preview-tts",
    ],
)
def test_speech_models_are_refused(model):
    with pytest.raises(UnsupportedModel, match="returns audio only"):
        made(model)


@scene
async def test_what_was_declared_is_in_the_journal(tenuto_sim):
    """And holds when the session is resumed, by an agent that declares nothing."""
    row = Provider("mine", "anthropic-messages", f"{tenuto_sim.base_url}/v1")
    told = dict(providers=[row], keys={"mine": "k"})
    async with agent(model="mine/claude-opus-4-6", allow_unverified=True, **told) as ai:
        session = ai.session("s")
        await session.send("Hi")
        [kept] = [entry.payload for entry in await session.entries() if isinstance(entry.payload, Configured)]
        assert kept.allow_unverified
    async with agent(**told) as ai:
        assert (await ai.resume("s")).model == "mine/claude-opus-4-6"
