from __future__ import annotations

import pytest

from tenuto.core.blocks import Text
from tenuto.core.journal import Configured, Entry, HandedOver, LossRecorded, MessageAdded, ReplyReceived
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, UserMessage
from tenuto.core.next_request import ConfigurationError, NextRequest
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.core.stored import make_draft

TOOLS = '[{"name":"weather","description":"Look."},{"kind":"web_search"}]'
CONFIGURED = Configured("mine/m", system="Be brief.", parameters='{"temperature":0.5,"max_tokens":9}', tools=TOOLS)
QUESTION = MessageAdded(UserMessage("Hi"))
REPLY = ReplyReceived(AssistantMessage((Text("Hello."), Text("You."))))


def next_request(*payloads) -> NextRequest:
    following = NextRequest()
    for seq, payload in enumerate(payloads, 1):
        draft = make_draft(payload, id=f"e{seq}", time_ms=seq)
        following.apply(Entry(seq, draft.id, seq, 1, draft.kind, draft.body, draft.digest, payload))
    return following


def test_request_has_configuration_and_messages():
    following = next_request(CONFIGURED, QUESTION)
    request = following.request(headers={"x-trace": "1"})

    assert (request.model, request.temperature, request.max_tokens, request.stream) == ("mine/m", 0.5, 9, True)
    assert request.messages == (SystemMessage("Be brief."), QUESTION.message)
    assert request.tools == (ToolDefinition("weather", "Look."), ServerTool("web_search"))
    assert request.extra_headers == {"x-trace": "1"}
    assert following.length() == 2


def test_passed_tools_replace_configured_tools():
    assert next_request(CONFIGURED, QUESTION).request(()).tools == ()


def test_handover_changes_only_the_model():
    request = next_request(CONFIGURED, QUESTION, HandedOver("other/m")).request()

    assert (request.model, request.temperature) == ("other/m", 0.5)


def test_refused_block_is_omitted():
    refused = LossRecorded(Loss("refused", "blocks[1]", "a block"), reply_seq=3, block_index=1)
    following = next_request(CONFIGURED, QUESTION, REPLY, refused)

    assert following.request().omit_blocks == ((2, 1),)
    assert following.healed == 1
    assert following.reply_at(REPLY.message) == 3
    assert following.reply_at(QUESTION.message) == 0
    assert next_request(CONFIGURED, QUESTION, REPLY, refused, QUESTION).healed == 0


@pytest.mark.parametrize(
    "payloads, message",
    [
        ([QUESTION], "no configuration"),
        ([Configured("mine/m", parameters='{"later":1}')], "does not know the session's parameter 'later'"),
    ],
)
def test_request_without_usable_configuration_is_refused(payloads, message):
    with pytest.raises(ConfigurationError, match=message):
        next_request(*payloads).request()
