"""The support desk, tested with the names of its models, without a network and without keys."""

from __future__ import annotations

import pytest

from examples.support_desk import app
from tenuto.errors import NetworkForbidden
from tenuto.testing import Simulator, call, deny, override, say, think, turn

FIND = turn(think("I look it up."), call("find_order", {"number": "B-4"}))
REFUND = turn(think("It is broken."), call("refund", {"number": "B-4", "amount": 250}))


def test_agent_looks_up_an_order(tenuto_sim: Simulator) -> None:
    tenuto_sim.script(FIND, turn(say("A lamp for 250 EUR.")))

    assert app.answer("ada", "What is B-4?") == "A lamp for 250 EUR."
    first, second = tenuto_sim.requests
    assert (first.provider, first.model) == ("anthropic", "claude-sonnet-5-5")
    assert first.body["system"][0]["text"] == "You are the support desk of a shop. Be brief."
    assert "order B-4: lamp, 250 EUR" in str(second.body["messages"][-1])
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    ("approved", "result"), [(True, "refunded 250 EUR for B-4"), (False, "a person has denied it")]
)
def test_large_refund_needs_approval(tenuto_sim: Simulator, approved: bool, result: str) -> None:
    tenuto_sim.script(REFUND, turn(say("Settled.")))

    assert app.answer("ada", "My lamp is broken.") == ""
    assert [pending.call.name for pending in app.agent.resume("ada").pending] == ["refund"]
    assert app.decide("ada", approved=approved) == "Settled."
    assert result in str(tenuto_sim.requests[-1].body["messages"][-1])
    tenuto_sim.assert_clean()


def test_sessions_of_other_tests_are_gone(tenuto_sim: Simulator) -> None:
    assert app.agent.session("ada").is_new
    assert tenuto_sim.requests == []


def test_answer_arrives_in_pieces(tenuto_sim: Simulator) -> None:
    tenuto_sim.script(turn(say(["It is ", "on its ", "way."])))

    assert list(app.stream_answer("ada", "Where is A-17?")) == ["It is ", "on its ", "way."]
    tenuto_sim.assert_clean()


def test_messages_are_sorted(tenuto_sim: Simulator) -> None:
    tenuto_sim.script('{"topic": "refund", "urgent": true}')

    assert app.sort_message("I want my money back, now!") == app.Ticket(topic="refund", urgent=True)
    assert [record.provider for record in tenuto_sim.requests] == ["groq"]
    tenuto_sim.assert_clean()


def test_conversation_goes_to_a_larger_model_and_back(tenuto_sim: Simulator) -> None:
    tenuto_sim.script(FIND, turn(say("A lamp.")), turn(say("250 EUR.")), turn(say("Goodbye.")))
    app.answer("ada", "What is B-4?")
    losses = app.escalate("ada")
    session = app.agent.resume("ada")
    session.send("And its price?")
    session.handover("anthropic/claude-sonnet-5-5")
    session.send("Thank you.")

    assert "foreign-reasoning" in {loss.kind for loss in losses}
    assert [record.provider for record in tenuto_sim.requests] == ["anthropic", "anthropic", "openai", "anthropic"]
    assert session.text == "Goodbye."
    assert session.cost  # the prices are those of the real models
    tenuto_sim.assert_clean()  # the thinking of the first model was accepted after the way back


def test_busy_provider_is_asked_again(tenuto_sim: Simulator) -> None:
    tenuto_sim.script(turn(deny(529, retry_after=0)), turn(say("Hello.")))

    assert app.answer("ada", "Hi") == "Hello."
    assert [record.status for record in tenuto_sim.requests] == [529, 200]


def test_agent_with_another_model_and_other_tools(tenuto_sim: Simulator) -> None:
    def find_order(number: str) -> str:
        """Find an order by its number."""
        return f"order {number}: a fake"

    tenuto_sim.script(FIND, turn(say("A fake.")))
    with app.agent.override(model=app.LARGE_MODEL, tools=[find_order, app.refund]):
        assert app.answer("ada", "What is B-4?") == "A fake."

    assert {record.provider for record in tenuto_sim.requests} == {"openai"}
    assert "order B-4: a fake" in str(tenuto_sim.requests[-1].body)
    assert app.agent.model == "anthropic/claude-sonnet-5-5"
    tenuto_sim.assert_clean()


def test_photo_is_not_fetched(tenuto_sim: Simulator) -> None:
    with pytest.raises(NetworkForbidden, match=r"https://photos\.example/broken\.png"):
        app.describe_photo("https://photos.example/broken.png")


def test_two_simulators() -> None:
    with Simulator(script=["one"]) as first, Simulator(script=["two"]) as second:
        with override(first):
            assert app.client.chat("openai/gpt-5.2", "Hi").text == "one"
        with override(second):
            assert app.client.chat("openai/gpt-5.2", "Hi").text == "two"
