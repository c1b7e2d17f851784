"""The official clients in two-turn loops with tools and thinking: no refusal; one changed byte of a token, the refusal."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from tenuto.sim import Simulator
from tenuto.sim.script import CallTool, Say, Think

TURNS = (
    (Think("Oslo first, then Bergen."), CallTool("weather", {"city": "Oslo"}), CallTool("weather", {"city": "Bergen"})),
    (Think("And now Paris."), CallTool("weather", {"city": "Paris"})),
    (Say("Rain, rain and sun."),),
)
WAYS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def sim():
    with Simulator(script=TURNS) as simulator:
        yield simulator


@pytest.fixture(autouse=True)
def _fresh(sim):
    sim.clear()


def spoilt(token: str) -> str:
    """Change one byte in the middle of a token; it stays well-formed."""
    at = len(token) // 2
    return f"{token[:at]}{'A' if token[at] != 'A' else 'B'}{token[at + 1 :]}"


# --- Anthropic --------------------------------------------------------------------------------------------------------

CLAUDES = {
    "claude-haiku-4-5": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    "claude-opus-4-6": {"thinking": {"type": "adaptive"}},
    "claude-opus-5-5": {},
}


def claude(sim, model: str, *, stream: bool, spoil: bool = False) -> str:
    with anthropic.Anthropic(base_url=sim.base_url, api_key="k", max_retries=0) as theirs:
        messages: list[Any] = [{"role": "user", "content": "Weather in Oslo and Bergen?"}]
        tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
        while True:
            asked: Any = {"model": model, "max_tokens": 9000, "messages": messages, "tools": tools, **CLAUDES[model]}
            if stream:
                with theirs.messages.stream(**asked) as events:
                    message = events.get_final_message()
            else:
                message = theirs.messages.create(**asked)
            if message.stop_reason != "tool_use":
                return "".join(block.text for block in message.content if block.type == "text")
            content = [block.model_dump(exclude_none=True) for block in message.content]
            for block in content:
                if spoil and block["type"] == "thinking":
                    block["signature"] = spoilt(block["signature"])
            calls = [block.id for block in message.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call, "content": "rain"} for call in calls]
            messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]


@WAYS
@pytest.mark.parametrize("model", CLAUDES)
def test_anthropic(sim, model, stream):
    assert claude(sim, model, stream=stream) == "Rain, rain and sun."
    assert len(sim.requests) == 3
    sim.assert_clean()
    assert {"ANT-THINK-01", "ANT-THINK-02", "ANT-THINK-04", "ANT-TOOL-01", "ANT-TOOL-02"} <= set(sim.exercised)


@WAYS
@pytest.mark.parametrize("model", CLAUDES)
def test_anthropic_spoilt(sim, model, stream):
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking` block"):
        claude(sim, model, stream=stream, spoil=True)
    with pytest.raises(AssertionError, match="ANT-THINK-02"):
        sim.assert_clean()


# --- OpenAI Responses -------------------------------------------------------------------------------------------------


def gpt(sim, *, stream: bool, store: bool, spoil: bool = False) -> str:
    with openai.OpenAI(base_url=f"{sim.base_url}/v1", api_key="k", max_retries=0) as theirs:
        items: list[Any] = [{"role": "user", "content": "Weather in Oslo and Bergen?"}]
        tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
        while True:
            asked: Any = {
                "model": "gpt-5.2",
                "input": items,
                "tools": tools,
                "reasoning": {"effort": "high"},
                "store": store,
            }
            if stream:
                with theirs.responses.create(**asked, stream=True) as events:
                    (response,) = [event.response for event in events if event.type == "response.completed"]
            else:
                response = theirs.responses.create(**asked)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            output = [item.model_dump(exclude_none=True) for item in response.output]
            for item in output:
                if item["type"] == "reasoning":
                    item.pop("status", None)
                    if spoil:
                        item["encrypted_content"] = spoilt(item["encrypted_content"])
            items += output
            items += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]


@pytest.mark.parametrize("store", [True, False], ids=["stored", "stateless"])
@WAYS
def test_responses(sim, stream, store):
    assert gpt(sim, stream=stream, store=store) == "Rain, rain and sun."
    assert len(sim.requests) == 3
    sim.assert_clean()
    assert {"OAR-REAS-01", "OAR-REAS-03", "OAR-REAS-05", "OAR-TOOL-01", "OAR-TOOL-02"} <= set(sim.exercised)


@WAYS
def test_responses_spoilt(sim, stream):
    with pytest.raises(openai.BadRequestError, match="could not be verified") as refused:
        gpt(sim, stream=stream, store=False, spoil=True)
    assert refused.value.code == "invalid_encrypted_content"


def test_responses_by_id(sim):
    """With the server's memory: only what is new is sent."""
    with openai.OpenAI(base_url=f"{sim.base_url}/v1", api_key="k", max_retries=0) as theirs:
        tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
        response = theirs.responses.create(model="gpt-5.2", input="Weather in Oslo and Bergen?", tools=tools)
        while calls := [item for item in response.output if item.type == "function_call"]:
            results: Any = [{"type": "function_call_output", "call_id": c.call_id, "output": "rain"} for c in calls]
            response = theirs.responses.create(
                model="gpt-5.2", input=results, tools=tools, previous_response_id=response.id
            )
        assert response.output_text == "Rain, rain and sun."
        with pytest.raises(openai.BadRequestError, match="Previous response with id"):
            theirs.responses.create(model="gpt-5.2", input="Hi", previous_response_id="resp_nobody")


# --- Chat Completions -------------------------------------------------------------------------------------------------


def chat(sim, model: str, *, stream: bool, forget: bool = False) -> str:
    with openai.OpenAI(base_url=f"{sim.base_url}/v1", api_key="k", max_retries=0) as theirs:
        messages: list[Any] = [{"role": "user", "content": "Weather in Oslo and Bergen?"}]
        tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        while True:
            asked: Any = {"model": model, "messages": messages, "tools": tools}
            if stream:
                with theirs.chat.completions.stream(**asked) as events:
                    reasoning = ""
                    for event in events:
                        if event.type == "chunk" and event.chunk.choices:
                            reasoning += getattr(event.chunk.choices[0].delta, "reasoning_content", None) or ""
                    message = events.get_final_completion().choices[0].message
            else:
                message = theirs.chat.completions.create(**asked).choices[0].message
                reasoning = getattr(message, "reasoning_content", None) or ""
            if not message.tool_calls:
                return message.content or ""
            calls = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls]
            for call in calls:
                call["function"].pop("parsed_arguments", None)
            assistant: dict[str, Any] = {"role": "assistant", "content": message.content, "tool_calls": calls}
            if reasoning and not forget:
                assistant["reasoning_content"] = reasoning
            messages.append(assistant)
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]


@WAYS
@pytest.mark.parametrize("model", ["deepseek-v4-pro", "kimi-k2.6", "gpt-4o", "chat"])
def test_chat(sim, model, stream):
    assert chat(sim, model, stream=stream) == "Rain, rain and sun."
    sim.assert_clean()


@WAYS
@pytest.mark.parametrize(
    ("model", "text"),
    [("deepseek-v4-pro", "must be passed back to the API"), ("kimi-k2.6", "reasoning_content is missing")],
)
def test_chat_forgotten(sim, model, text, stream):
    with pytest.raises(openai.BadRequestError, match=text):
        chat(sim, model, stream=stream, forget=True)


# --- Gemini -----------------------------------------------------------------------------------------------------------


def gemini(sim, *, stream: bool, spoil: bool = False) -> str:
    options = types.HttpOptions(base_url=sim.base_url)
    with genai.Client(api_key="k", vertexai=False, http_options=options) as theirs:
        contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Weather in Oslo and Bergen?")])]
        function: Any = {"name": "weather", "parameters_json_schema": SCHEMA}
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[function])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            thinking_config=types.ThinkingConfig(include_thoughts=True),
        )
        while True:
            asked: Any = {"model": "gemini-3-pro-preview", "contents": contents, "config": config}
            parts: list[types.Part] = []
            if stream:
                for chunk in theirs.models.generate_content_stream(**asked):
                    parts += (chunk.candidates[0].content and chunk.candidates[0].content.parts) or []
            else:
                parts += theirs.models.generate_content(**asked).candidates[0].content.parts
            calls = [part.function_call for part in parts if part.function_call]
            if not calls:
                return "".join(part.text or "" for part in parts if not part.thought)
            if spoil:
                parts = [_spoilt_part(part) for part in parts]
            answers = [
                types.Part(function_response=types.FunctionResponse(id=c.id, name=c.name, response={"output": "rain"}))
                for c in calls
            ]
            contents += [types.Content(role="model", parts=parts), types.Content(role="user", parts=answers)]


def _spoilt_part(part: types.Part) -> types.Part:
    if not part.thought_signature:
        return part
    token = spoilt(base64.b64encode(part.thought_signature).decode())
    return part.model_copy(update={"thought_signature": base64.b64decode(token)})


@WAYS
def test_gemini(sim, stream):
    assert gemini(sim, stream=stream) == "Rain, rain and sun."
    assert len(sim.requests) == 3
    sim.assert_clean()
    assert {"GEM-SIG-01", "GEM-SIG-02", "GEM-TURN-02"} <= set(sim.exercised)


@WAYS
def test_gemini_spoilt(sim, stream):
    with pytest.raises(errors.ClientError, match="Corrupted thought signature"):
        gemini(sim, stream=stream, spoil=True)
