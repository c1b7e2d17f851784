"""The configuration of a session is stored in its journal and read back unchanged."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies as say
from agent.journals import entries_of
from tenuto import Agent, Client, user
from tenuto.agent.config import json_text, stored_parameters, tool_names
from tenuto.core import jsonio
from tenuto.core.journal import Configured, MessageAdded
from tenuto.core.next_request import NextRequest
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.core.stored import dump_payload, load_payload

APART = ("model", "messages", "tools", "stream", "n", "extra_headers")


def options_of(request: ChatRequest) -> dict:
    """Return the options that make a request."""
    defaults = ChatRequest(model="", messages=())
    return {
        field.name: getattr(request, field.name)
        for field in msgspec.structs.fields(ChatRequest)
        if field.name not in APART and getattr(request, field.name) != getattr(defaults, field.name)
    }


@settings(max_examples=60)
@given(say.requests(messages=st.just((user("Hi"),))), say.words)
def test_every_parameter_survives_its_journal(request, system):
    """The request after storing and reading the configuration is the same."""
    parameters, headers = stored_parameters({**options_of(request), "extra_headers": {"x": "y"}})
    tools = json_text([*(request.tools or ())])
    act = Configured("sim/anthropic", system=system, parameters=parameters, tools=tools, agent="a")
    following = NextRequest()
    for entry in entries_of([load_payload(dump_payload(act)), *map(MessageAdded, request.messages)]):
        following.apply(entry)
    rebuilt = following.request(request.tools or (), headers)

    assert load_payload(dump_payload(act)) == act
    assert options_of(rebuilt) == options_of(request)
    assert rebuilt.extra_headers == {"x": "y"}
    assert rebuilt.messages[-len(request.messages) :] == request.messages
    assert "x" not in jsonio.members(parameters or "{}")


@pytest.mark.parametrize(
    "options, error",
    [
        ({"aprove": bool}, "unknown option 'aprove' of an agent: did you mean 'approve'?"),
        ({"max_turns": 3}, "did you mean 'limits=Limits(turns=...)'?"),
        ({"hooks": [object()]}, "hooks: expected objects of a subclass of Hooks"),
        ({"n": 2}, "unknown option 'n' of an agent"),
        ({"stream": True}, "unknown option 'stream' of an agent"),
        ({"limits": {"turns": 3}}, "limits: expected Limits, got dict"),
        ({"client": Client()}, "client: expected AsyncClient, got Client"),
        ({"model": None}, "model: expected str, got NoneType"),
    ],
)
def test_wrong_agent_option_is_named(options, error):
    with pytest.raises(TypeError, match=re.escape(error)):
        Agent(**{"model": "sim/openai", "store": None, **options})


def test_only_tools_that_run_here_can_be_missing():
    """A server tool has no name of its own."""
    tools = json_text([ToolDefinition("add"), ServerTool("web_search"), ToolDefinition("sub")])

    assert tool_names(Configured("m", tools=tools)) == {"add", "sub"}
    assert tool_names(Configured("m")) == set()
