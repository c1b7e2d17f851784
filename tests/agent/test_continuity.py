"""The models that an agent accepts, checked when it is constructed."""

from __future__ import annotations

import pytest

from agent.helpers import add, agent, scene
from tenuto import Agent, Provider
from tenuto.agent import config
from tenuto.core.journal import Configured
from tenuto.errors import UnknownProvider, UnsupportedModel


def make_agent(model: str, *tools, **options) -> Agent:
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
def test_specified_models_are_accepted(model):
    """The allowlist of the specification, with and without the provider, although some models are retired."""
    assert make_agent(model, add).model == model
    assert make_agent(model.partition("/")[2], add).model == model


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
    """By patterns, and by declarations in their rows."""
    assert make_agent(model, add).model == model


@pytest.mark.parametrize("model", ["deepseek/deepseek-chat", "mistral/mistral-large-latest"])
def test_model_without_reasoning_is_accepted(model):
    """Its replies contain nothing that must be sent back."""
    assert make_agent(model, add).model == model


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
    with pytest.raises(UnsupportedModel) as caught:
        make_agent(model)

    assert caught.value.model == model
    assert feature in caught.value.reason
    assert caught.value.remedy == "pass allow_unverified=True to use it anyway"
    assert make_agent(model, add, allow_unverified=True).model == model


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
    assert make_agent(model, add, providers={"mine": {"base_url": "http://localhost:9/v1"}}).model == model


def test_unknown_model_is_accepted_with_one_warning(caplog):
    config.warned_models.clear()
    row = Provider("mine", "openai-chat", "http://localhost/v1")
    for _ in range(3):
        make_agent("mine/model", providers=[row])

    assert [record.message for record in caplog.records] == [
        "mine/model is not in the catalog; its reasoning is sent back as received"
    ]


def test_known_model_is_accepted_without_a_warning(caplog):
    make_agent("anthropic/claude-opus-4-6", add)

    assert not caplog.records


def test_refused_model_sends_no_request(tenuto_sim, tmp_path):
    """No file is created either."""
    with pytest.raises(UnsupportedModel):
        Agent("anthropic/claude-3-opus-20240229", store=tmp_path / "s.db")
    with pytest.raises(UnknownProvider):
        Agent("nobody/some-model", store=tmp_path / "s.db")

    assert not tenuto_sim.requests
    assert not list(tmp_path.iterdir())


def test_openai_agent_needs_responses_api():
    with pytest.raises(UnsupportedModel) as caught:
        make_agent("openai-chat/gpt-5.2")
    assert "agents need the Responses API for openai models: use openai-responses/gpt-5.2" in caught.value.reason
    assert make_agent("openai-responses/gpt-5.2").model == "openai-responses/gpt-5.2"
    assert make_agent("openai-chat/gpt-5.2", allow_unverified=True).model == "openai-chat/gpt-5.2"


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
        make_agent(model)


@scene
async def test_allowed_model_is_recorded_in_the_journal(tenuto_sim):
    """It stays allowed when an agent without the option resumes the session."""
    row = Provider("mine", "anthropic-messages", f"{tenuto_sim.base_url}/v1")
    options = dict(providers=[row], keys={"mine": "k"})
    async with agent(model="mine/claude-opus-4-6", allow_unverified=True, **options) as ai:
        session = ai.session("s")
        await session.send("Hi")
        [configured] = [entry.payload for entry in await session.entries() if isinstance(entry.payload, Configured)]
        assert configured.allow_unverified
    async with agent(**options) as ai:
        assert (await ai.resume("s")).model == "mine/claude-opus-4-6"
