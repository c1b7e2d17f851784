"""The switches of the chat dialect, one case each."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import Image, Text
from tenuto.core.messages import AssistantMessage, SystemMessage, UserMessage
from tenuto.core.provider import ChatSwitches, ModelTraits, Provider, Target
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, Thinking, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat.encode import encode
from wire.chat.cases import only

BASE = {"model": "m", "messages": (UserMessage("Hi"),)}
TOOLS = (ToolDefinition("f"), ToolDefinition("sql", kind="custom"))


def encode_body(request: dict, switches: dict | None = None, **traits) -> tuple[dict, list[tuple[str, str]]]:
    """Return the body without its constant fields, and the losses."""
    row = Provider("here", "openai-chat", "", chat=ChatSwitches(**switches or {}))
    wire = encode(BodyBuilder(ChatRequest(**BASE, **request), Target(row, "m", "openai-chat", ModelTraits(**traits))))
    body = json.loads(wire.body)
    assert (body.pop("model"), body.pop("messages")) == ("m", [{"role": "user", "content": "Hi"}])
    if body.get("stream") is False:
        del body["stream"]
    return body, [(loss.kind, str(loss.location)) for loss in wire.losses]


# --- the finished body ------------------------------------------------------------------------------------------------


def test_strip_removes_fields_with_losses():
    body, losses = encode_body({"seed": 1, "top_p": 0.5, "stream": True}, {"strip": ("seed", "n", "stream_options")})

    assert body == {"top_p": 0.5, "stream": True}
    assert losses == [("stripped-parameter", "seed")]


def test_rename_changes_present_fields():
    switches = {"rename": {"seed": "random_seed", "user": "user_id"}}

    assert encode_body({"seed": 1}, switches) == ({"random_seed": 1}, [])


def test_clamp_limits_present_numbers():
    switches = {"clamp": {"n": 1, "temperature": (0, 1), "top_p": (0.1, 1)}}

    assert encode_body({"n": 3, "temperature": 1.5, "top_p": 0.05}, switches) == (
        {"n": 1, "temperature": 1, "top_p": 0.1},
        [("clamped-parameter", "n"), ("clamped-parameter", "temperature"), ("clamped-parameter", "top_p")],
    )
    assert encode_body({"n": 1, "temperature": 0.5}, switches) == ({"n": 1, "temperature": 0.5}, [])
    assert encode_body({"logprobs": True}, {"clamp": {"logprobs": 0}}) == ({"logprobs": True}, [])


def test_defaults_are_set_for_absent_fields():
    switches = {"defaults": {"max_tokens": 4096, "reasoning_split": True}}

    assert encode_body({"max_tokens": 5}, switches) == ({"max_tokens": 5, "reasoning_split": True}, [])


def test_order_is_strip_rename_clamp_defaults():
    switches = {
        "strip": ("user",),
        "rename": {"seed": "random_seed"},
        "clamp": {"random_seed": (0, 9)},
        "defaults": {"user": "x", "random_seed": 3},
    }

    assert encode_body({"seed": 11, "user": "me"}, switches)[0] == {"random_seed": 9, "user": "x"}
    assert encode_body({"seed": 11, "user": "me"}, {"strip": ("seed",), "rename": {"user": "seed"}})[0] == {
        "seed": "me"
    }


def test_metadata_and_extra_body_are_merged_last():
    request = {
        "seed": 1,
        "metadata": {"here": {"seed": 2, "safe": True}, "there": {"x": 1}},
        "extra_body": {"safe": False},
    }

    assert encode_body(request, {"strip": ("seed",)})[0] == {"seed": 2, "safe": False}


# --- thinking ---------------------------------------------------------------------------------------------------------

ON, OFF = Thinking("on"), Thinking("off")


@pytest.mark.parametrize(
    ("request_", "switches", "body"),
    [
        ({"effort": "low"}, {}, {"reasoning_effort": "low"}),
        ({"effort": "none"}, {}, {"reasoning_effort": "none"}),
        ({"effort": "low"}, {"effort_field": "reasoning.effort"}, {"reasoning": {"effort": "low"}}),
        ({"effort": "minimal"}, {"effort_words": {"minimal": "tiny"}}, {"reasoning_effort": "tiny"}),
        ({"thinking": ON}, {"thinking_toggle": "thinking.type"}, {"thinking": {"type": "enabled"}}),
        ({"thinking": OFF}, {"thinking_toggle": "thinking.type"}, {"thinking": {"type": "disabled"}}),
        ({"thinking": OFF}, {"thinking_toggle": "enable_thinking"}, {"enable_thinking": False}),
        ({"thinking": ON}, {"thinking_toggle": "reasoning.enabled"}, {"reasoning": {"enabled": True}}),
        ({"thinking": OFF}, {"thinking_toggle": "template"}, {"chat_template_kwargs": {"enable_thinking": False}}),
        ({"thinking": OFF}, {"thinking_toggle": "disable_reasoning"}, {"disable_reasoning": True}),
        ({"thinking": OFF}, {}, {"reasoning_effort": "none"}),
        ({"effort": "none"}, {"thinking_toggle": "enable_thinking"}, {"enable_thinking": False}),
        (
            {"effort": "high", "thinking": ON},
            {"thinking_toggle": "thinking.type"},
            {"reasoning_effort": "high", "thinking": {"type": "enabled"}},
        ),
        ({"effort": "high", "thinking": ON}, {"thinking_toggle": "thinking.type", "one_thinking_field": True}, {"reasoning_effort": "high"}),
        ({"effort": "high"}, {"with_thinking": {"reasoning_format": "parsed"}}, {"reasoning_effort": "high", "reasoning_format": "parsed"}),
        ({"effort": "none"}, {"with_thinking": {"reasoning_format": "parsed"}}, {"reasoning_effort": "none"}),
        (
            {"thinking": Thinking("on", budget=2000)},
            {"thinking_toggle": "thinking.type", "budget_field": "thinking.budget_tokens"},
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        ),
        ({"thinking": Thinking(budget=2000)}, {"budget_field": "thinking_budget"}, {"thinking_budget": 2000}),
        ({"thinking": Thinking(show=True)}, {"show_field": "include_reasoning"}, {"include_reasoning": True}),
        ({"thinking": Thinking(show=True)}, {"show_field": "reasoning.exclude"}, {"reasoning": {"exclude": False}}),
    ],
)  # fmt: skip
def test_thinking_is_set_in_the_fields_of_the_provider(request_, switches, body):
    assert encode_body(request_, switches) == (body, [])


def test_effort_becomes_toggle_for_models_without_efforts():
    assert encode_body({"effort": "high"}, {"effort_field": "", "thinking_toggle": "enable_thinking"}) == (
        {"enable_thinking": True},
        [("effort-degree", "effort")],
    )
    assert encode_body({"effort": "high"}, {"thinking_toggle": "enable_thinking"}, thinking=("toggle",))[0] == {
        "enable_thinking": True
    }


def test_models_with_efforts_only_get_no_toggle():
    switches = {"thinking_toggle": "thinking.type"}

    assert encode_body({"effort": "low"}, switches, thinking=("effort",), efforts=("low", "high")) == (
        {"reasoning_effort": "low"},
        [],
    )
    assert encode_body({"thinking": OFF}, switches, thinking=("effort",), efforts=("none", "high")) == (
        {"reasoning_effort": "none"},
        [],
    )
    assert encode_body({"thinking": OFF}, switches, thinking=("effort", "always"), efforts=("low",))[1] == [
        ("unsupported-parameter", "thinking.mode")
    ]


def test_effort_none_is_sent_to_models_that_know_it():
    switches = {"thinking_toggle": "enable_thinking"}

    assert encode_body({"effort": "none"}, switches, efforts=("none", "high")) == ({"reasoning_effort": "none"}, [])


@pytest.mark.parametrize(
    ("request_", "switches", "location"),
    [
        ({"effort": "low"}, {"effort_field": ""}, "effort"),
        ({"thinking": ON}, {}, "thinking.mode"),
        ({"thinking": Thinking("between_tools")}, {"thinking_toggle": "enable_thinking"}, "thinking.mode"),
        ({"thinking": Thinking(budget=5)}, {}, "thinking.budget"),
        ({"thinking": Thinking(show=False)}, {}, "thinking.show"),
    ],
)
def test_unsupported_thinking_is_a_loss(request_, switches, location):
    assert encode_body(request_, switches)[1] == [("unsupported-parameter", location)]


# --- single parameters ------------------------------------------------------------------------------------------------


def test_max_tokens_uses_field_of_model_or_provider():
    completion = {"max_tokens_field": "max_completion_tokens"}

    assert encode_body({"max_tokens": 5})[0] == {"max_tokens": 5}
    assert encode_body({"max_tokens": 5}, completion)[0] == {"max_completion_tokens": 5}
    assert encode_body({"max_tokens": 5}, completion, max_tokens_field="max_tokens")[0] == {"max_tokens": 5}
    assert encode_body({"max_tokens": 5}, completion, max_tokens_field="max_output_tokens")[0] == {
        "max_completion_tokens": 5
    }


def test_stop_sequences():
    assert encode_body({"stop": "END"})[0] == {"stop": "END"}
    assert encode_body({"stop": "END"}, {"stop_as_list": True})[0] == {"stop": ["END"]}
    assert encode_body({"stop": ("a", "b", "c")}, {"stop_max": 2}) == (
        {"stop": ["a", "b"]},
        [("too-many-stops", "stop[2]")],
    )


def test_logprobs_are_flag_and_number_or_one_number():
    parameters = {"logprobs": True, "top_logprobs": 3}

    assert encode_body(parameters)[0] == parameters
    assert encode_body(parameters, {"logprobs_as_number": True})[0] == {"logprobs": 3}
    assert encode_body({"logprobs": True}, {"logprobs_as_number": True})[0] == {"logprobs": 1}
    assert encode_body({"logprobs": False}, {"logprobs_as_number": True})[0] == {}


def test_tool_choice():
    def choice(parameters, **switches):
        return encode_body({"tools": TOOLS, "tool_choice": parameters}, switches)[0].get("tool_choice")

    assert choice("auto") == "auto"
    assert choice("required") == "required"
    assert choice("required", required_word="any") == "any"
    assert choice(NamedTool("f")) == {"type": "function", "function": {"name": "f"}}
    assert choice(NamedTool("sql")) == {"type": "custom", "custom": {"name": "sql"}}
    assert choice("none") == "none"


def test_tools_are_omitted_if_choice_none_is_ignored():
    assert encode_body({"tools": TOOLS, "tool_choice": "none"}, {"none_drops_tools": True}) == (
        {},
        [("dropped-tools", "tools")],
    )


def test_tool_choice_is_omitted_without_tools():
    assert encode_body({"tool_choice": "required", "parallel_tool_calls": False}) == (
        {},
        [("unsupported-parameter", "tool_choice")],
    )
    assert encode_body({"tool_choice": "auto"}) == ({}, [])


def test_parallel_tool_calls_is_sent():
    assert encode_body({"tools": TOOLS, "parallel_tool_calls": False})[0]["parallel_tool_calls"] is False


SCHEMA = JsonSchema({"type": "object"}, name="city", strict=True, description="A city.")


def test_response_formats():
    assert encode_body({"response_format": "json_object"})[0] == {"response_format": {"type": "json_object"}}
    assert encode_body({"response_format": SCHEMA})[0] == {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "city", "schema": {"type": "object"}, "strict": True, "description": "A city."},
        }
    }
    assert encode_body({"response_format": SCHEMA}, {"json_schema": False}) == (
        {"response_format": {"type": "json_object"}},
        [("dropped-schema", "response_format")],
    )
    assert encode_body({"response_format": SCHEMA}, structured_output="none") == (
        {},
        [("unsupported-parameter", "response_format")],
    )


def test_stream_options_are_sent_if_switched():
    assert encode_body({"stream": True})[0] == {"stream": True, "stream_options": {"include_usage": True}}
    assert encode_body({"stream": True}, {"stream_options": False})[0] == {"stream": True}


def test_cache_control_is_sent_if_switched():
    assert encode_body({"cache": "5m"}, {"cache_control": True}) == ({"cache_control": {"type": "ephemeral"}}, [])
    assert encode_body({"cache": "1h"}, {"cache_control": True})[0] == {
        "cache_control": {"type": "ephemeral", "ttl": "1h"}
    }
    assert encode_body({"cache": "1h"}) == ({}, [("cache-hint", "cache")])
    tool = ToolDefinition("f", cache="5m")
    assert encode_body({"tools": (tool,)}, {"cache_control": True})[0]["tools"][0]["cache_control"] == {
        "type": "ephemeral"
    }
    assert encode_body({"tools": (tool,)})[1] == [("cache-hint", "tools.f")]


def test_strict_tools():
    tools = {"tools": (ToolDefinition("f", strict=True),)}

    assert encode_body(tools)[0]["tools"][0]["function"]["strict"] is True
    body, losses = encode_body(tools, {"strict_tools": False})
    assert "strict" not in body["tools"][0]["function"]
    assert losses == [("unsupported-parameter", "tools.f.strict")]


# --- roles -----------------------------------------------------------------------------------------------------------


def test_same_role_messages_are_joined_with_alternate():
    image = Image(url="https://example.org/d.png")
    messages = (
        SystemMessage("a"),
        SystemMessage("b"),
        UserMessage("c"),
        UserMessage((Text("d"), image)),
        AssistantMessage((Text("e"),)),
        AssistantMessage((Text("f"),)),
        UserMessage("g"),
    )

    assert len(only(*messages)) == len(messages)
    joined = only(*messages, switches=ChatSwitches(alternate=True))
    assert [message["role"] for message in joined] == ["system", "system", "user", "assistant", "user"]
    assert [part.get("text") for part in joined[2]["content"]] == ["c", "d", None]
    assert [message["content"] for message in joined[3:]] == ["e\n\nf", "g"]
