from __future__ import annotations

import copy

import msgspec
from hypothesis import given, settings

from strategies import requests
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import UserMessage
from tenuto.core.provider import ModelTraits
from tenuto.core.request import ChatRequest, ToolDefinition
from tenuto.core.transcript import Transcript


def test_messages_are_tuple_or_transcript():
    messages = (UserMessage("Hi"),)

    assert ChatRequest(model="a/b", messages=messages).transcript == messages
    assert ChatRequest(model="a/b", messages=Transcript(messages)).transcript == messages


@settings(max_examples=25)
@given(requests())
def test_request_equals_its_deep_copy(request):
    assert copy.deepcopy(request) == request


def test_requests_share_no_state():
    first, second = (ChatRequest(model="a/b", messages=()) for _ in range(2))

    assert first.metadata is not second.metadata
    assert ToolDefinition("f").options is not ToolDefinition("f").options


def test_unset_fields_are_none():
    assert msgspec.to_builtins(ChatRequest(model="a/b", messages=())) == {"model": "a/b", "messages": ()}


def test_unknown_model_has_permissive_traits():
    traits = ModelTraits()

    assert not traits.known
    assert (traits.sampling, traits.forced_tool_choice, traits.prefill) == ("ok", "ok", "ok")
    assert traits.efforts is None


def test_loss_fields():
    assert (
        repr(Loss("rule", Location(0), "a token"))
        == "Loss(kind='rule', location=Location(message=0), detail='a token')"
    )
