"""The cause of a cache miss, as the simulator reports it for the provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenuto import Client, Reply
from tenuto.testing import Simulator

INSTRUCTIONS = "Answer from the manual. " * 300
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def first(tenuto_sim: Simulator, request: pytest.FixtureRequest) -> Iterator[tuple[Client, str, Reply]]:
    model = f"sim/{request.param}"
    with Client() as client:
        yield client, model, client.chat(model, "Hi", system=INSTRUCTIONS, cache="auto", cache_diagnosis=True)


def _again(client: Client, name: str, reply: Reply, **changes: Any) -> Reply:
    options = {"cache": "auto", "cache_diagnosis": reply.response.id, "model": name, **changes}
    return client.chat(messages=reply.transcript + "More", **options)


@pytest.mark.parametrize("first", ["anthropic", "openai"], indirect=True)
def test_continued_conversation_has_no_cause(first: tuple[Client, str, Reply]) -> None:
    reply = _again(*first)

    assert first[2].cache_miss_reason == reply.cache_miss_reason == ""
    assert ((reply.usage and reply.usage.cache_read_tokens) or 0) > 1024
    assert not first[2].losses + reply.losses


@pytest.mark.parametrize(
    ("first", "changes", "reason"),
    [
        ("anthropic", {"model": "sim/anthropic/claude-opus-4-6"}, "model_changed"),
        ("anthropic", {"system": "Be brief."}, "system_changed"),
        ("anthropic", {"tools": [TOOL]}, "tools_changed"),
        ("anthropic", {"effort": "low"}, "unavailable"),
        ("anthropic", {"cache_diagnosis": "msg_01unknown"}, "previous_message_not_found"),
        ("openai", {"model": "sim/openai/gpt-5.6-sol"}, "model_changed"),
        ("openai", {"system": "Be brief."}, "input_changed"),
        ("openai", {"tools": [TOOL]}, "tools_changed"),
        ("openai", {"effort": "low"}, "reasoning_effort_changed"),
        ("openai", {"verbosity": "low"}, "verbosity_changed"),
        ("openai", {"service_tier": "flex"}, "service_tier_changed"),
        ("openai", {"extra_body": {"prompt_cache_key": "k"}}, "prompt_cache_key_changed"),
        ("openai", {"cache_diagnosis": "resp_unknown"}, "comparison_response_not_found"),
    ],
    indirect=["first"],
)
def test_change_is_the_cause(first: tuple[Client, str, Reply], changes: dict[str, Any], reason: str) -> None:
    assert _again(*first, **changes).cache_miss_reason == reason


@pytest.mark.parametrize(
    ("first", "reason"), [("anthropic", "messages_changed"), ("openai", "input_changed")], indirect=["first"]
)
def test_changed_message_is_the_cause(first: tuple[Client, str, Reply], reason: str) -> None:
    client, model, reply = first
    other = client.chat(model, "Hello", system=INSTRUCTIONS, cache="auto", cache_diagnosis=reply.response.id)

    assert other.cache_miss_reason == reason


def test_request_without_diagnosis_is_not_compared(tenuto_sim: Simulator) -> None:
    """Anthropic stores only requests that ask for it."""
    with Client() as client:
        reply = client.chat("sim/anthropic", "Hi", system=INSTRUCTIONS)

        assert _again(client, "sim/anthropic", reply).cache_miss_reason == "previous_message_not_found"


@pytest.mark.parametrize("model", ["sim/gemini", "sim/chat", "sim/openai/gpt-5.4", "sim/vertex/claude-opus-4-6"])
def test_diagnosis_is_a_loss_where_no_provider_has_it(tenuto_sim: Simulator, model: str) -> None:
    with Client() as client:
        reply = client.chat(model, "Hi", cache="auto", cache_diagnosis=True)

    assert [(loss.kind, loss.location.path) for loss in reply.losses] == [("unsupported-parameter", "cache_diagnosis")]
    assert "diagnos" not in repr(tenuto_sim.requests[-1].body)
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai"])
def test_id_of_another_provider_is_not_sent(tenuto_sim: Simulator, model: str) -> None:
    with Client() as client:
        reply = client.chat(model, "Hi", cache_diagnosis="gen-123")

    assert "gen-123" not in repr(tenuto_sim.requests[-1].body)
    assert not reply.losses
    tenuto_sim.assert_clean()
