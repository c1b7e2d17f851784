"""Interrupted turns are sent without the blocks that Anthropic refuses, each with a loss."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import AnthropicMeta, Reasoning, ServerToolResult, ServerToolUse, Text, ToolUse
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import Thinking
from wire.anthropic.test_encode import target, wire

THOUGHT = Reasoning("Hm.", meta=AnthropicMeta("c2ln"))
SEARCH = ServerToolUse("srvtoolu_1", "web_search", '{"query":"x"}', "server_tool_use")
SEARCH_RESULT = ServerToolResult("srvtoolu_1", "[]", "web_search_tool_result")
BUDGET = target(thinking=("budget", "disabled"), efforts=(), budget=(1024, 30_000))


def write(*messages, **fields) -> tuple[dict, list[Loss]]:
    request = wire(*messages, **fields)
    return json.loads(request.body), list(request.losses)


def block_types(body: dict) -> list[tuple[str, list[str]]]:
    return [(message["role"], [block["type"] for block in message["content"]]) for message in body["messages"]]


@pytest.mark.parametrize(
    ("blocks", "expected", "loss_kinds"),
    [
        ((THOUGHT,), None, ["reasoning-unfinished"]),
        ((THOUGHT, THOUGHT), None, ["reasoning-unfinished"] * 2),
        ((THOUGHT, Text("Well"), THOUGHT), ["thinking", "text"], ["reasoning-unfinished"]),
        ((Text(" \n"),), None, ["blank-turn"]),
        ((Text(" "), Text("x")), ["text", "text"], []),
        ((SEARCH,), None, ["unfinished-call"]),
        ((THOUGHT, SEARCH), None, ["unfinished-call", "reasoning-unfinished"]),
        ((SEARCH, SEARCH_RESULT), ["server_tool_use", "web_search_tool_result"], []),
        ((Text("Let me look."), SEARCH), ["text"], ["unfinished-call"]),
    ],
    ids=str,
)
def test_unfinished_blocks_are_left_out(blocks, expected, loss_kinds):
    body, losses = write(UserMessage("Hi"), AssistantMessage(blocks), UserMessage("And?"))

    user = ("user", ["text"])
    without_turn = [("user", ["text", "text"])]
    assert block_types(body) == ([user, ("assistant", expected), user] if expected else without_turn)
    assert [loss.kind for loss in losses] == loss_kinds


def test_loss_has_location_in_transcript():
    """In the body, instructions have a field of their own and adjacent messages are merged."""
    user, turn = (UserMessage("Hi"), UserMessage("there")), AssistantMessage((THOUGHT,))
    _, losses = write(SystemMessage("Be brief."), *user, turn, UserMessage("And?"))

    assert [(loss.kind, str(loss.location)) for loss in losses] == [("reasoning-unfinished", "messages[3].blocks[0]")]


def test_paused_turn_is_unchanged():
    """The provider itself completes the open call."""
    body, losses = write(UserMessage("Hi"), AssistantMessage((Text("Let me look."), SEARCH)))

    assert block_types(body)[-1] == ("assistant", ["text", "server_tool_use"])
    assert losses == []


def test_adjacent_assistant_messages_are_one_turn():
    paused, rest = AssistantMessage((THOUGHT, SEARCH)), AssistantMessage((SEARCH_RESULT, Text("It rains.")))
    body, losses = write(UserMessage("Hi"), paused, rest, UserMessage("And?"))

    assert block_types(body)[1] == ("assistant", ["thinking", "server_tool_use", "web_search_tool_result", "text"])
    assert losses == []


def test_server_call_with_client_calls_is_unchanged():
    blocks = (SEARCH, ToolUse("toolu_1", "weather", "{}", extra='{"caller":{"type":"x","tool_id":"srvtoolu_1"}}'))
    body, losses = write(UserMessage("Hi"), AssistantMessage(blocks), ToolResults((ToolResult("toolu_1", "rain"),)))

    assert block_types(body)[1] == ("assistant", ["server_tool_use", "tool_use"])
    assert losses == []


CALL = ToolUse("toolu_1", "weather", "{}")
ANSWER = ToolResults((ToolResult("toolu_1", "rain"),))


@pytest.mark.parametrize(
    ("messages", "is_sent"),
    [
        ((AssistantMessage((CALL,)), ANSWER), False),
        ((AssistantMessage((THOUGHT, CALL)), ANSWER), True),
        ((AssistantMessage((THOUGHT, CALL)), ANSWER, AssistantMessage((CALL,)), ANSWER), True),
        ((AssistantMessage((CALL,)), ANSWER, AssistantMessage((THOUGHT, CALL)), ANSWER), False),
        ((AssistantMessage((CALL,)), ANSWER, AssistantMessage((Text("Rain."),)), UserMessage("And?")), True),
        ((AssistantMessage((CALL,)), ANSWER, UserMessage("And?")), False),
    ],
)
def test_budget_is_removed_in_loop_without_thinking(messages, is_sent):
    """Calls of another provider begin without thinking. The first message of the loop decides."""
    body, losses = write(UserMessage("Hi"), *messages, to=BUDGET, thinking=Thinking(budget=2000))

    assert ("thinking" in body) is is_sent
    assert [loss.kind for loss in losses].count("thinking-off") == (not is_sent)
