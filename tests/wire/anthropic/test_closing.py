"""Turns that were cut off are sent back without what is refused, and a loss says so; the transcript keeps all of it."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import AnthropicMeta, Reasoning, ServerToolResult, ServerToolUse, Text, ToolUse
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import ModelTraits, Provider, Target
from tenuto.core.request import ChatRequest, Thinking
from tenuto.wire.anthropic.encode import encode

THOUGHT = Reasoning("Hm.", meta=AnthropicMeta("c2ln"))
SEARCH = ServerToolUse("srvtoolu_1", "web_search", '{"query":"x"}', "server_tool_use")
FOUND = ServerToolResult("srvtoolu_1", "[]", "web_search_tool_result")
BUDGET = ModelTraits(known=True, thinking=("budget", "disabled"), efforts=(), budget=(1024, 30_000))


def sent(*messages, traits: ModelTraits | None = None, **fields) -> tuple[dict, list[str]]:
    row = Provider("here", "anthropic-messages", "")
    target = Target(row, "claude-x", "anthropic-messages", traits or ModelTraits())
    wire = encode(ChatRequest(model="claude-x", messages=messages, **fields), target)
    return json.loads(wire.body), [loss.kind for loss in wire.losses]


def kinds(body: dict) -> list[tuple[str, list[str]]]:
    return [(message["role"], [block["type"] for block in message["content"]]) for message in body["messages"]]


@pytest.mark.parametrize(
    ("blocks", "left", "rules"),
    [
        ((THOUGHT,), None, ["reasoning-unfinished"]),
        ((THOUGHT, THOUGHT), None, ["reasoning-unfinished"]),
        ((THOUGHT, Text("Well"), THOUGHT), ["thinking", "text"], ["reasoning-unfinished"]),
        ((Text(" \n"),), None, ["blank-turn"]),
        ((Text(" "), Text("x")), ["text", "text"], []),
        ((SEARCH,), None, ["unfinished-call"]),
        ((THOUGHT, SEARCH), None, ["unfinished-call", "reasoning-unfinished"]),
        ((SEARCH, FOUND), ["server_tool_use", "web_search_tool_result"], []),
        ((Text("Let me look."), SEARCH), ["text"], ["unfinished-call"]),
    ],
    ids=str,
)
def test_what_cannot_stand_at_the_end_of_a_turn_stays_behind(blocks, left, rules):
    body, lost = sent(UserMessage("Hi"), AssistantMessage(blocks), UserMessage("And?"))

    turn = [("assistant", left)] if left else []
    apart = [("user", ["text"]), *turn, ("user", ["text"])] if left else [("user", ["text", "text"])]
    assert kinds(body) == apart
    assert lost == rules


def test_a_loss_is_told_at_its_place_in_the_transcript():
    """Not in the request, where instructions stand apart and neighbours share a message."""
    row = Target(Provider("here", "anthropic-messages", ""), "claude-x", "anthropic-messages")
    said = (
        SystemMessage("Be brief."),
        UserMessage("Hi"),
        UserMessage("there"),
        AssistantMessage((THOUGHT,)),
        UserMessage("And?"),
    )
    wire = encode(ChatRequest(model="claude-x", messages=said), row)

    assert [(loss.kind, loss.place) for loss in wire.losses] == [("reasoning-unfinished", "messages[3]")]


def test_a_paused_turn_goes_on_as_it_is():
    """What is half in it will be answered by the provider itself."""
    body, lost = sent(UserMessage("Hi"), AssistantMessage((Text("Let me look."), SEARCH)))

    assert kinds(body)[-1] == ("assistant", ["text", "server_tool_use"])
    assert lost == []


def test_a_turn_in_two_messages_is_one_turn():
    paused, rest = AssistantMessage((THOUGHT, SEARCH)), AssistantMessage((FOUND, Text("It rains.")))
    body, lost = sent(UserMessage("Hi"), paused, rest, UserMessage("And?"))

    assert kinds(body)[1] == ("assistant", ["thinking", "server_tool_use", "web_search_tool_result", "text"])
    assert lost == []


def test_code_that_calls_our_tools_waits_for_their_results():
    blocks = (SEARCH, ToolUse("toolu_1", "weather", "{}", extra='{"caller":{"type":"x","tool_id":"srvtoolu_1"}}'))
    body, lost = sent(UserMessage("Hi"), AssistantMessage(blocks), ToolResults((ToolResult("toolu_1", "rain"),)))

    assert kinds(body)[1] == ("assistant", ["server_tool_use", "tool_use"])
    assert lost == []


CALL = ToolUse("toolu_1", "weather", "{}")
ANSWER = ToolResults((ToolResult("toolu_1", "rain"),))


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        ((AssistantMessage((CALL,)), ANSWER), False),
        ((AssistantMessage((THOUGHT, CALL)), ANSWER), True),
        ((AssistantMessage((THOUGHT, CALL)), ANSWER, AssistantMessage((CALL,)), ANSWER), True),
        ((AssistantMessage((CALL,)), ANSWER, AssistantMessage((THOUGHT, CALL)), ANSWER), False),
        ((AssistantMessage((CALL,)), ANSWER, AssistantMessage((Text("Rain."),)), UserMessage("And?")), True),
        ((AssistantMessage((CALL,)), ANSWER, UserMessage("And?")), False),
    ],
)
def test_a_budget_is_not_asked_for_in_the_middle_of_calls_that_began_without_thinking(messages, thinks):
    """As they do when another provider made them. What began the run of calls is what counts."""
    body, lost = sent(UserMessage("Hi"), *messages, traits=BUDGET, thinking=Thinking(budget=2000))

    assert ("thinking" in body) is thinks
    assert lost.count("thinking-off") == (not thinks)
