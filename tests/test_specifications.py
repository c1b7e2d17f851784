"""The names and deviations that docs/specifications.md lists: one test per row of the names table."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import tenuto.interop
import tenuto.reasoning
from tenuto import (
    Agent,
    AssistantMessage,
    ChatResponse,
    Choice,
    Client,
    LLMError,
    Reasoning,
    Text,
    ToolCallView,
    ToolResult,
    ToolResults,
    ToolUse,
    Usage,
    UserMessage,
    resolve,
    tool,
)
from tenuto.catalog import PROVIDERS
from tenuto.client.parameters import ProviderConfig
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    Block,
    Document,
    GeminiMeta,
    Image,
    Opaque,
    OpenAiMeta,
    ServerToolResult,
    ServerToolUse,
)
from tenuto.core.events import ContentDone, ContentStart, Delta, ErrorEvent, MessageDone, StreamEvent
from tenuto.core.journal import SessionMeta, SessionState
from tenuto.core.loss import Loss
from tenuto.core.messages import Content, Message, StopReason, SystemMessage
from tenuto.core.provider import ChatSwitches, Provider, Target
from tenuto.core.request import ChatRequest, JsonSchema, ResponseFormat, ServerTool, ToolDefinition
from tenuto.core.stored import dump_block
from tenuto.errors import ConnectionFailed, MissingKey, RateLimited, StreamAssemblyError, UnsupportedModel
from tenuto.interop import from_data_json, to_data_json, to_unified
from tenuto.middleware import LogEntry, cache, fallback, logger, response_middleware, retry
from tenuto.reasoning import (
    OpenRouterReasoningCodec,
    ReasoningCodec,
    ReasoningFormat,
    ReasoningItem,
    ReplayAudit,
    ReplayContract,
    audit_replay,
    from_openrouter_value,
)
from tenuto.store.protocol import Store
from tenuto.tools import Toolbox
from tenuto.tools.toolbox import ToolDispatcher
from tenuto.wire.assembler import BlockAssembler, BlockKey
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat import switches
from tenuto.wire.provider_errors import classify_error, extract_message
from tenuto.wire.write import write_request

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "specifications.md").read_text("utf-8")


def stored(block):
    return json.loads(dump_block(block))


def encode(model, **parameters):
    """Return the body of a request and the parameters that were lost."""
    wire = write_request(ChatRequest(model=model, messages=(UserMessage("Hi"),), **parameters), resolve(model))
    return json.loads(wire.body), [str(loss.location) for loss in wire.losses]


def test_every_name_has_a_test():
    table = PAGE[PAGE.index("\n## Names") : PAGE.index("\n## Deviations")]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]

    assert len(rows) > 40
    assert [] == [cells[0] for cells in rows if len(cells) != 3 or "::test_" not in cells[2]]


def test_every_implemented_promise_has_a_test():
    rows = [line for line in PAGE[PAGE.index("\n## S0:") :].splitlines() if re.match(r"\| (?:S\d-|C)\d", line)]
    untested = [line.split("|")[1].strip() for line in rows if "::test_" not in line and "**later**" not in line]

    # two tasks that do not apply, and a distinction that Python does not have
    assert untested == ["S4-20", "C8", "C66"]


@pytest.mark.parametrize("package", [tenuto.reasoning, tenuto.interop], ids=lambda package: package.__name__)
def test_interop_page_lists_every_public_name(package):
    page = (ROOT / "docs" / "interop.md").read_text("utf-8")
    names = [name for name, value in vars(package).items() if name[0] != "_" and not inspect.ismodule(value)]

    assert len(names) >= 6
    assert [] == [name for name in names if not re.search(rf"\b{name}\b", page)]


# --- blocks and messages ----------------------------------------------------------------------------------------------


def test_blocks_are_one_union():
    assert {Text, Reasoning, ToolUse} < set(get_args(Block))
    assert len(get_args(Block)) == 13


def test_blocks_have_the_specified_tags():
    blocks = (Text("a"), Reasoning("a"), ToolUse("i", "f", "{}"))

    assert [stored(block)["block_type"] for block in blocks] == ["text", "reasoning", "tool_use"]


def test_thinking_part_is_a_reasoning_block():
    assert Reasoning("a", meta=AnthropicMeta("s")).type == "thinking"
    assert Reasoning(meta=AnthropicRedactedMeta("d")).type == "redacted_thinking"


def test_tool_call_part_is_a_tool_use_block():
    call = ToolUse("i", "f", '{"a":1}')
    (view,) = AssistantMessage((call,)).tool_calls()

    assert call.type == "tool_call"
    assert (view.id, view.name, view.args) == ("i", "f", '{"a":1}')
    assert not hasattr(view, "arguments")


def test_server_tool_parts_are_server_tool_blocks():
    assert ServerToolUse("i", "f").type == "server_tool_call"
    assert ServerToolResult("i").type == "server_tool_result"


def test_provider_meta_variants_have_their_tags():
    metas = (AnthropicMeta("s"), GeminiMeta("s"), OpenAiMeta("rs"), AnthropicRedactedMeta("d"))
    tags = [stored(Reasoning("a", meta=meta))["meta"]["provider"] for meta in metas]

    assert tags == ["anthropic", "gemini", "open_ai", "anthropic_redacted"]


def test_messages_are_one_union():
    assert set(get_args(Message)) == {SystemMessage, UserMessage, AssistantMessage, ToolResults}


def test_content_part_is_content():
    assert set(get_args(Content)) == {Text, Image, Audio, Document, Opaque}


def test_message_types_keep_their_names():
    assert ToolResult("i", "ok").tool_use_id == "i"
    assert str(AssistantMessage((Text("a"), Reasoning("b")))) == "a"
    assert (Usage(input_tokens=1) + Usage(input_tokens=2)).input_tokens == 3


def test_stop_reason_has_the_word_of_the_provider():
    """`stop_reason` of a message or reply, `finish_reason` of a choice or event."""
    message = AssistantMessage((), "length", "max_tokens")

    assert set(get_args(StopReason)) == {"stop", "length", "tool_calls", "content_filter", "error"}
    assert (message.stop_reason, message.raw_stop_reason) == ("length", "max_tokens")
    assert Choice(message).finish_reason == "length"


# --- requests, responses, events --------------------------------------------------------------------------------------


def test_tool_definition_keeps_its_name():
    assert ToolDefinition("f").kind == "function"
    assert ServerTool("web_search").kind == "web_search"


def test_request_types_keep_their_names():
    assert JsonSchema in get_args(ResponseFormat)
    assert ChatRequest(model="a/b", messages=()).temperature is None


def test_response_separates_message_and_usage():
    message = AssistantMessage((Text("a"),))
    response = ChatResponse("id", "p", "m", (Choice(message),), Usage(input_tokens=1))

    assert (response.message, response.usage) == (message, Usage(input_tokens=1))
    assert not hasattr(message, "usage")


def test_choice_accessors_are_in_snake_case():
    image, audio = Image("d", "image/png"), Audio("d", "audio/wav")
    choice = Choice(AssistantMessage((Reasoning("t"), Text("a"), ToolUse("i", "f", "{}"), image, audio)))

    assert (choice.text, choice.thinking, choice.images, choice.audio) == ("a", "t", [image], audio)
    assert [call.name for call in choice.tool_calls] == ["f"]


def test_events_are_one_union():
    with Client() as client, client.stream("sim/anthropic", "Hello") as stream:
        types = [event.type for event in stream]

    assert (types[0], types[-1]) == ("message.start", "message.done")
    assert set(types) < {kind.__struct_config__.tag for kind in get_args(StreamEvent)}


def test_content_start_has_the_block():
    start = ContentStart(0, 0, ToolUse("i", "f", ""))

    assert (start.part.id, start.part.name, start.part.type) == ("i", "f", "tool_call")
    assert "tool_call.arguments" in {kind.__struct_config__.tag for kind in get_args(Delta)}


def test_stream_ends_with_message_done():
    with Client() as client, client.stream("sim/anthropic", "Hello") as stream:
        *_, last = stream

    assert isinstance(last, MessageDone)
    assert last.response == stream.reply.response
    assert ErrorEvent("a").type == "error"


def test_content_done_has_the_complete_block():
    with Client() as client, client.stream("sim/anthropic", "Hello", effort="high") as stream:
        done = [event.part for event in stream if isinstance(event, ContentDone)]

    assert tuple(done) == stream.reply.content


# --- assembler, reasoning ---------------------------------------------------------------------------------------------


def test_assembler_keeps_its_name_and_returns_keys():
    assembler = BlockAssembler()
    keys = [assembler.on_reasoning_start(), assembler.on_tool_call_start("i")]

    assert all(isinstance(key, BlockKey) for key in keys)


def test_assembler_builds_text_and_reasoning():
    assembler = BlockAssembler()
    assembler.on_text_delta("a")
    assembler.on_reasoning_start()
    assembler.on_reasoning_delta("b")
    assembler.on_reasoning_complete()

    assert assembler.finalize() == [Text("a"), Reasoning("b")]


def test_stream_assembly_errors_keep_their_names():
    assert {kind.__name__ for kind in StreamAssemblyError.__subclasses__()} == {
        "OrphanedToolDelta",
        "OrphanedReasoningDelta",
        "DuplicateToolStart",
        "UnknownToolComplete",
        "UnknownToolFinalize",
        "InvalidArgsJson",
    }


def test_reasoning_types_keep_their_names():
    """`from_openrouter_value` is a function: `ReasoningItem` is a union."""
    value = {"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "a", "signature": "s"}
    item = from_openrouter_value(value)

    assert isinstance(item, get_args(ReasoningItem))
    assert ReasoningFormat.from_wire("anthropic-claude-v1").replay_contract() is ReplayContract.REQUIRED_WITH_TOOLS
    assert isinstance(OpenRouterReasoningCodec(), ReasoningCodec)
    assert item.to_openrouter_value() == value


def test_audit_replay_keeps_its_signature():
    audit = audit_replay([], ReplayContract.ALWAYS_REQUIRED, True)

    assert isinstance(audit, ReplayAudit)
    assert audit.violation is not None


# --- registry, errors, documents --------------------------------------------------------------------------------------


def test_provider_entry_is_a_provider():
    assert all(isinstance(row, Provider) for row in PROVIDERS.values())
    assert PROVIDERS["groq"].base_url == "https://api.groq.com/openai/v1"


def test_transform_is_the_dialect():
    rows = ("openai", "anthropic", "google", "groq")

    assert [PROVIDERS[name].dialect for name in rows] == [
        "openai-responses",
        "anthropic-messages",
        "gemini",
        "openai-chat",
    ]


def test_filter_params_is_four_switches():
    builder = BodyBuilder(
        ChatRequest(model="m", messages=()), Target(Provider("here", "openai-chat", ""), "m", "openai-chat")
    )
    builder.body = {"user": "u", "old": 1, "top_p": 3.0}

    switches.adjust_body(
        builder,
        ChatSwitches(strip=("user",), rename={"old": "new"}, clamp={"top_p": (0.0, 1.0)}, defaults={"seed": 7}),
    )

    assert builder.body == {"new": 1, "top_p": 1.0, "seed": 7}


def test_parse_model_is_resolve():
    target = resolve("openrouter/meta-llama/llama-3.3-70b-instruct")

    assert (target.provider.name, target.model) == ("openrouter", "meta-llama/llama-3.3-70b-instruct")


def test_classify_error_is_failure():
    error = classify_error('{"error": {"message": "slow down"}}', provider="groq", status=429)

    assert isinstance(error, RateLimited)
    assert (error.provider, error.status, error.retryable) == ("groq", 429, True)
    assert extract_message({"error": {"message": "slow down"}}) == "slow down"


def test_llm_error_takes_positional_arguments():
    error = LLMError("slow down", "groq", 429, True, "{}")

    assert (error.message, error.provider, error.status) == ("slow down", "groq", 429)
    assert (error.retryable, error.raw) == (True, "{}")
    assert LLMError("a").retryable is False


def test_unsupported_model_keeps_its_fields():
    error = UnsupportedModel("m", "no tools")

    assert (error.model, error.reason) == ("m", "no tools")


def test_provider_metadata_is_in_the_unified_document():
    response = ChatResponse("id", "p", "m", (), extra='{"system_fingerprint":"fp"}')

    assert to_unified(response)["providerMetadata"] == {"systemFingerprint": "fp"}


def test_warnings_are_losses():
    request = ChatRequest(model="anthropic/claude-opus-4-6", messages=(UserMessage("a"),), seed=1)
    (loss,) = write_request(request, resolve(request.model)).losses

    assert isinstance(loss, Loss)
    assert str(loss.location) == "seed"


def test_data_json_rows_have_two_functions():
    message = AssistantMessage((ToolUse("i", "f", "{}"),), "tool_calls")

    assert from_data_json(to_data_json(message)) == message


# --- sessions, agents, client -----------------------------------------------------------------------------------------


def test_session_value_is_session_state():
    """`Session` is the live handle of an agent."""
    state = SessionState("s").push(UserMessage("a")).record_usage(Usage(input_tokens=10, output_tokens=5))

    assert state.total_usage() == Usage(input_tokens=10, output_tokens=5)
    assert SessionMeta().usage == Usage()
    assert type(Agent("sim/anthropic", store=None).session()).__name__ == "Session"


def test_total_tokens_counts_cached_tokens():
    state = SessionState("s").record_usage(Usage(input_tokens=10, cache_read_tokens=3, output_tokens=5))

    assert state.total_tokens() == 18


def test_dispatcher_has_definitions():
    @tool
    def weather(city: str) -> str:
        """Return the weather."""
        return city

    box: ToolDispatcher = Toolbox([weather])
    result = asyncio.run(box.dispatch(ToolCallView("i", "weather", '{"city":"Oslo"}')))

    assert [definition.name for definition in box.definitions()] == ["weather"]
    assert (result.tool_use_id, result.content, result.is_error) == ("i", "Oslo", False)


def test_agent_constructor_checks_the_model():
    with pytest.raises(UnsupportedModel):
        Agent("openai/gpt-4o", store=None)


def test_store_appends_entries():
    assert "drafts" in inspect.signature(Store.append).parameters
    assert not hasattr(Store, "save")


def test_agent_loop_is_the_client():
    client = Client(providers={"mine": {"base_url": "http://127.0.0.1:1/v1"}}, default_provider="groq")
    client.close()

    assert {"providers", "middleware", "default_provider"} <= inspect.signature(Client).parameters.keys()
    assert {"api_key", "base_url"} <= ProviderConfig.__annotations__.keys()
    with pytest.raises(AttributeError, match="'AgentLoop': use Client"):
        tenuto.AgentLoop  # noqa: B018  # an attribute with an effect


def test_middleware_keeps_its_names():
    assert all(callable(make) for make in (retry, fallback, cache, logger))
    assert LogEntry.__struct_fields__[:4] == ("provider", "model", "latency_ms", "status")


def test_command_has_run_and_resume():
    shown = subprocess.run([sys.executable, "-m", "tenuto", "--help"], capture_output=True, text=True, check=True)

    assert re.search(r"^ +run ", shown.stdout, re.MULTILINE)
    assert re.search(r"^ +resume ", shown.stdout, re.MULTILINE)


# --- deviations -------------------------------------------------------------------------------------------------------


def test_embed_accepts_one_dictionary():
    with Client() as client:
        response = client.embed({"model": "sim/openai/text-embedding-3-small", "input": ["a", "b"]})

    assert len(response.embeddings) == 2


def test_missing_key_is_an_error_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with Client() as client, pytest.raises(MissingKey, match="GROQ_API_KEY"):
        client.chat("groq/llama-3.3-70b-versatile", "Hi")


@pytest.mark.parametrize("model", ["openai/gpt-4o", "groq/llama-3.3-70b-versatile"])
def test_limit_is_sent_as_max_completion_tokens(model):
    body, _ = encode(model, max_tokens=5)

    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    "model, parameters",
    [
        ("together/meta-llama/Llama-3.3-70B-Instruct-Turbo", {"user": "u", "store": True, "parallel_tool_calls": True}),
        ("mistral/mistral-large-latest", {"logit_bias": {"1": 1.0}, "user": "u", "store": True, "top_k": 3}),
    ],
)
def test_stripped_parameters_are_losses(model, parameters):
    body, lost = encode(model, tools=(ToolDefinition("f"),), **parameters)

    assert {*lost} == {*parameters}
    assert not parameters.keys() & body.keys()


def test_penalties_go_to_gemini_models_that_accept_them():
    refused, lost = encode("google/gemini-2.5-flash", frequency_penalty=0.5)

    assert "generationConfig" not in refused
    assert lost == ["frequency_penalty"]
    accepted = encode("google/gemini-3-flash-preview", frequency_penalty=0.5)
    assert accepted == ({**refused, "generationConfig": {"frequencyPenalty": 0.5}}, [])


def test_logger_writes_to_logging_by_default(capsys, caplog):
    with caplog.at_level(logging.INFO, "tenuto"), Client(middleware=[logger()]) as client:
        client.chat("sim/anthropic", "Hi")
    (entry,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tenuto"]

    assert (entry["provider"], entry["status"]) == ("sim", "ok")
    assert capsys.readouterr() == ("", "")


def fails_with(error):
    async def middleware(request, next):
        requests.append(request.model)
        raise error
        yield  # makes this an async generator

    requests: list[str] = []
    return middleware, requests


@pytest.mark.parametrize("error, models", [(ConnectionFailed("down"), 2), (RuntimeError("bug"), 1)])
def test_fallback_follows_provider_errors_only(error, models):
    failing, requests = fails_with(error)
    with Client(middleware=[fallback(["sim/openai"]), failing]) as client, pytest.raises(type(error)):
        client.chat("sim/anthropic", "Hi")

    assert len(requests) == models


def test_retry_follows_other_errors_too():
    failing, requests = fails_with(RuntimeError("bug"))
    with Client(middleware=[retry(2, base=0.001), failing]) as client, pytest.raises(RuntimeError):
        client.chat("sim/anthropic", "Hi")

    assert len(requests) == 3


def test_middleware_options_are_in_seconds():
    assert inspect.signature(retry).parameters["base"].default == 1.0
    assert inspect.signature(cache).parameters["ttl"].default == 300.0
    with pytest.raises(TypeError, match="get and set"):
        cache({})


def test_response_middleware_wraps_the_specified_form():
    async def upper(request, next):
        response = await next(request)
        requests_seen.append(response.text)
        return response

    requests_seen: list[str] = []
    with Client(middleware=[response_middleware(upper)]) as client:
        reply = client.chat("sim/anthropic", "Hi")

    assert requests_seen == [reply.text]
