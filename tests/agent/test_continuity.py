"""Which models an agent takes: known when it is made, before anything is asked."""

from __future__ import annotations

import pytest

from agent.acting import add, agent, scene
from tenuto import Agent, Provider
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
    ("openai/gpt-5", "encrypted_content"),
    ("openai/o1", "encrypted_content"),
    ("openai/o3", "encrypted_content"),
    ("openai/o3-mini", "encrypted_content"),
    ("google/gemini-1.5-pro", "thoughtSignature"),
    ("google/gemini-2.0-flash", "thoughtSignature"),
    ("google/gemini-2.5-pro", "thoughtSignature"),
    ("alibaba/qwen3.8-max", "ignores"),
    ("perplexity/sonar-reasoning-pro", "text"),
    ("openrouter/openai/gpt-4o", "reasoning"),
    ("openrouter/anthropic/claude-3-opus", "interleaved thinking"),
    ("openrouter/openai/o3", "encrypted_content"),
    ("openrouter/google/gemini-2.5-pro", "thoughtSignature"),
    ("azure/gpt-4o", "reasoning"),
    ("azure/o1", "encrypted_content"),
    ("mistral/brand-new", "declared"),
]


@pytest.mark.parametrize("model, feature", REFUSED)
def test_models_without_continuity_are_refused_with_the_missing_feature(model, feature):
    """Wherever they are served. The error carries the model and a reason that one can act on."""
    with pytest.raises(UnsupportedModel) as caught:
        made(model)

    assert caught.value.model == model
    assert feature in caught.value.reason


def test_nothing_is_asked_before_a_model_is_refused(tenuto_sim, tmp_path):
    """No request, no file."""
    with pytest.raises(UnsupportedModel):
        Agent("anthropic/claude-3-opus-20240229", store=tmp_path / "s.db")
    with pytest.raises(UnknownProvider):
        Agent("nobody/some-model", store=tmp_path / "s.db")

    assert not tenuto_sim.requests
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["openai-chat/gpt-5.2", "openai-chat/gpt-4o", "openai/gpt-4o", "gpt-4o"])
def test_openai_agent_needs_responses_api(model):
    """Even if the model is declared; the error names what works."""
    bare = model.rpartition("/")[2]
    message = f"agents need the Responses API for openai models: use openai-responses/{bare}"

    with pytest.raises(UnsupportedModel) as caught:
        made(model, continuity="declared")
    assert caught.value.reason == message
    assert made(f"openai-responses/{bare}", continuity="declared").model == f"openai-responses/{bare}"


def test_responses_api_is_not_suggested_where_refused_too():
    """The reason is what the model lacks."""
    with pytest.raises(UnsupportedModel, match="agents need the Responses API"):
        made("openai-chat/gpt-5.2")
    with pytest.raises(UnsupportedModel, match="encrypted_content"):
        made("openai-chat/gpt-4o")


@pytest.mark.parametrize("continuity", ["", "declared"])
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
def test_speech_models_are_refused(model, continuity):
    """An agent needs text, whatever is declared."""
    with pytest.raises(UnsupportedModel, match="returns audio only"):
        made(model, continuity=continuity)


@pytest.mark.parametrize(
    "model", ["gemini-2.0-flash-live-001", "gemini-live-2.5-flash", "gemini-2.5-flash-live-preview", "gemini-2.5-flash"]
)
def test_gemini_2_models_are_refused(model):
    """Those of the Live API, too."""
    with pytest.raises(UnsupportedModel, match="thoughtSignature"):
        made(model)


def test_open_weights_are_refused_at_their_vendor():
    """Hosts serve them."""
    with pytest.raises(UnsupportedModel, match="openai does not serve it"):
        made("openai/gpt-oss-120b")
    assert made("groq/openai/gpt-oss-120b", add).model == "groq/openai/gpt-oss-120b"


def test_a_model_of_which_nothing_is_known_can_be_declared_fit():
    """By whoever knows better. Anything else that is declared is a mistake."""
    row = Provider("mine", "openai-chat", "http://localhost/v1")
    for model in ("mine/model", "perplexity/sonar-reasoning-pro", "anthropic/claude-3-7-sonnet-latest"):
        with pytest.raises(UnsupportedModel, match='continuity="declared"'):
            made(model, providers=[row])
        assert made(model, providers=[row], continuity="declared").model == model
    with pytest.raises(ValueError, match="not 'yes'"):
        made("mine/model", providers=[row], continuity="yes")


def test_a_model_that_takes_no_tools_is_refused_with_tools_only():
    """It may still talk."""
    model = "perplexity/sonar-reasoning-pro"

    assert made(model, continuity="declared").model == model
    with pytest.raises(UnsupportedModel, match="takes no tools"):
        made(model, add, continuity="declared")


@scene
async def test_what_was_declared_is_in_the_journal(tenuto_sim):
    """And holds when the session is resumed, by an agent that declares nothing."""
    row = Provider("mine", "anthropic-messages", f"{tenuto_sim.base_url}/v1")
    told = dict(providers=[row], keys={"mine": "k"})
    async with agent(model="mine/claude-opus-4-6", continuity="declared", **told) as ai:
        session = ai.session("s")
        await session.send("Hi")
        [kept] = [entry.act for entry in await session.entries() if isinstance(entry.act, Configured)]
        assert kept.continuity == "declared"
    async with agent(**told) as ai:
        assert (await ai.resume("s")).model == "mine/claude-opus-4-6"
