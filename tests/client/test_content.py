"""Content that a model does not take, and messages without content."""

from __future__ import annotations

import pytest

from tenuto import Agent, Audio, Client, Image, user
from tenuto.errors import TranscriptError, UnsupportedContent
from tenuto.testing import Simulator

AUDIO = Audio(data="UklGRg==", mime="audio/wav")
IMAGE = Image(data="iVBORw0KGgo=", mime="image/png")
HISTORY = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "b"}]
STYLES = ("anthropic", "openai", "gemini", "chat")


@pytest.fixture
def sim():
    with Simulator() as running:
        yield running


@pytest.fixture
def ai(sim):
    with Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}) as client:
        yield client


@pytest.mark.parametrize(
    "model, part, content",
    [
        ("anthropic/claude-opus-4-6", AUDIO, "audio"),
        ("openai/gpt-4o", AUDIO, "audio"),
        ("openai/gpt-5.2", AUDIO, "audio"),
        ("openai/gpt-4o-audio-preview", IMAGE, "image"),
        ("deepseek/deepseek-chat", IMAGE, "image"),
    ],
)
def test_unsupported_content_in_the_newest_message_is_an_error(model, part, content):
    provider = model.partition("/")[0]
    settings = {provider: {"base_url": "http://127.0.0.1:9/v1"}}
    with Client(keys={provider: "k"}, providers=settings) as ai, pytest.raises(UnsupportedContent) as caught:
        ai.chat(model, user("look", part))

    assert (caught.value.model, caught.value.content) == (model, content)


def test_unsupported_content_in_an_older_message_is_a_loss(ai, sim, caplog):
    messages = [user("listen", AUDIO), {"role": "assistant", "content": "I hear."}, {"role": "user", "content": "And?"}]
    reply = ai.chat("sim/anthropic", messages)

    assert [loss.kind for loss in reply.losses] in (["content-refused"], ["unsupported-content"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("prompt", ["", "  \n", user(""), {"role": "user", "content": " "}])
@pytest.mark.parametrize("style", STYLES)
def test_empty_prompt_is_an_error(ai, sim, style, prompt):
    with pytest.raises(TranscriptError, match="the newest message is empty"):
        ai.chat(f"sim/{style}", prompt)

    assert not sim.requests


def test_empty_message_to_a_session_is_an_error():
    with Agent("sim/anthropic", store=None) as ai:
        session = ai.session()
        with pytest.raises(TranscriptError, match="the newest message is empty"):
            session.send("")
        assert session.status == "new"


@pytest.mark.parametrize("style", STYLES)
def test_empty_assistant_message_in_history_is_a_loss(ai, style):
    reply = ai.chat(f"sim/{style}", HISTORY)

    assert [(loss.kind, str(loss.location)) for loss in reply.losses] == [("empty-message", "messages[1]")]


@pytest.mark.parametrize("style", ["anthropic", "gemini", "chat"])
def test_placeholder_for_an_empty_user_message_is_a_loss(ai, sim, style):
    messages = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "b"},
    ]
    reply = ai.chat(f"sim/{style}", messages)

    assert [(loss.kind, str(loss.location)) for loss in reply.losses] == [("empty-message", "messages[0]")]
    assert "(empty message)" in str(sim.requests[-1].body)
