"""The Messages dialect of the simulator: whole and streamed replies are equal, and are accepted when sent back."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.playing import SEED, TURNS, view, write
from tenuto.rules import Judgement, judge
from tenuto.rules.issued_tokens import content_digest
from tenuto.sim import providers
from tenuto.sim.anthropic_writer import DIALECT
from tenuto.sim.dialects import ParsedRequest
from tenuto.sim.prompt_cache import PromptCache
from tenuto.sim.script import (
    CallTool,
    Disconnect,
    Pause,
    Refuse,
    RunCode,
    Say,
    Search,
    SendImage,
    SlowStream,
    Stall,
    Stop,
    StreamError,
    Think,
    join_text,
)
from tenuto.sim.tokens import SeededRandom, TokenSealer

OPEN, BOUND = "claude-opus-4-6", "claude-opus-5-5"
"""A model that shows thinking and binds it to nothing, and one that binds it to the prefix."""
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
BUDGET = {"type": "enabled", "budget_tokens": 2000}
WEATHER = {
    "name": "weather",
    "description": "Current weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return user(*content) | {"role": "assistant"}


def body_of(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Build a body that no model refuses."""
    body = {"model": "any", "max_tokens": 4000, "tools": [WEATHER], "messages": list(messages) or [user("Weather?")]}
    return {name: value for name, value in {**body, **fields}.items() if value is not None}


def parsed(body: dict[str, Any], model: str = "", provider: str = "anthropic", **more: Any) -> ParsedRequest:
    name = f"{provider}/{model}" if model else provider
    row, id = providers.find(name, "anthropic-messages")
    plain = {key: value for key, value in body.items() if key != "stream"}
    headers = {"anthropic-beta": more.pop("betas", "")}
    return ParsedRequest(
        provider=row, target=providers.target(row, id), model=id, requested_model=name, account="me", headers=headers,
        body=body, digest=content_digest(json.dumps(plain), name), sealer=TokenSealer(SEED),
        stream=bool(body.get("stream")), **more,
    )  # fmt: skip


def verdict(body: dict[str, Any], model: str = "", **more: Any) -> Judgement:
    return judge(view(DIALECT, parsed(body, model, **more)))


def refused_rule(body: dict[str, Any], model: str = "", **more: Any) -> str:
    refusal = verdict(body, model, **more).refusal
    return refusal.rule.id if refusal else ""


def written(body: dict[str, Any], turn: Any, model: str = "", **more: Any) -> list[Any]:
    return write(DIALECT, parsed(body, model, **more), turn)


def reply(body: dict[str, Any], turn: Any, model: str = "", **more: Any) -> dict[str, Any]:
    (data,) = written({**body, "stream": False}, turn, model, **more)
    return json.loads(data)


def converse(body: dict[str, Any], *turns: Any, model: str = OPEN, **more: Any) -> dict[str, Any]:
    """Play turns; send each back unchanged, followed by results or by another user message."""
    for turn in turns:
        content = reply(body, turn, model, **more)["content"]
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": id, "content": "rain"} for id in calls]
        answer = user(*results) if results else user("And now?")
        body = {**body, "messages": [*body["messages"], assistant(*content), answer]}
    return json.loads(json.dumps(body))


def blocks(body: dict[str, Any], index: int = 1) -> list[dict[str, Any]]:
    return body["messages"][index]["content"]


def events(pieces: list[Any]) -> list[dict[str, Any]]:
    """Read frames. Each has its type twice."""
    found = []
    for piece in pieces:
        name, data, rest = piece.decode().split("\n", 2)
        assert rest == "\n"
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def streamed(body: dict[str, Any], turn: Any, model: str = "", **more: Any) -> list[dict[str, Any]]:
    return events(written({**body, "stream": True}, turn, model, **more))


def assemble(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the message of a stream."""
    message: dict[str, Any] = {}
    raw = ""
    for event in frames:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append({**event["content_block"]})
                raw = ""
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta" | "thinking_delta":
                        key = delta["type"].removesuffix("_delta")
                        block[key] += delta[key]
                    case "input_json_delta":
                        raw += delta["partial_json"]
                        block["input"] = raw
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case _:
                        block["citations"] = [*block["citations"], delta["citation"]]
            case "content_block_stop":
                block = message["content"][event["index"]]
                if "input" in block:
                    block["input"] = json.loads(block["input"] or "{}")
            case "message_delta":
                message |= event["delta"] | {"usage": message["usage"] | event["usage"]}
    return message


# --- whole and streamed -----------------------------------------------------------------------------------------------

MORE_TURNS = {
    **TURNS,
    "refusal": (Say("Well."), Refuse("No.", category="cyber")),
    "refusal alone": (Refuse(),),
    "pause": (Think("Hm."), Pause()),
    "length": (Say("One"), Stop("length")),
    "sequence": (Say("One"), Stop("stop_sequence", "END")),
    "filter": (Stop("filter"),),
    "nothing": (),
    "half a character": (Say("a\ud83d"), Say("b")),
    "failing code": (RunCode("1 / 0", "ZeroDivisionError", ok=False),),
}


@pytest.mark.parametrize("model", ["", OPEN, BOUND])
@pytest.mark.parametrize("turn", MORE_TURNS)
def test_stream_equals_whole_reply(turn, model):
    body = body_of(thinking={"type": "adaptive"})
    frames = streamed(body, MORE_TURNS[turn], model)
    types = [event["type"] for event in frames]

    assert assemble(frames) == reply(body, MORE_TURNS[turn], model)
    assert [types[0], *types[-2:]] == ["message_start", "message_delta", "message_stop"]
    assert "ping" in types


def test_same_request_gets_same_bytes():
    body = body_of(thinking=ADAPTIVE, stream=True)
    turn = (Think("Hm."), Search("rain"), Say("It rains."), CallTool("weather"))
    request = parsed(body)
    content = DIALECT.to_turn_request(view(DIALECT, request), request)

    assert written(body, turn) == DIALECT.write(content, turn, SeededRandom(SEED, request.digest))
    assert written(body, turn) != DIALECT.write(content, turn, SeededRandom("other", request.digest))


def test_ids_and_tokens_look_like_the_providers():
    long = "Thinking about it at length. " * 40
    message = reply(body_of(thinking=ADAPTIVE), (Think(long), Think("x"), RunCode("1"), CallTool("weather")))
    thinking, short, use, _, call = message["content"]

    assert re.fullmatch(r"msg_01[A-Za-z0-9]{22}", message["id"])
    assert re.fullmatch(r"toolu_01[A-Za-z0-9]{22}", call["id"])
    assert re.fullmatch(r"srvtoolu_01[A-Za-z0-9]{22}", use["id"])
    assert re.fullmatch(r"container_01[A-Za-z0-9]{22}", message["container"]["id"])
    assert len(long) < len(thinking["signature"]) < 3 * len(long)
    assert 200 < len(short["signature"]) < 600


def test_hidden_thinking_is_signed_and_empty():
    body = body_of()
    frames = streamed(body, (Think("Secret."), Say("Rain.")), "claude-opus-5")
    deltas = [event["delta"]["type"] for event in frames if event.get("index") == 0 and "delta" in event]

    assert deltas == ["signature_delta"]
    assert "Secret" not in json.dumps(frames)
    assert assemble(frames)["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    assert not refused_rule(converse(body, (Think("Secret."), Say("Rain.")), model="claude-opus-5"), "claude-opus-5")


def test_redacted_thinking_has_no_deltas():
    frames = streamed(body_of(thinking=ADAPTIVE), (Think("Secret.", redacted=True), Say("Rain.")))

    assert frames[1]["content_block"]["type"] == "redacted_thinking"
    assert len(frames[1]["content_block"]["data"]) > 200
    assert not [event for event in frames if "delta" in event and event.get("index") == 0]


def test_pieces_of_the_script_are_streamed_unchanged():
    frames = streamed(body_of(thinking=ADAPTIVE), (Think(["a", "", "b"]), Say(["c d", " e"])))
    deltas = [event["delta"] for event in frames if event["type"] == "content_block_delta"]

    assert [join_text(delta[key]) for delta in deltas for key in ("thinking", "text") if key in delta] == [
        "a", "", "b", "c d", " e",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "streamed_text", "whole"),
    [
        ('{"city": "Os', '{"city": "Os', {"INVALID_JSON": '{"city": "Os'}),
        ('{"city": "Oslo"}', '{"city": "Oslo"}', {"city": "Oslo"}),
        ({}, "", {}),
    ],
)
def test_arguments_of_the_script_are_written(args, streamed_text, whole):
    frames = streamed(body_of(), (CallTool("weather", args),))
    pieces = [event["delta"]["partial_json"] for event in frames if event["type"] == "content_block_delta"]

    assert pieces[0] == ""
    assert "".join(pieces) == streamed_text
    assert reply(body_of(), (CallTool("weather", args),))["content"][0]["input"] == whole


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "limit", "content"),
    [
        ((Say("abcdefgh"), Say("more")), 1, [("text", "abcd")]),
        ((Say("abcd"), Say("more")), 1, [("text", "abcd")]),
        ((Think(["abcd", "efgh"]), Say("more")), 1, [("thinking", "abcd")]),
        ((Say("more"),), 0, []),
    ],
)
def test_reply_ends_at_max_tokens(turn, limit, content):
    message = reply(body_of(thinking=ADAPTIVE, max_tokens=limit), turn)

    assert [(block["type"], block[block["type"]]) for block in message["content"]] == content
    assert message["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("limit", range(0, 16, 3))
@pytest.mark.parametrize(
    "step",
    [Search("rain in Oslo"), RunCode("print(6 * 7)", "42"), Pause(), CallTool("weather", {"city": "Ouagadougou"})],
)
def test_usage_stays_within_max_tokens(step, limit):
    body = body_of(max_tokens=limit)
    frames, whole = streamed(body, (Say("Well"), step)), reply(body, (Say("Well"), step))
    deltas = [event["delta"] for event in frames if event["type"] == "content_block_delta"]
    inputs = [block["input"] for block in whole["content"] if "input" in block]

    assert len("".join(delta.get("partial_json", "") for delta in deltas)) <= 4 * limit
    assert frames[-2]["usage"]["output_tokens"] == whole["usage"]["output_tokens"] <= limit
    assert ("container" in whole) == (isinstance(step, RunCode) and bool(inputs))
    assert ("server_tool_use" in whole["usage"]) == (isinstance(step, Search | RunCode) and bool(inputs))


def test_reply_ends_at_stop_sequence():
    message = reply(body_of(stop_sequences=["END", "rain"]), (Say(["It ra", "ins. END"]), Say("More")))
    short = reply(body_of(stop_sequences=["rain"], max_tokens=1), (Say("It may rain."),))

    assert [block["text"] for block in message["content"]] == ["It "]
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "rain")
    assert (short["stop_reason"], short["stop_sequence"]) == ("max_tokens", None)


@pytest.mark.parametrize(
    ("turn", "reason", "details"),
    [
        ((Say("x"),), "end_turn", None),
        ((CallTool("weather"), Say("x")), "tool_use", None),
        ((Refuse("No.", category="bio"),), "refusal", {"type": "refusal", "category": "bio", "explanation": "No."}),
        ((Stop("filter"),), "refusal", {"type": "refusal", "category": None, "explanation": None}),
        ((Pause(),), "pause_turn", None),
    ],
)
def test_stop_reason_of_a_turn(turn, reason, details):
    message = reply(body_of(), turn)

    assert (message["stop_reason"], message["stop_details"]) == (reason, details)


# --- faults -----------------------------------------------------------------------------------------------------------


def test_disconnect_leaves_a_block_open():
    pieces = written(body_of(thinking=ADAPTIVE, stream=True), (Think("Hm."), Disconnect(), Say("Rain.")))

    assert pieces[-1] == Disconnect()
    assert [event["type"] for event in events(pieces[:-1])][-1] == "content_block_delta"
    assert "signature_delta" not in repr(pieces)


def test_error_ends_a_stream():
    pieces = written(body_of(stream=True), (Say("Hm."), StreamError(529, "Overloaded"), Say("Rain.")))
    last = events(pieces[-1:])[0]

    assert last["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert last["request_id"].startswith("req_01")
    assert "message_stop" not in repr(pieces)


def test_faults_are_at_their_positions():
    turn = (Say("a"), Stall(1), SlowStream(3), CallTool("weather"))
    pieces = written(body_of(stream=True), turn)
    position = pieces.index(Stall(1))
    half, cut = written(body_of(), (Say("a"), Disconnect()))

    assert pieces[position + 1] == SlowStream(3)
    assert b"content_block_stop" in pieces[position - 1]
    assert b"content_block_start" in pieces[position + 2]
    assert written(body_of(), turn)[:2] == [Stall(1), SlowStream(3)]
    assert cut == Disconnect()
    assert written(body_of(), (Say("a"),))[0].startswith(half)


def test_text_continues_after_a_fault():
    turn = (Say("Hel"), Stall(1), Say("lo"), Say("you"))
    pieces = written(body_of(stream=True), turn)
    fault, whole = written(body_of(), turn)

    assert b"content_block_delta" in pieces[pieces.index(Stall(1)) - 1]
    assert fault == Stall(1)
    assert assemble(events([piece for piece in pieces if isinstance(piece, bytes)])) == json.loads(whole)
    assert [block["text"] for block in json.loads(whole)["content"]] == ["Hello", "you"]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_content_of_a_request_is_read():
    call = {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "rain"}]}
    schema = {"type": "object", "additionalProperties": False}
    body = body_of(
        user("Hi"), assistant(call), user(result, {"type": "text", "text": "So?"}),
        system=[{"type": "text", "text": "Be brief."}], stop_sequences=["END"],
        tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        output_config={"format": {"type": "json_schema", "schema": schema}},
    )  # fmt: skip
    request = parsed(body)
    content = DIALECT.to_turn_request(view(DIALECT, request), request)

    assert (content.turn, content.system, content.tool_choice, content.parallel) == (1, "Be brief.", "weather", False)
    assert [(message.role, message.text, message.calls, message.results) for message in content.messages] == [
        ("user", "Hi", 0, ()),
        ("assistant", "", 1, ()),
        ("user", "So?", 0, ("rain",)),
    ]
    assert (content.stop, content.schema, content.max_tokens) == (("END",), schema, 4000)
    assert [tool.name for tool in content.tools] == ["weather"]


@pytest.mark.parametrize(
    ("body", "model", "thinks"),
    [
        (body_of(), OPEN, False),
        (body_of(), "claude-3-5-haiku-latest", False),
        (body_of(), "claude-sonnet-5", True),
        (body_of(thinking={"type": "disabled"}), "claude-sonnet-5", False),
        (body_of(thinking={"type": "between_tools"}), "claude-sonnet-5-5", False),
        (body_of(thinking=ADAPTIVE), "", True),
    ],
)
def test_model_thinks_by_default_or_on_request(body, model, thinks):
    request = parsed(body, model)

    assert DIALECT.to_turn_request(view(DIALECT, request), request).thinks is thinks


def test_count_tokens_needs_no_max_tokens():
    request = parsed(body_of(max_tokens=None), method="count_tokens")
    content = DIALECT.to_turn_request(view(DIALECT, request), request)
    search = body_of(tools=[{"type": "web_search_20250305", "name": "web_search"}])

    assert DIALECT.count(content) == {"input_tokens": content.prompt_tokens}
    assert not refused_rule(body_of(max_tokens=None), method="count_tokens")
    assert refused_rule(search, method="count_tokens") == "ANT-SHAPE"


def test_image_has_a_fixed_number_of_tokens():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 900_000}}
    body = body_of(user(image))

    assert not refused_rule(body, "claude-haiku-4-5")
    assert 1500 < view(DIALECT, parsed(body)).prompt_tokens < 2000


def test_cached_prompt_is_counted():
    text = {"type": "text", "text": "word " * 2000, "cache_control": {"type": "ephemeral"}}
    cache = PromptCache()
    first = reply(body_of(user(text)), (Say("x"),), prompt_cache=cache)["usage"]
    second = reply(body_of(user(text), assistant("x"), user("y")), (Say("x"),), prompt_cache=cache)["usage"]
    hour = {**text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    longer = reply(body_of(user(hour)), (Say("x"),))["usage"]["cache_creation"]

    assert first["input_tokens"] < 8
    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation"]["ephemeral_5m_input_tokens"] == first["cache_creation_input_tokens"] > 2000
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert longer["ephemeral_1h_input_tokens"] > 2000 > longer["ephemeral_5m_input_tokens"] == 0


def test_thread_is_unknown_or_names_its_conflicts():
    """The official SDK reads both answers, and sends the whole conversation without a thread."""
    betas = "message-threads-2026-08-12"
    unknown = verdict(body_of(thread={"type": "continue", "previous_message_id": "msg_01"}), betas=betas).refusal
    conflict = verdict(body_of(thread={"type": "create"}, cache_control={"type": "ephemeral"}), betas=betas).refusal

    assert (unknown.rule.status, unknown.code) == (404, "thread_not_found")
    assert conflict.fields["details"]["unsupported"] == ["cache_control"]


def test_dropped_thinking_is_reported_with_its_beta():
    body = converse(body_of(), (Think("Hm."), CallTool("weather")), model="claude-fable-5-1")
    betas = "thinking-binding-controls-2026-08-01"

    assert reply(body, (Say("Rain."),), BOUND, betas=betas)["input_transformations"] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}
    ]
    assert "input_transformations" not in reply(body, (Say("Rain."),), BOUND)


def test_image_is_written_as_markdown():
    assert reply(body_of(), (SendImage("AAAA"),))["content"][0]["text"] == "![picture](data:image/png;base64,AAAA)"


# --- replies sent back ------------------------------------------------------------------------------------------------


def test_code_continues_in_its_container():
    tools = [{"type": "code_execution_20250522", "name": "code_execution"}]
    message = reply(body_of(tools=tools, container="container_x"), (RunCode("1", "2"), Pause()))
    use, result, paused = message["content"]
    body = body_of(user("x"), assistant(use, result, paused), tools=tools, container="container_x")

    assert message["container"]["id"] == "container_x"
    assert result["content"] == {
        "type": "code_execution_result", "stdout": "2", "stderr": "", "return_code": 0, "content": [],
    }  # fmt: skip
    assert reply(body, (Say("Done."),))["content"][0]["tool_use_id"] == paused["id"]


@pytest.mark.parametrize("model", [OPEN, BOUND])
def test_all_reasoning_may_be_omitted(model):
    turns = (Think("Hm."), CallTool("weather")), (Think("Ah."), Say("Rain."))
    body = converse(body_of(thinking={"type": "adaptive"}), *turns, model=model)
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    result = verdict(body, model)

    assert result.refusal is None
    assert [(finding.rule.id, finding.pointer) for finding in result.warnings] == [("ANT-THINK-15", "/messages/1")]


@pytest.mark.parametrize(
    "before", [(), (Say("Look:"),), (Think("Hm."),), (Stall(0),)], ids=["", "text", "think", "stall"]
)
def test_budget_gets_reasoning_before_a_call_with_scripted_id(before):
    body = body_of(thinking=BUDGET)
    *_, whole = written(body, (*before, CallTool("weather", id="mine")), OPEN)
    content = json.loads(whole)["content"]
    body["messages"] += [assistant(*content), user({"type": "tool_result", "tool_use_id": "mine"})]

    assert content[-1]["id"] == "mine"
    assert [block["type"] for block in content].count("thinking") == 1
    assert not refused_rule(body, OPEN)


def test_budget_needs_reasoning_of_the_first_call():
    later = converse(body_of(), (CallTool("weather"),)) | {"thinking": BUDGET}
    silent = converse(body_of(thinking=BUDGET), (Say("Look:"), Think("Hm."), CallTool("weather")))

    assert refused_rule(later, OPEN) == "ANT-THINK-05"
    assert not refused_rule(silent, OPEN)


def test_deepseek_always_has_reasoning():
    more = {"model": "deepseek-v4-pro", "provider": "deepseek"}
    body = converse(body_of(), (Say("x"),), (CallTool("weather"),), **more)

    assert not refused_rule(body, **more)
    assert refused_rule(body_of(user("x"), assistant("y"), user("z")), **more) == "ANT-THINK-19"


def test_reasoning_after_a_prefill_stays_there():
    prefill = {"type": "text", "text": "Well,"}
    thinking, text = reply(body_of(user("Hi"), assistant("Well,")), (Think("Hm."), Say("yes.")))["content"]

    assert not refused_rule(body_of(user("Hi"), assistant(prefill, thinking, text), user("x")))
    assert refused_rule(body_of(user("Hi"), assistant(thinking, prefill, text), user("x"))) == "ANT-THINK-04"


@pytest.mark.parametrize("separate", [True, False], ids=["two messages", "one message"])
@pytest.mark.parametrize("model", [OPEN, BOUND])
def test_paused_turn_continues(model, separate):
    """The missing result comes first; the joined turn is accepted, and a change in it is refused."""
    body = body_of(thinking={"type": "adaptive"})
    first = reply(body, (Think("Hm."), Search("rain"), Pause()), model)
    body["messages"].append(assistant(*first["content"]))
    content = reply(body, (Think("Ah."), CallTool("weather")), model)["content"]
    if separate:
        body["messages"].append(assistant(*content))
    else:
        blocks(body).extend(content)
    body["messages"].append(user({"type": "tool_result", "tool_use_id": content[-1]["id"]}))
    result = verdict(body, model)

    assert first["stop_reason"] == "pause_turn"
    assert content[0]["tool_use_id"] == first["content"][-1]["id"]
    assert result.refusal is None
    assert {finding.rule.id for finding in result.warnings} <= {"ANT-MSG-07"}
    blocks(body)[0]["thinking"] += "?"
    assert refused_rule(body, model) == "ANT-THINK-04"


def test_cache_control_is_not_part_of_the_prefix():
    document = {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Rain."}]}}
    body = converse(body_of(user(document)), (Think("Hm."), CallTool("weather")), model=BOUND)
    part = blocks(body, 0)[0]["source"]["content"][0]
    part["cache_control"] = {"type": "ephemeral"}

    assert not refused_rule(body, BOUND)
    part["text"] = "Sun."
    assert refused_rule(body, BOUND) == "ANT-THINK-08"


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
THINKS = st.builds(Think, text=WORDS | st.just("")) | st.builds(Think, text=WORDS, redacted=st.just(True))
SPOKEN = st.builds(Say, text=WORDS.map("I say {}".format))
CALLS = st.builds(CallTool, name=st.just("weather"), args=st.dictionaries(WORDS, WORDS | st.integers(), max_size=2))
MIXED = st.tuples(st.lists(THINKS | SPOKEN, max_size=5), st.lists(CALLS, max_size=2)).map(
    lambda parts: (*parts[0], *(parts[1] or (Say("Rain."),)))
)
"""Text comes before calls: a text after a call may be refused (ANT-TOOL-01)."""
REASONED = MIXED.map(lambda turn: (Think("First."), *turn))
TARGETS = st.sampled_from([
    ("", {"thinking": ADAPTIVE}), (OPEN, {"thinking": ADAPTIVE}), (OPEN, {"thinking": BUDGET}), (BOUND, {}),
    (BOUND, {"thinking": ADAPTIVE, "system": "Be brief."}), ("claude-fable-5-1", {"thinking": ADAPTIVE}),
])  # fmt: skip
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(TARGETS, st.lists(MIXED, min_size=1, max_size=3))
def test_unchanged_replies_are_accepted(target, turns):
    model, fields = target
    result = verdict(converse(body_of(**fields), *turns, model=model), model)

    assert result.refusal is None
    assert result.warnings == ()


@QUICK
@given(TARGETS, REASONED, st.data())
def test_changed_reasoning_is_refused(target, turn, data):
    """One character of a token, one of a text, or two blocks that are swapped."""
    model, fields = target
    body = converse(body_of(**fields), turn, model=model)
    content = blocks(body)
    positions = [position for position, block in enumerate(content) if "thinking" in block["type"]]
    position = data.draw(st.sampled_from(positions))
    block = content[position]
    key = data.draw(st.sampled_from([key for key in ("signature", "data", "thinking") if key in block]))
    value, offset = block[key], data.draw(st.integers(0, len(block[key])))
    letter = data.draw(st.sampled_from("ABCXYZabcxyz0123456789+/= \u00e9"))
    for changed in (value[:offset] + letter + value[offset:], value[:offset] + value[offset + 1 :]):
        block[key] = changed
        is_padded = key != "thinking" and changed.rstrip("=") == value
        assert bool(refused_rule(body, model)) == (changed != value and not is_padded)
    block[key] = value
    other = data.draw(st.sampled_from([index for index in range(len(content)) if index != position]))
    content[position], content[other] = content[other], content[position]
    assert refused_rule(body, model)


def test_last_character_of_a_token_counts():
    """Bits of the last character that base64 ignores must not change either."""
    for size in range(6):
        body = converse(body_of(thinking=ADAPTIVE), (Think("x" * size), Say("Rain.")))
        token = blocks(body)[0]["signature"]
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
            blocks(body)[0]["signature"] = changed = token[:-1] + letter
            assert base64.b64decode(changed)
            assert bool(refused_rule(body, OPEN)) == (changed != token)
