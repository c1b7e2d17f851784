"""Encode a request: one case for each parameter, type of content and type of result."""

from __future__ import annotations

import base64
import json

import pytest

from tenuto.core.blocks import Audio, Document, Image, Opaque, OpenAiMeta, Text, ToolUse
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage, user
from tenuto.core.provider import ModelTraits, Provider, ResponsesSwitches, Target
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.responses.encode import encode

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ToolDefinition("weather", "Tells the weather.", SCHEMA)
THINKS = ModelTraits(known=True, thinking=("effort",))


UNKNOWN = ModelTraits()
COMMON = ResponsesSwitches()


def wire(*messages, traits: ModelTraits = UNKNOWN, switches: ResponsesSwitches = COMMON, **fields):
    provider = Provider("here", "openai-responses", "", responses=switches)
    target = Target(provider, "gpt-5.6-sol", "openai-responses", traits)
    return encode(
        BodyBuilder(ChatRequest(model="here/gpt-5.6-sol", messages=messages or (user("Hi."),), **fields), target)
    )


def encode_body(*messages, **fields) -> dict:
    return json.loads(wire(*messages, **fields).body)


def find_losses(*messages, **fields) -> list[tuple[str, str]]:
    return [(loss.kind, str(loss.location)) for loss in wire(*messages, **fields).losses]


def test_plain_request():
    """Storage is off, and encrypted content is requested."""
    assert encode_body() == {
        "model": "gpt-5.6-sol",
        "input": [{"type": "message", "role": "user", "content": "Hi."}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert (wire().method, wire().path, wire().losses) == ("POST", "/responses", ())


@pytest.mark.parametrize(
    "parameters, body",
    [
        ({"max_tokens": 9}, {"max_output_tokens": 9}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        (
            {"top_logprobs": 2},
            {"top_logprobs": 2, "include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        ),
        ({"logprobs": True}, {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]}),
        ({"user": "u1"}, {"safety_identifier": "u1"}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"stream": True}, {"stream": True}),
        ({"store": True}, {"store": True}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"response_format": "json_object"}, {"text": {"format": {"type": "json_object"}}}),
        ({"response_format": "text"}, {"text": {"format": {"type": "text"}}}),
        (
            {"response_format": JsonSchema(SCHEMA, "city", strict=True, description="d")},
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "city",
                        "schema": SCHEMA,
                        "strict": True,
                        "description": "d",
                    }
                }
            },
        ),
        (
            {"response_format": JsonSchema(SCHEMA), "verbosity": "high"},
            {"text": {"format": {"type": "json_schema", "name": "response", "schema": SCHEMA}, "verbosity": "high"}},
        ),
        ({"effort": "high"}, {"reasoning": {"effort": "high"}}),
        ({"effort": "none", "thinking": Thinking(show=True)}, {"reasoning": {"effort": "none"}}),
        ({"thinking": Thinking(show=True)}, {"reasoning": {"summary": "auto"}}),
        ({"thinking": Thinking(mode="off")}, {"reasoning": {"effort": "none"}}),
        ({"metadata": {"here": {"truncation": "auto"}, "there": {"x": 1}}}, {"truncation": "auto"}),
        ({"extra_body": {"background": True, "store": True}}, {"background": True, "store": True}),
        ({"n": 1, "modalities": ("text",)}, {}),
    ],
)
def test_parameter_is_sent_under_its_name(parameters, body):
    assert encode_body(**parameters) == {**encode_body(), **body}
    assert find_losses(**parameters) == []


@pytest.mark.parametrize(
    "parameters, path",
    [
        ({"stop": "x"}, "stop"),
        ({"seed": 1}, "seed"),
        ({"n": 2}, "n"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logit_bias": {"1": 2.0}}, "logit_bias"),
        ({"top_k": 3}, "top_k"),
        ({"modalities": ("text", "audio")}, "modalities"),
        ({"audio": {"voice": "ash"}}, "audio"),
        ({"container": "c"}, "container"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"thinking": Thinking(budget=9)}, "thinking.budget"),
        ({"thinking": Thinking(mode="between_tools")}, "thinking.mode"),
    ],
)
def test_unsupported_parameter_is_loss(parameters, path):
    assert find_losses(**parameters) == [("unsupported-parameter", path)]
    assert encode_body(**parameters) == encode_body()


@pytest.mark.parametrize(
    "traits, parameters, reasoning",
    [
        (THINKS, {}, {"effort": "medium", "summary": "auto"}),
        (THINKS, {"effort": "low"}, {"effort": "low", "summary": "auto"}),
        (THINKS, {"thinking": Thinking(show=False)}, {"effort": "medium"}),
        (THINKS, {"effort": "none"}, {"effort": "none"}),
        (
            ModelTraits(thinking=("effort",), efforts=("high",), effort_default="high"),
            {},
            {"effort": "high", "summary": "auto"},
        ),
        (ModelTraits(thinking=("always",), efforts=()), {}, {"summary": "auto"}),
        (ModelTraits(thinking=("none",)), {}, None),
        (ModelTraits(), {}, None),
    ],
)
def test_reasoning_model_gets_default_effort_and_summary(traits, parameters, reasoning):
    assert encode_body(traits=traits, **parameters).get("reasoning") == reasoning


def test_sampling_prevents_default_effort():
    traits = ModelTraits(
        known=True, thinking=("effort",), efforts=("none", "medium"), sampling="only_without_reasoning"
    )

    assert encode_body(traits=traits)["reasoning"]["effort"] == "medium"
    assert "effort" not in encode_body(traits=traits, temperature=0.3)["reasoning"]


def test_model_without_reasoning_gets_no_include():
    silent = ModelTraits(known=True, thinking=("none",))

    assert "include" not in encode_body(traits=silent)
    assert encode_body(traits=silent, logprobs=True)["include"] == ["message.output_text.logprobs"]


def test_stripped_fields_are_omitted():
    switches = ResponsesSwitches(strip=("temperature", "include", "nothing"))
    body = encode_body(switches=switches, temperature=1.0)

    assert not {"temperature", "include"} & body.keys()
    assert find_losses(switches=switches, temperature=1.0) == [("unsupported-parameter", "temperature")]


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool, form",
    [
        (WEATHER, {"type": "function", "name": "weather", "description": "Tells the weather.", "parameters": SCHEMA, "strict": False}),
        (ToolDefinition("f", strict=True), {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}),
        (ToolDefinition("f", parameters=SCHEMA, options={"defer_loading": True}), {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False, "defer_loading": True}),
        (ToolDefinition("sql", "d", kind="custom", options={"format": {"type": "text"}}), {"type": "custom", "name": "sql", "description": "d", "format": {"type": "text"}}),
        (ServerTool("web_search", options={"search_context_size": "low"}), {"type": "web_search", "search_context_size": "low"}),
        (ServerTool("web_search", type="web_search_preview"), {"type": "web_search_preview"}),
        (ServerTool("code_execution"), {"type": "code_interpreter", "container": {"type": "auto"}}),
        (ServerTool("file_search", options={"vector_store_ids": ["v"]}), {"type": "file_search", "vector_store_ids": ["v"]}),
        (ServerTool("image_generation"), {"type": "image_generation"}),
        (ServerTool("mcp", options={"server_label": "d", "server_url": "u"}), {"type": "mcp", "server_label": "d", "server_url": "u"}),
        (ServerTool("web_fetch", type="web_fetch"), {"type": "web_fetch"}),
    ],
)  # fmt: skip
def test_tool_form(tool, form):
    assert encode_body(tools=(tool,))["tools"] == [form]


def test_server_tool_of_other_dialect_is_loss():
    assert find_losses(tools=(ServerTool("web_fetch"),)) == [("unsupported-tool", "tools[0]")]
    assert "tools" not in encode_body(tools=(ServerTool("web_fetch"),))


def test_container_is_sent_with_code_interpreter():
    request = {"tools": (ServerTool("code_execution"),), "container": "cntr_1"}

    assert encode_body(**request)["tools"] == [{"type": "code_interpreter", "container": "cntr_1"}]
    assert find_losses(**request) == []


@pytest.mark.parametrize(
    "choice, form",
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        (NamedTool("weather"), {"type": "function", "name": "weather"}),
        (NamedTool("sql"), {"type": "custom", "name": "sql"}),
        (NamedTool("code_execution"), {"type": "code_interpreter"}),
        (NamedTool("web_search"), {"type": "web_search"}),
        (NamedTool("unknown_tool"), {"type": "function", "name": "unknown_tool"}),
    ],
)
def test_tool_choice_form(choice, form):
    tools = (WEATHER, ToolDefinition("sql", kind="custom"), ServerTool("code_execution"), ServerTool("web_search"))
    body = encode_body(tools=tools, tool_choice=choice, parallel_tool_calls=False)

    assert (body["tool_choice"], body["parallel_tool_calls"]) == (form, False)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_system_messages_keep_their_position():
    body = encode_body(SystemMessage("Be brief."), user("Hi."), SystemMessage((Text("Be"), Text("nice."))))

    assert body["input"] == [
        {"type": "message", "role": "system", "content": "Be brief."},
        {"type": "message", "role": "user", "content": "Hi."},
        {
            "type": "message",
            "role": "system",
            "content": [{"type": "input_text", "text": "Be"}, {"type": "input_text", "text": "nice."}],
        },
    ]


def test_empty_conversation_is_empty_user_message():
    body = json.loads(
        encode(
            BodyBuilder(
                ChatRequest(model="m", messages=()),
                Target(Provider("h", "openai-responses", ""), "m", "openai-responses"),
            )
        ).body
    )

    assert body["input"] == [{"type": "message", "role": "user", "content": ""}]


@pytest.mark.parametrize(
    "part, form",
    [
        (Text("Hi."), {"type": "input_text", "text": "Hi."}),
        (Text("Hi.", extra='{"mark":1}'), {"type": "input_text", "text": "Hi.", "mark": 1}),
        (Text("Hi.", meta=OpenAiMeta(id="m"), extra='{"annotations":[]}'), {"type": "input_text", "text": "Hi."}),
        (Image(data="AA==", mime="image/jpeg"), {"type": "input_image", "detail": "auto", "image_url": "data:image/jpeg;base64,AA=="}),
        (Image(data="AA=="), {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="}),
        (Image(url="https://x/y.png", detail="high"), {"type": "input_image", "detail": "high", "image_url": "https://x/y.png"}),
        (Image(file_id="file_1"), {"type": "input_image", "detail": "auto", "file_id": "file_1"}),
        (Document(data="AA==", mime="application/pdf"), {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,AA=="}),
        (Document(data="AA==", mime="x/y", title="a.y"), {"type": "input_file", "filename": "a.y", "file_data": "data:x/y;base64,AA=="}),
        (Document(text="wörd"), {"type": "input_file", "filename": "document.txt", "file_data": "data:text/plain;base64," + base64.b64encode("wörd".encode()).decode()}),
        (Document(url="https://x/y.pdf"), {"type": "input_file", "file_url": "https://x/y.pdf"}),
        (Document(file_id="file_1"), {"type": "input_file", "file_id": "file_1"}),
        (Opaque("openai-responses", '{"type":"input_smell"}'), {"type": "input_smell"}),
    ],
)  # fmt: skip
def test_content_form(part, form):
    assert encode_body(UserMessage((part,)))["input"][0]["content"] == [form]
    assert find_losses(UserMessage((part,))) == []


@pytest.mark.parametrize(
    "message, loss",
    [
        (UserMessage((Audio(data="AA==", mime="audio/wav"),)), ("unsupported-content", "messages[0].blocks[0]")),
        (UserMessage((Opaque("gemini", "{}"),)), ("unreadable-block", "messages[0].blocks[0]")),
        (UserMessage((Opaque("openai-responses", "{"),)), ("unreadable-block", "messages[0].blocks[0]")),
        (UserMessage((Text("Hi.", cache="5m"),)), ("implicit-cache", "messages[0].blocks[0]")),
        (UserMessage((Document(url="u", context="c"),)), ("unsupported-field", "messages[0].blocks[0].context")),
        (UserMessage((Document(url="u", citations=True),)), ("unsupported-field", "messages[0].blocks[0].citations")),
        (UserMessage("Hi.", name="ann"), ("unsupported-field", "messages[0].name")),
    ],
)
def test_unsupported_content_is_loss(message, loss):
    assert find_losses(message) == [loss]


def test_cache_options_are_losses():
    assert find_losses(cache="5m", tools=(ToolDefinition("f", cache="1h"),)) == [
        ("implicit-cache", "cache"),
        ("implicit-cache", "tools[0]"),
    ]


def test_user_message_without_sendable_content_is_empty():
    assert encode_body(UserMessage((Audio(data="AA=="),)))["input"] == [
        {"type": "message", "role": "user", "content": ""}
    ]


# --- tool results -----------------------------------------------------------------------------------------------------


def encode_result(kind: str, result: ToolResult):
    """Return the output item for a call of this kind, and the losses."""
    call = AssistantMessage((ToolUse("c", "f", "{}", kind=kind),))
    request = wire(call, ToolResults((result,)))
    return json.loads(request.body)["input"][1], [(loss.kind, str(loss.location)) for loss in request.losses]


SCREEN = Image(url="https://x/y.png")
EXIT = {"type": "exit", "exit_code": 0}


@pytest.mark.parametrize(
    "kind, result, form",
    [
        ("function", ToolResult("c", "rain"), {"type": "function_call_output", "output": "rain"}),
        ("function", ToolResult("c", "no", is_error=True), {"type": "function_call_output", "output": "Error: no"}),
        ("function", ToolResult("c", (Text("no"),), is_error=True), {"type": "function_call_output", "output": [{"type": "input_text", "text": "Error:"}, {"type": "input_text", "text": "no"}]}),
        ("custom", ToolResult("c", "Error 5", is_error=True), {"type": "custom_tool_call_output", "output": "Error 5"}),
        ("function", ToolResult("c", (Text("a"), SCREEN)), {"type": "function_call_output", "output": [{"type": "input_text", "text": "a"}, {"type": "input_image", "detail": "auto", "image_url": "https://x/y.png"}]}),
        ("function", ToolResult("c", "rain", extra='{"status":"completed"}'), {"type": "function_call_output", "output": "rain", "status": "completed"}),
        ("custom", ToolResult("c", "1"), {"type": "custom_tool_call_output", "output": "1"}),
        ("local_shell_call", ToolResult("c", "a"), {"type": "local_shell_call_output", "output": "a", "id": "c"}),
        ("shell_call", ToolResult("c", "a"), {"type": "shell_call_output", "output": [{"stdout": "a", "stderr": "", "outcome": EXIT}]}),
        ("shell_call", ToolResult("c", "a", is_error=True), {"type": "shell_call_output", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]}),
        ("shell_call", ToolResult("c", '[{"stdout":"","stderr":"e","outcome":{"type":"timeout"}}]'), {"type": "shell_call_output", "output": [{"stdout": "", "stderr": "e", "outcome": {"type": "timeout"}}]}),
        ("apply_patch_call", ToolResult("c", "ok"), {"type": "apply_patch_call_output", "status": "completed", "output": "ok"}),
        ("apply_patch_call", ToolResult("c", "no", is_error=True), {"type": "apply_patch_call_output", "status": "failed", "output": "no"}),
        ("computer_call", ToolResult("c", (SCREEN,)), {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "https://x/y.png"}}),
        ("tool_search_call", ToolResult("c", '[{"type":"web_search"}]'), {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": [{"type": "web_search"}]}),
    ],
)  # fmt: skip
def test_result_form_follows_call_type(kind, result, form):
    assert encode_result(kind, result) == ({**form, "call_id": "c"}, [])


@pytest.mark.parametrize(
    "result, form",
    [
        (ToolResult("c", ""), {"approve": True}),
        (ToolResult("c", "never", is_error=True), {"approve": False, "reason": "never"}),
    ],
)
def test_approval_form_follows_is_error(result, form):
    item, losses = encode_result("mcp_approval_request", result)

    assert item == {"type": "mcp_approval_response", "approval_request_id": "c", **form}
    assert losses == []


@pytest.mark.parametrize(
    "kind, result, path",
    [
        ("apply_patch_call", ToolResult("c", (Text("a"), SCREEN)), "messages[1].blocks[0].content[1]"),
        ("computer_call", ToolResult("c", "I saw it"), "messages[1].blocks[0]"),
        ("tool_search_call", ToolResult("c", "nothing"), "messages[1].blocks[0]"),
    ],
)
def test_result_that_does_not_fit_its_call_is_loss(kind, result, path):
    assert encode_result(kind, result)[1] == [("unsupported-content", path)]


def test_result_without_call_is_function_output():
    assert encode_body(ToolResults((ToolResult("c", "rain"),)))["input"] == [
        {"type": "function_call_output", "call_id": "c", "output": "rain"}
    ]


def test_lone_surrogate_is_replaced_with_loss():
    assert encode_body(user("a\ud83d"))["input"][0]["content"] == "a\ufffd"
    assert find_losses(user("a\ud83d")) == [("lone-surrogate", "body")]
