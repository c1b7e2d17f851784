"""Encode parameters and tools: one case per parameter and per switch."""

from __future__ import annotations

import pytest

from tenuto.core.provider import ModelTraits
from tenuto.core.request import JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from wire.gemini.encode_helpers import BUDGET, LEVEL, body, losses, target

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
WEATHER = ToolDefinition("weather", "Tells the weather", SCHEMA)
ALWAYS = ModelTraits(known=True, thinking=("level", "always"), efforts=("low", "high"))
PRO = ModelTraits(known=True, thinking=("budget", "always"))
NEVER = ModelTraits(known=True, thinking=("none",), thinking_default="no")
FIXED = ModelTraits(known=True, thinking=("always",))


@pytest.mark.parametrize(
    ("field", "value", "config"),
    [
        ("temperature", 0.5, {"temperature": 0.5}),
        ("top_p", 0.9, {"topP": 0.9}),
        ("top_k", 40, {"topK": 40}),
        ("max_tokens", 100, {"maxOutputTokens": 100}),
        ("stop", "END", {"stopSequences": ["END"]}),
        ("stop", ("a", "b"), {"stopSequences": ["a", "b"]}),
        ("n", 2, {"candidateCount": 2}),
        ("frequency_penalty", 0.1, {"frequencyPenalty": 0.1}),
        ("presence_penalty", 0.2, {"presencePenalty": 0.2}),
        ("seed", 7, {"seed": 7}),
        ("logprobs", True, {"responseLogprobs": True}),
        ("top_logprobs", 3, {"responseLogprobs": True, "logprobs": 3}),
        ("modalities", ("text", "image"), {"responseModalities": ["TEXT", "IMAGE"]}),
        ("response_format", "json_object", {"responseMimeType": "application/json"}),
        ("audio", {"voice": "Kore"}, {"speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}}),
        ("audio", {"languageCode": "de-DE"}, {"speechConfig": {"languageCode": "de-DE"}}),
    ],
)
def test_parameters_are_written_to_generation_config(field, value, config):
    assert body(**{field: value})["generationConfig"] == config
    assert losses(**{field: value}) == []


def test_unset_parameters_are_omitted():
    assert body().keys() == {"contents"}
    assert body(stop=(), response_format="text", modalities=()).keys() == {"contents"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logit_bias", {"1": 2.0}),
        ("user", "ann"),
        ("verbosity", "low"),
        ("container", "c"),
        ("cache", "5m"),
        ("parallel_tool_calls", False),
    ],
)
def test_unsupported_parameters_are_losses(field, value):
    assert body(**{field: value}).keys() == {"contents"}
    assert losses(**{field: value}) == [("unsupported-parameter", field)]


def test_unsupported_audio_fields_are_losses():
    assert losses(audio={"voice": "Kore", "format": "wav"}) == [("unsupported-parameter", "audio.format")]
    assert body(audio={"format": "wav"}).keys() == {"contents"}


def test_service_tier_and_store_are_losses_on_vertex():
    """Only the Gemini API has them."""
    assert body(service_tier="flex", store=False) == {**body(), "serviceTier": "flex", "store": False}
    assert body(service_tier="flex", store=False, to=target(vertex=True)).keys() == {"contents"}
    assert [path for _, path in losses(service_tier="flex", store=False, to=target(vertex=True))] == [
        "service_tier",
        "store",
    ]


# --- structured output ------------------------------------------------------------------------------------------------


def test_response_schema_is_written():
    output = JsonSchema(SCHEMA, description="A place")

    assert body(response_format=output)["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {**SCHEMA, "description": "A place"},
    }


def test_response_schema_is_lowered_without_json_schema():
    to = target(json_schema=False)

    assert body(response_format=JsonSchema(SCHEMA), to=to)["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    }
    assert losses(response_format=JsonSchema(SCHEMA), to=to) == [
        ("schema-lowered", "response_format.additionalProperties")
    ]


# --- tools ------------------------------------------------------------------------------------------------------------


def test_functions_are_declared_with_json_schema():
    assert body(tools=(WEATHER, ToolDefinition("now")))["tools"] == [
        {
            "functionDeclarations": [
                {"name": "weather", "description": "Tells the weather", "parametersJsonSchema": SCHEMA},
                {"name": "now"},
            ]
        }
    ]


def test_functions_are_lowered_without_json_schema():
    """Upper-case types; a function without parameters declares none."""
    to, empty = target(json_schema=False), ToolDefinition("now", parameters={"type": "object", "properties": {}})

    assert body(tools=(WEATHER, empty), to=to)["tools"][0]["functionDeclarations"] == [
        {
            "name": "weather",
            "description": "Tells the weather",
            "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
        },
        {"name": "now"},
    ]
    assert losses(tools=(WEATHER,), to=to) == [("schema-lowered", "tools[weather].parameters.additionalProperties")]


def test_unsupported_tool_fields_are_losses():
    tool = ToolDefinition("f", strict=True, cache="5m", options={"behavior": "NON_BLOCKING"})

    assert body(tools=(tool,))["tools"] == [{"functionDeclarations": [{"name": "f", "behavior": "NON_BLOCKING"}]}]
    assert [path for _, path in losses(tools=(tool,))] == ["tools[f].strict", "tools[f].cache"]


def test_custom_tool_becomes_function_with_string_input():
    function = body(tools=(ToolDefinition("sh", kind="custom"),))["tools"][0]["functionDeclarations"][0]

    assert function["parametersJsonSchema"]["properties"] == {"input": {"type": "string"}}
    assert losses(tools=(ToolDefinition("sh", kind="custom"),)) == [("custom-tool", "tools[sh]")]


@pytest.mark.parametrize(
    ("tool", "entry"),
    [
        (ServerTool("web_search"), {"googleSearch": {}}),
        (ServerTool("web_fetch"), {"urlContext": {}}),
        (ServerTool("url_context"), {"urlContext": {}}),
        (ServerTool("code_execution"), {"codeExecution": {}}),
        (ServerTool("google_maps", options={"enableWidget": True}), {"googleMaps": {"enableWidget": True}}),
        (
            ServerTool("file_search", options={"fileSearchStoreNames": ["a"]}),
            {"fileSearch": {"fileSearchStoreNames": ["a"]}},
        ),
        (ServerTool("mcp", options={"name": "m"}), {"mcpServers": [{"name": "m"}]}),
        (ServerTool("web_search", type="enterpriseWebSearch"), {"enterpriseWebSearch": {}}),
    ],
)
def test_server_tools_are_written(tool, entry):
    assert body(tools=(tool,))["tools"] == [entry]


def test_unknown_server_tool_is_a_loss():
    assert "tools" not in body(tools=(ServerTool("teleport"),))
    assert losses(tools=(ServerTool("teleport"),)) == [("unsupported-tool", "tools")]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        (NamedTool("weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_tool_choice_is_written(choice, config):
    assert body(tools=(WEATHER,), tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}


@pytest.mark.parametrize(("choice", "loss_count"), [("auto", 0), ("none", 0), ("required", 1), (NamedTool("f"), 1)])
def test_tool_choice_is_omitted_without_functions(choice, loss_count):
    assert "toolConfig" not in body(tools=(ServerTool("web_search"),), tool_choice=choice)
    assert len(losses(tools=(ServerTool("web_search"),), tool_choice=choice)) == loss_count


@pytest.mark.parametrize("to", [target(), target(LEVEL)])
def test_mixed_tools_include_server_side_invocations(to):
    request = body(tools=(WEATHER, ServerTool("web_search")), to=to)

    assert request["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert len(request["tools"]) == 2
    assert losses(tools=(WEATHER, ServerTool("web_search")), to=to) == []


@pytest.mark.parametrize("to", [target(BUDGET), target(NEVER), target(LEVEL, vertex=True), target(vertex=True)])
def test_server_tools_are_losses_next_to_functions(to):
    """Models before Gemini 3, and Vertex always, refuse both in one request."""
    tools = (WEATHER, ServerTool("web_search"), ServerTool("code_execution"))
    request = body(tools=tools, to=to)

    assert [[*tool] for tool in request["tools"]] == [["functionDeclarations"]]
    assert "toolConfig" not in request
    assert losses(tools=tools, to=to) == [("unsupported-tool", "tools")] * 2
    assert len(body(tools=tools[1:], to=to)["tools"]) == 2
    assert losses(tools=tools[1:], to=to) == []


@pytest.mark.parametrize(
    ("kind", "to", "has_config"),
    [
        *(("computer_use", to, False) for to in (target(BUDGET), target(LEVEL), target(LEVEL, vertex=True))),
        *(("mcp", to, has_config) for to, has_config in ((target(BUDGET), False), (target(LEVEL), True))),
    ],
)
def test_mixable_server_tools_are_sent_with_functions(kind, to, has_config):
    request = body(tools=(WEATHER, ServerTool(kind)), to=to)

    assert len(request["tools"]) == 2
    assert ("toolConfig" in request) is has_config
    assert losses(tools=(WEATHER, ServerTool(kind)), to=to) == []


# --- thinking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traits", "effort", "thinking", "config"),
    [
        (None, "low", None, {"thinkingLevel": "LOW", "includeThoughts": True}),
        (None, None, Thinking(budget=500), {"thinkingBudget": 500, "includeThoughts": True}),
        (None, "none", None, {"thinkingBudget": 0}),
        (None, None, Thinking("on"), {"includeThoughts": True}),
        (None, None, Thinking(show=False), {"includeThoughts": False}),
        (None, None, Thinking(), None),
        (LEVEL, "minimal", None, {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        (LEVEL, "high", Thinking(show=False), {"thinkingLevel": "HIGH", "includeThoughts": False}),
        (LEVEL, None, Thinking(budget=500), {"thinkingBudget": 500, "includeThoughts": True}),
        (BUDGET, "minimal", None, {"thinkingBudget": 1024, "includeThoughts": True}),
        (BUDGET, "medium", None, {"thinkingBudget": 8192, "includeThoughts": True}),
        (BUDGET, "max", None, {"thinkingBudget": 24576, "includeThoughts": True}),
        (BUDGET, "low", Thinking(budget=500), {"thinkingBudget": 500, "includeThoughts": True}),
        (BUDGET, "none", None, {"thinkingBudget": 0}),
        (BUDGET, None, Thinking("off"), {"thinkingBudget": 0}),
        (BUDGET, None, Thinking(budget=0), {"thinkingBudget": 0}),
        (BUDGET, "none", Thinking("on"), {"includeThoughts": True}),
        (NEVER, "none", None, None),
    ],
)
def test_thinking_sets_level_or_budget(traits, effort, thinking, config):
    """A level or a budget, depending on the model, never both."""
    request = body(effort=effort, thinking=thinking, to=target(traits))

    assert request.get("generationConfig", {}).get("thinkingConfig") == config
    assert losses(effort=effort, thinking=thinking, to=target(traits)) == []


@pytest.mark.parametrize(
    ("traits", "effort", "thinking", "config", "loss_kind"),
    [
        (LEVEL, "xhigh", None, {"thinkingLevel": "HIGH", "includeThoughts": True}, "effort-mapped"),
        (LEVEL, "low", Thinking(budget=9), {"thinkingLevel": "LOW", "includeThoughts": True}, "no-thinking-budget"),
        (LEVEL, "none", None, {"thinkingLevel": "MINIMAL"}, "thinking-stays-on"),
        (ALWAYS, None, Thinking("off"), {"thinkingLevel": "LOW"}, "thinking-stays-on"),
        (PRO, "none", None, {"thinkingBudget": 128}, "thinking-stays-on"),
        (FIXED, "none", None, None, "thinking-stays-on"),
        (FIXED, "high", None, None, "no-such-thinking"),
        (NEVER, "high", None, None, "no-such-thinking"),
    ],
)
def test_unsupported_thinking_is_a_loss(traits, effort, thinking, config, loss_kind):
    request = body(effort=effort, thinking=thinking, to=target(traits))

    assert request.get("generationConfig", {}).get("thinkingConfig") == config
    assert [kind for kind, _ in losses(effort=effort, thinking=thinking, to=target(traits))] == [loss_kind]
