"""What a client does with losses: warn, raise or store them."""

from __future__ import annotations

import logging

import pytest

from scripted import ROW, chat
from tenuto import Agent, AssistantMessage, AsyncClient, Client, Reasoning, Text, UserMessage
from tenuto.core.blocks import AnthropicMeta
from tenuto.core.messages import Origin
from tenuto.errors import LossError
from tenuto.middleware import retry
from tenuto.testing import ScriptedResponse, ScriptedTransport, say, turn

CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "one"}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
MODEL = "anthropic/claude-sonnet-4-5"
LOSING = {"temperature": 7.0, "n": 2, "seed": 4, "verbosity": "low"}


@pytest.fixture(autouse=True)
def warnings_of(caplog):
    caplog.set_level(logging.WARNING, "tenuto")
    return caplog


def make_client(*script: object, **options: object) -> Client:
    return Client(transport=ScriptedTransport(*script), keys={"anthropic": "k"}, providers=[ROW], **options)


def test_request_with_losses_is_one_warning(caplog):
    with make_client(CLAUDE) as ai:
        reply = ai.chat(MODEL, "Hi", **LOSING)

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.name == "tenuto"
    assert MODEL in record.getMessage()
    assert all(name in record.getMessage() for name in LOSING)
    assert len(reply.losses) == len(LOSING)


def test_request_without_losses_logs_nothing(caplog):
    with make_client(CLAUDE) as ai:
        ai.chat(MODEL, "Hi", temperature=1.0)

    assert caplog.records == []


def test_every_request_with_losses_is_a_warning(caplog):
    with make_client(CLAUDE, CLAUDE) as ai:
        ai.chat(MODEL, "Hi", seed=4)
        ai.stream(MODEL, "Hi", seed=4).drain()

    assert len(caplog.records) == 2


def test_retried_request_is_one_warning(caplog):
    with make_client(ScriptedResponse({}, 529), CLAUDE, middleware=[retry(1, base=0.0)]) as ai:
        ai.chat(MODEL, "Hi", seed=4)

    assert len([record for record in caplog.records if "seed" in record.getMessage()]) == 1


def test_losses_of_older_messages_are_one_warning(caplog):
    thought = Reasoning("hm", meta=AnthropicMeta("c2ln"))
    origin = Origin("anthropic", "anthropic-messages", "claude-sonnet-4-5")
    turns = [(UserMessage("Hi"), AssistantMessage((thought, Text("one")), "stop", origin=origin)) for _ in range(20)]
    with make_client(chat("two")) as ai:
        reply = ai.chat("mine/m", [*(message for turn in turns for message in turn), UserMessage("And?")])

    (record,) = caplog.records
    assert len(reply.losses) >= 20
    assert f"and {len(reply.losses) - 5} more" in record.getMessage()


def test_losses_raise_before_anything_is_sent(caplog):
    transport = ScriptedTransport(CLAUDE)
    with Client(transport=transport, keys={"anthropic": "k"}, on_loss="raise") as ai:
        with pytest.raises(LossError, match=r"temperature: 7\.0 became 1") as caught:
            ai.chat(MODEL, "Hi", **LOSING)
        assert ai.chat(MODEL, "Hi").text == "one"

    assert (caught.value.model, len(caught.value.losses)) == (MODEL, len(LOSING))
    assert len(transport.requests) == 1
    assert caplog.records == []


def test_losses_can_be_stored_without_warning(caplog):
    with make_client(CLAUDE, on_loss="keep") as ai:
        assert len(ai.chat(MODEL, "Hi", **LOSING).losses) == len(LOSING)

    assert caplog.records == []


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_unknown_value_for_losses_is_refused(kind):
    with pytest.raises(ValueError, match="on_loss: expected 'warn', 'raise', 'keep', got 'ignore'"):
        kind(on_loss="ignore")


def test_agent_warns_of_each_loss_once(tenuto_sim, caplog):
    tenuto_sim.script(turn(say("one")), turn(say("two")))
    with Agent("sim/anthropic", seed=4, store=None) as agent:
        session = agent.session()
        session.send("Hi")
        session.send("And?")

    assert ["seed" in record.getMessage() for record in caplog.records] == [True]


def test_embedding_with_losses_is_one_warning(caplog):
    found = {"model": "m", "data": [{"index": 0, "embedding": [1.0]}], "usage": {}}
    with make_client(found) as ai:
        reply = ai.embed({"model": "mine/m", "input": "Hi", "task": "query"})

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * bool(reply.losses)
    assert reply.losses
