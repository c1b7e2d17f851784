"""Tests of fitting a request to the traits of its model."""

from __future__ import annotations

import json

import pytest

from tenuto.core.messages import SystemMessage, UserMessage
from tenuto.core.provider import ModelTraits, Provider, Target
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.wire.capabilities import apply_traits

ROW = Provider("here", "openai-chat", "")


def fit(traits: ModelTraits, *messages, dialect="openai-chat", **fields):
    request = ChatRequest(model="m", messages=messages or (UserMessage("Hi"),), **fields)
    return apply_traits(request, Target(ROW, "m", dialect, traits))


def traits(**fields) -> ModelTraits:
    return ModelTraits(known=True, **fields)


def rules(losses) -> list[str]:
    return [loss.kind for loss in losses]


def test_request_for_unknown_model_is_unchanged():
    request = ChatRequest(model="m", messages=(UserMessage("Hi"),), temperature=2.0, effort="max", max_tokens=10**9)

    assert apply_traits(request, Target(ROW, "m", "openai-chat")) == (request, ())


@pytest.mark.parametrize("sampling, fields, stays", [
    ("ok", {}, True), ("rejected", {}, False), ("ignored", {}, False),
    ("only_without_reasoning", {"effort": "none"}, True), ("only_without_reasoning", {"effort": "low"}, False),
    ("only_without_reasoning", {"thinking": Thinking("off")}, True), ("only_without_reasoning", {}, False),
])  # fmt: skip
def test_refused_sampling_is_dropped(sampling, fields, stays):
    """P10."""
    has = traits(
        sampling=sampling, efforts=("none", "low"), effort_default="low", thinking_default="yes", thinking=("effort",)
    )
    request, losses = fit(has, temperature=0.5, top_p=0.9, **fields)

    assert (request.temperature, request.top_p) == ((0.5, 0.9) if stays else (None, None))
    assert rules(losses) == ([] if stays else ["sampling-refused"] * 2)


def test_sampling_is_accepted_with_default_effort_none():
    has = traits(
        sampling="only_without_reasoning", efforts=("none", "low"), effort_default="none", thinking_default="no"
    )

    assert fit(has, temperature=0.5)[0].temperature == 0.5
    always = traits(sampling="only_without_reasoning", thinking_default="always")
    assert fit(always, temperature=0.5, effort="none")[0].temperature is None


@pytest.mark.parametrize("requested, takes, mapped", [
    ("minimal", ("low", "high", "max"), "low"), ("medium", ("low", "high", "max"), "high"),
    ("xhigh", ("low", "high", "max"), "high"), ("max", ("low", "medium", "high"), "high"),
    ("none", ("low", "high"), "low"), ("high", ("low", "high"), "high"), ("low", ("medium",), "medium"),
    ("low", (), None), ("low", ("default",), None),
])  # fmt: skip
def test_effort_is_mapped_to_nearest(requested, takes, mapped):
    """P9: efforts are per-model data."""
    request, losses = fit(traits(efforts=takes, thinking=("effort",), thinking_default="yes"), effort=requested)

    assert request.effort == mapped
    assert rules(losses) == ([] if mapped == requested else ["effort-mapped"])


def test_effort_stays_if_encoder_can_express_it():
    """A budget or a toggle expresses it; a model that does not think by default needs no `none`."""
    assert fit(traits(efforts=(), thinking=("budget",)), effort="low")[0].effort == "low"
    assert fit(traits(efforts=("low",), thinking=("toggle", "effort")), effort="none")[0].effort == "none"
    assert fit(traits(efforts=("low",), thinking_default="no"), effort="none")[1] == ()
    assert fit(traits(efforts=None), effort="max")[0].effort == "max"


@pytest.mark.parametrize("rule, fields, stays", [
    ("ok", {}, True), ("rejected", {}, False), ("ignored", {}, False),
    ("not_with_thinking", {}, True), ("not_with_thinking", {"effort": "low"}, False),
])  # fmt: skip
@pytest.mark.parametrize("choice", ["required", NamedTool("f")])
def test_refused_tool_choice_becomes_auto(rule, fields, stays, choice):
    has = traits(forced_tool_choice=rule, thinking=("budget", "disabled"), thinking_default="no", efforts=())
    request, losses = fit(has, tools=(ToolDefinition("f"),), tool_choice=choice, **fields)

    assert request.tool_choice == (choice if stays else "auto")
    assert rules(losses) == ([] if stays else ["forced-choice-refused"])
    assert fit(has, tools=(ToolDefinition("f"),), tool_choice="none", **fields)[1] == ()


def test_tools_are_dropped_for_model_without_tools():
    has = traits(tools=False, parallel_tools=False)
    request, losses = fit(has, tools=(ToolDefinition("f"), ToolDefinition("g")), parallel_tool_calls=True)

    assert (request.tools, request.parallel_tool_calls) == ((), None)
    assert losses[0].detail == "f, g"
    assert rules(losses) == ["no-tools", "no-parallel-tools"]


def test_max_tokens_is_clamped():
    request, losses = fit(traits(max_output=100), max_tokens=200)

    assert (request.max_tokens, rules(losses)) == (100, ["clamped"])
    assert fit(traits(max_output=100), max_tokens=50)[1] == ()


@pytest.mark.parametrize(
    "means, form", [("native", "schema"), ("prompt", "json_object"), ("tool", "json_object"), ("none", None)]
)
def test_unsupported_schema_moves_to_instructions(means, form):
    schema = JsonSchema({"type": "object"})
    request, losses = fit(traits(structured_output=means), response_format=schema)

    assert request.response_format == (schema if form == "schema" else form)
    if form != "schema":
        assert isinstance(request.transcript[0], SystemMessage)
        assert json.loads(str(request.transcript[0]).partition(": ")[2]) == {"type": "object"}
        assert rules(losses) == ["no-structured-output"]
    assert fit(traits(structured_output="none"), response_format="json_object")[0].response_format is None
    assert fit(traits(structured_output="prompt"), response_format="json_object")[1] == ()


GEMINI_2 = traits(thinking=("budget",))


def test_schema_moves_to_instructions_with_functions():
    """Gemini before 3 refuses JSON by its media type if functions are declared."""
    schema, tools = JsonSchema({"type": "object"}), (ToolDefinition("f"),)
    request, losses = fit(GEMINI_2, dialect="gemini", response_format=schema, tools=tools)

    assert request.response_format is None
    assert request.tools == tools
    assert '{"type":"object"}' in str(request.transcript[0])
    assert rules(losses) == ["no-structured-output"]
    assert "without functions" in losses[0].remedy
    request, losses = fit(GEMINI_2, dialect="gemini", response_format="json_object", tools=tools)
    assert request.response_format is None
    assert [(loss.kind, str(loss.location)) for loss in losses] == [("no-structured-output", "response_format")]


@pytest.mark.parametrize(
    "has, dialect, fields",
    [
        (GEMINI_2, "gemini", {}),
        (GEMINI_2, "gemini", {"tools": (ServerTool("web_search"),)}),
        (traits(thinking=("level",)), "gemini", {"tools": (ToolDefinition("f"),)}),
        (GEMINI_2, "openai-chat", {"tools": (ToolDefinition("f"),)}),
    ],
)
def test_response_format_stays_if_supported(has, dialect, fields):
    for response_format in (JsonSchema({"type": "object"}), "json_object"):
        request, losses = fit(has, dialect=dialect, response_format=response_format, **fields)

        assert request.response_format == response_format
        assert losses == ()


def test_forced_tool_choice_works_with_adaptive_thinking():
    """Only a budget excludes it."""
    has = traits(
        forced_tool_choice="not_with_thinking",
        thinking=("adaptive", "budget"),
        thinking_default="no",
        efforts=("high",),
    )
    tools = (ToolDefinition("f"),)

    assert fit(has, tools=tools, tool_choice="required", effort="high")[1] == ()
    assert rules(fit(has, tools=tools, tool_choice="required", thinking=Thinking("on", 2000))[1]) == [
        "forced-choice-refused"
    ]


def test_chat_tools_need_effort_none():
    """Some models accept them only without reasoning, some never; other dialects do not change."""
    tools = (ToolDefinition("f"),)
    off = traits(chat_tools="effort_none", efforts=("none", "low"), effort_default="low", thinking_default="yes")
    request, losses = fit(off, tools=tools, effort="low")

    assert (request.effort, rules(losses)) == ("none", ["effort-mapped"])
    assert fit(off, tools=tools)[0].effort == "none"
    assert fit(off, tools=tools, effort="none")[1] == ()
    assert fit(off, effort="low")[1] == ()
    assert fit(off, tools=tools, effort="low", dialect="openai-responses")[1] == ()
    request, losses = fit(traits(chat_tools="rejected"), tools=tools, tool_choice="required")
    assert (request.tools, request.tool_choice, rules(losses)) == ((), None, ["no-tools"])


def test_refused_parameters_are_dropped():
    """Of parameters that exclude each other, the first stays."""
    request, losses = fit(
        traits(refuses=("stop", "seed"), exclusive=("temperature", "top_p")), stop="x", temperature=1.0, top_p=0.5
    )

    assert (request.stop, request.temperature, request.top_p) == (None, 1.0, None)
    assert [str(loss.location) for loss in losses] == ["stop", "top_p"]


def test_budget_and_effort_when_off_are_limited():
    """A budget stays in its bounds (0: off); an effort is limited if thinking is off."""
    bounds = traits(budget=(128, 24576), thinking=("budget",))

    assert fit(bounds, thinking=Thinking("on", 10))[0].thinking.budget == 128
    assert fit(bounds, thinking=Thinking("on", 99999))[0].thinking.budget == 24576
    assert fit(bounds, thinking=Thinking("on", 0))[1] == ()
    assert fit(bounds, thinking=Thinking("on", 1000))[1] == ()
    off = traits(effort_when_off="high", efforts=("low", "high", "max"), thinking=("adaptive", "disabled"))
    request, losses = fit(off, thinking=Thinking("off"), effort="max")
    assert (request.effort, rules(losses)) == ("high", ["effort-mapped"])
    assert fit(off, thinking=Thinking("on"), effort="max")[1] == ()
    assert fit(off, thinking=Thinking("off"), effort="low")[1] == ()


def test_effort_is_lowered_with_thinking_between_tools():
    """Some models turn thinking off that way; other models keep the effort."""
    between = traits(effort_when_off="high", efforts=("low", "high", "max"), thinking=("adaptive", "between_tools"))
    request, losses = fit(between, thinking=Thinking("between_tools"), effort="max")

    assert (request.effort, rules(losses)) == ("high", ["effort-mapped"])
    other = traits(effort_when_off="high", efforts=("low", "high", "max"), thinking=("adaptive", "disabled"))
    assert fit(other, thinking=Thinking("between_tools"), effort="max")[0].effort == "max"


def test_logprobs_are_sampling_parameters():
    """`top_logprobs` without `logprobs` is dropped, too."""
    refusing = traits(sampling="rejected", thinking_default="always")
    request, losses = fit(refusing, top_logprobs=3)

    assert request.top_logprobs is None
    assert rules(losses) == ["sampling-refused"]
