"""A request writes only the messages that the last request of its conversation did not have, with the same bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strategies import broken_words, conversations
from tenuto.catalog import resolve
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.messages import AssistantMessage, Message, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import ChatSwitches, Target
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import WrittenMessages
from tenuto.wire.write import write_request
from wire.chat.cases import target

TARGETS = [target(), *map(resolve, ("groq/llama-3.3-70b", "mistral/mistral-large-latest", "deepseek/deepseek-chat"))]


def issued(messages: tuple[Message, ...], to: Target) -> tuple[Message, ...]:
    """Return the messages with replies that the target has given."""
    origin = Origin(to.provider.name, to.dialect, to.model)
    return tuple(replace(one, origin=origin) if isinstance(one, AssistantMessage) else one for one in messages)


def turn(number: int, **call: object) -> tuple[Message, ...]:
    """Return a reply with one call, and its result."""
    use = ToolUse(f"call_{number}", "look", '{"at": 1}', **call)
    return AssistantMessage((use,)), ToolResults((ToolResult(use.id, f"seen {number}"),))


def check_growing(messages: tuple[Message, ...], to: Target) -> None:
    """Compare each request of a growing conversation, sent twice, with one that is written as a whole."""
    written = WrittenMessages()
    for count in range(1, len(messages) + 1):
        request = ChatRequest(model="here/gpt-x", messages=messages[:count])
        for _ in range(2):
            assert write_request(request, to, written=written) == write_request(request, to)


@given(conversations(broken_words), st.sampled_from(TARGETS), st.booleans())
def test_growing_conversation_has_the_same_bytes(conversation, to, is_own):
    check_growing(issued(conversation.messages, to) if is_own else conversation.messages, to)


@pytest.mark.parametrize(
    "switches",
    [
        ChatSwitches(),
        ChatSwitches(one_system=True),
        ChatSwitches(alternate=True),
        ChatSwitches(name_on_tool_message=True),
        ChatSwitches(prefix_flag="prefix"),
    ],
)
def test_switches_of_the_provider_have_the_same_bytes(switches):
    to = target(switches)
    older = {"extra": '{"function_call":{}}'}  # its result is written differently
    messages = (SystemMessage("a"), SystemMessage("b"), UserMessage("c"))
    check_growing(issued((*messages, AssistantMessage((Text("d"),)), UserMessage("e")), to), to)
    check_growing(issued((*messages, *turn(1), *turn(2, **older), *turn(3)), to), to)


def test_message_is_written_once():
    to, written = target(), WrittenMessages()
    messages = issued((UserMessage("hi"), *turn(1), *turn(2)), to)
    for count in (3, 5):
        write_request(ChatRequest(model="here/gpt-x", messages=messages[:count]), to, written=written)
    first = {key: text for key, (_, text) in written.texts.items()}
    write_request(ChatRequest(model="here/gpt-x", messages=messages), to, written=written)

    assert all(written.texts[id(one)][1] is first[id(one)] for one in messages[:4])
    assert [json.loads(bytes(text))["role"] for text in written.texts[id(messages[1])][1]] == ["assistant"]


def test_other_target_writes_every_message():
    written = WrittenMessages()
    messages = (UserMessage("hi"), SystemMessage("short"), UserMessage("again"))
    request = ChatRequest(model="here/gpt-x", messages=messages)
    for to in (target(), target(ChatSwitches(developer_role=True), thinking=("effort",)), target()):
        assert write_request(request, to, written=written) == write_request(request, to)
