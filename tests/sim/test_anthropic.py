"""The Messages dialect of the simulator: whole and streamed replies are equal, and are accepted when sent back."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from anthropic._models import construct_type
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.playing import TURNS, ask, judged, rule_view, turn_request, write_turn
from tenuto.rules import Judgement
from tenuto.sim.anthropic import DIALECT
from tenuto.sim.dialects import ParsedRequest
from tenuto.sim.prompt_cache import PromptCache
from tenuto.sim.script import RunCode, Search, join_text
from tenuto.testing import call, cut, image, pause, refuse, run_code, say, search, stall, stop, think

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
    request = ask("anthropic-messages", name, body, stream=bool(body.get("stream")), account="me")
    return msgspec.structs.replace(request, headers={"anthropic-beta": more.pop("betas", "")}, **more)


def read(body: dict[str, Any], model: str = "", **more: Any) -> Any:
    return turn_request(parsed(body, model, **more))


def verdict(body: dict[str, Any], model: str = "", **more: Any) -> Judgement:
    return judged(parsed(body, model, **more))


def refused_rule(body: dict[str, Any], model: str = "", **more: Any) -> str:
    refusal = verdict(body, model, **more).refusal
    return refusal.rule.id if refusal else ""


def written(body: dict[str, Any], turn: Any, model: str = "", **more: Any) -> list[Any]:
    return write_turn(parsed(body, model, **more), turn)


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
    """Build the message of a stream as the official SDK does."""
    snapshot, buffers = None, {}
    for frame in frames:
        if frame["type"] != "ping":
            event: Any = construct_type(value=frame, type_=BetaRawMessageStreamEvent)
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers, request_headers={})
    assert snapshot
    return snapshot.to_dict(mode="python")


# --- whole and streamed -----------------------------------------------------------------------------------------------

MORE_TURNS = {
    **TURNS,
    "refusal": (say("Well."), refuse("No.", category="cyber")),
    "refusal alone": (refuse(),),
    "pause": (think("Hm."), pause()),
    "length": (say("One"), stop("length")),
    "sequence": (say("One"), stop("stop_sequence", "END")),
    "filter": (stop("filter"),),
    "nothing": (),
    "half a character": (say("a\ud83d"), say("b")),
    "failing code": (run_code("1 / 0", "ZeroDivisionError", ok=False),),
}


@pytest.mark.parametrize("model", ["", OPEN, BOUND])
@pytest.mark.parametrize("turn", MORE_TURNS)
def test_stream_equals_whole_reply(turn, model):
    body = body_of(thinking={"type": "adaptive"})
    frames = streamed(body, MORE_TURNS[turn], model)
    types = [event["type"] for event in frames]

    whole: Any = construct_type(value=reply(body, MORE_TURNS[turn], model), type_=BetaMessage)
    assert assemble(frames) == whole.to_dict(mode="python")
    assert [types[0], *types[-2:]] == ["message_start", "message_delta", "message_stop"]
    assert "ping" in types


def test_ids_and_tokens_look_like_the_providers():
    long = "Thinking about it at length. " * 40
    message = reply(body_of(thinking=ADAPTIVE), (think(long), think("x"), run_code("1"), call("weather")))
    thinking, short, use, _, last = message["content"]

    assert re.fullmatch(r"msg_01[A-Za-z0-9]{22}", message["id"])
    assert re.fullmatch(r"toolu_01[A-Za-z0-9]{22}", last["id"])
    assert re.fullmatch(r"srvtoolu_01[A-Za-z0-9]{22}", use["id"])
    assert re.fullmatch(r"container_01[A-Za-z0-9]{22}", message["container"]["id"])
    assert len(long) < len(thinking["signature"]) < 3 * len(long)
    assert 200 < len(short["signature"]) < 600


def test_hidden_thinking_is_signed_and_empty():
    body = body_of()
    frames = streamed(body, (think("Secret."), say("Rain.")), "claude-opus-5")
    deltas = [event["delta"]["type"] for event in frames if event.get("index") == 0 and "delta" in event]

    assert deltas == ["signature_delta"]
    assert "Secret" not in json.dumps(frames)
    assert assemble(frames)["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    assert not refused_rule(converse(body, (think("Secret."), say("Rain.")), model="claude-opus-5"), "claude-opus-5")


def test_redacted_thinking_has_no_deltas():
    frames = streamed(body_of(thinking=ADAPTIVE), (think("Secret.", redacted=True), say("Rain.")))

    assert frames[1]["content_block"]["type"] == "redacted_thinking"
    assert len(frames[1]["content_block"]["data"]) > 200
    assert not [event for event in frames if "delta" in event and event.get("index") == 0]


def test_pieces_of_the_script_are_streamed_unchanged():
    frames = streamed(body_of(thinking=ADAPTIVE), (think(["a", "", "b"]), say(["c d", " e"])))
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
def test_arguments_and_images_of_the_script_are_written(args, streamed_text, whole):
    frames = streamed(body_of(), (call("weather", args),))
    pieces = [event["delta"]["partial_json"] for event in frames if event["type"] == "content_block_delta"]

    assert pieces[0] == ""
    assert "".join(pieces) == streamed_text
    assert reply(body_of(), (call("weather", args),))["content"][0]["input"] == whole
    assert reply(body_of(), (image("AAAA"),))["content"][0]["text"] == "![picture](data:image/png;base64,AAAA)"


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "limit", "content"),
    [
        ((say("abcdefgh"), say("more")), 1, [("text", "abcd")]),
        ((say("abcd"), say("more")), 1, [("text", "abcd")]),
        ((think(["abcd", "efgh"]), say("more")), 1, [("thinking", "abcd")]),
        ((say("more"),), 0, []),
    ],
)
def test_reply_ends_at_max_tokens(turn, limit, content):
    message = reply(body_of(thinking=ADAPTIVE, max_tokens=limit), turn)

    assert [(block["type"], block[block["type"]]) for block in message["content"]] == content
    assert message["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("limit", range(0, 16, 3))
@pytest.mark.parametrize(
    "step", [search("rain in Oslo"), run_code("print(6 * 7)", "42"), pause(), call("weather", {"city": "Ouagadougou"})]
)
def test_usage_stays_within_max_tokens(step, limit):
    body = body_of(max_tokens=limit)
    frames, whole = streamed(body, (say("Well"), step)), reply(body, (say("Well"), step))
    deltas = [event["delta"] for event in frames if event["type"] == "content_block_delta"]
    inputs = [block["input"] for block in whole["content"] if "input" in block]

    assert len("".join(delta.get("partial_json", "") for delta in deltas)) <= 4 * limit
    assert frames[-2]["usage"]["output_tokens"] == whole["usage"]["output_tokens"] <= limit
    assert ("container" in whole) == (isinstance(step, RunCode) and bool(inputs))
    assert ("server_tool_use" in whole["usage"]) == (isinstance(step, Search | RunCode) and bool(inputs))


def test_reply_ends_at_stop_sequence():
    message = reply(body_of(stop_sequences=["END", "rain"]), (say(["It ra", "ins. END"]), say("More")))
    short = reply(body_of(stop_sequences=["rain"], max_tokens=1), (say("It may rain."),))

    assert [block["text"] for block in message["content"]] == ["It "]
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "rain")
    assert (short["stop_reason"], short["stop_sequence"]) == ("max_tokens", None)


@pytest.mark.parametrize(
    ("turn", "reason", "details"),
    [
        ((say("x"),), "end_turn", None),
        ((call("weather"), say("x")), "tool_use", None),
        ((refuse("No.", category="bio"),), "refusal", {"type": "refusal", "category": "bio", "explanation": "No."}),
        ((stop("filter"),), "refusal", {"type": "refusal", "category": None, "explanation": None}),
        ((pause(),), "pause_turn", None),
    ],
)
def test_stop_reason_of_a_turn(turn, reason, details):
    message = reply(body_of(), turn)

    assert (message["stop_reason"], message["stop_details"]) == (reason, details)


# --- faults -----------------------------------------------------------------------------------------------------------


def test_disconnect_leaves_a_block_open():
    pieces = written(body_of(thinking=ADAPTIVE, stream=True), (think("Hm."), cut(), say("Rain.")))

    assert pieces[-1] == cut()
    assert [event["type"] for event in events(pieces[:-1])][-1] == "content_block_delta"
    assert "signature_delta" not in repr(pieces)


def test_text_continues_after_a_fault():
    turn = (say("Hel"), stall(1), say("lo"), say("you"))
    pieces = written(body_of(stream=True), turn)
    fault, whole = written(body_of(), turn)

    assert b"content_block_delta" in pieces[pieces.index(stall(1)) - 1]
    assert fault == stall(1)
    assert assemble(events([piece for piece in pieces if isinstance(piece, bytes)])) == json.loads(whole)
    assert [block["text"] for block in json.loads(whole)["content"]] == ["Hello", "you"]


# --- requests ---------------------------------------------------------------------------------------------------------


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
    assert read(body, model).thinks is thinks


def test_count_tokens_needs_no_max_tokens():
    content = read(body_of(max_tokens=None), method="count_tokens")
    search = body_of(tools=[{"type": "web_search_20250305", "name": "web_search"}])

    assert DIALECT.count(content) == {"input_tokens": content.prompt_tokens}
    assert not refused_rule(body_of(max_tokens=None), method="count_tokens")
    assert refused_rule(search, method="count_tokens") == "ANT-SHAPE"


def test_image_has_a_fixed_number_of_tokens():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 900_000}}
    body = body_of(user(image))

    assert not refused_rule(body, "claude-haiku-4-5")
    assert 1500 < rule_view(parsed(body)).prompt_tokens < 2000


def test_cached_prompt_is_counted():
    text = {"type": "text", "text": "word " * 2000, "cache_control": {"type": "ephemeral"}}
    cache = PromptCache()
    first = reply(body_of(user(text)), (say("x"),), prompt_cache=cache)["usage"]
    second = reply(body_of(user(text), assistant("x"), user("y")), (say("x"),), prompt_cache=cache)["usage"]
    hour = {**text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    longer = reply(body_of(user(hour)), (say("x"),))["usage"]["cache_creation"]

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
    body = converse(body_of(), (think("Hm."), call("weather")), model="claude-fable-5-1")
    betas = "thinking-binding-controls-2026-08-01"

    assert reply(body, (say("Rain."),), BOUND, betas=betas)["input_transformations"] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}
    ]
    assert "input_transformations" not in reply(body, (say("Rain."),), BOUND)


# --- replies sent back ------------------------------------------------------------------------------------------------


def test_code_continues_in_its_container():
    tools = [{"type": "code_execution_20250522", "name": "code_execution"}]
    message = reply(body_of(tools=tools, container="container_x"), (run_code("1", "2"), pause()))
    use, result, paused = message["content"]
    body = body_of(user("x"), assistant(use, result, paused), tools=tools, container="container_x")

    assert message["container"]["id"] == "container_x"
    assert result["content"] == {
        "type": "code_execution_result", "stdout": "2", "stderr": "", "return_code": 0, "content": [],
    }  # fmt: skip
    assert reply(body, (say("Done."),))["content"][0]["tool_use_id"] == paused["id"]


@pytest.mark.parametrize("model", [OPEN, BOUND])
def test_all_reasoning_may_be_omitted(model):
    turns = (think("Hm."), call("weather")), (think("Ah."), say("Rain."))
    body = converse(body_of(thinking={"type": "adaptive"}), *turns, model=model)
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    result = verdict(body, model)

    assert result.refusal is None
    assert [(finding.rule.id, finding.pointer) for finding in result.warnings] == [("ANT-THINK-15", "/messages/1")]


@pytest.mark.parametrize(
    "before", [(), (say("Look:"),), (think("Hm."),), (stall(0),)], ids=["", "text", "think", "stall"]
)
def test_budget_gets_reasoning_before_a_call_with_scripted_id(before):
    body = body_of(thinking=BUDGET)
    *_, whole = written(body, (*before, call("weather", id="mine")), OPEN)
    content = json.loads(whole)["content"]
    body["messages"] += [assistant(*content), user({"type": "tool_result", "tool_use_id": "mine"})]

    assert content[-1]["id"] == "mine"
    assert [block["type"] for block in content].count("thinking") == 1
    assert not refused_rule(body, OPEN)


def test_budget_needs_reasoning_of_the_first_call():
    later = converse(body_of(), (call("weather"),)) | {"thinking": BUDGET}
    silent = converse(body_of(thinking=BUDGET), (say("Look:"), think("Hm."), call("weather")))

    assert refused_rule(later, OPEN) == "ANT-THINK-05"
    assert not refused_rule(silent, OPEN)


def test_deepseek_always_has_reasoning():
    more = {"model": "deepseek-v4-pro", "provider": "deepseek"}
    body = converse(body_of(), (say("x"),), (call("weather"),), **more)

    assert not refused_rule(body, **more)
    assert refused_rule(body_of(user("x"), assistant("y"), user("z")), **more) == "ANT-THINK-19"


def test_reasoning_after_a_prefill_stays_there():
    prefill = {"type": "text", "text": "Well,"}
    thinking, text = reply(body_of(user("Hi"), assistant("Well,")), (think("Hm."), say("yes.")))["content"]

    assert not refused_rule(body_of(user("Hi"), assistant(prefill, thinking, text), user("x")))
    assert refused_rule(body_of(user("Hi"), assistant(thinking, prefill, text), user("x"))) == "ANT-THINK-04"


@pytest.mark.parametrize("separate", [True, False], ids=["two messages", "one message"])
@pytest.mark.parametrize("model", [OPEN, BOUND])
def test_paused_turn_continues(model, separate):
    """The missing result comes first; the joined turn is accepted, and a change in it is refused."""
    body = body_of(thinking={"type": "adaptive"})
    first = reply(body, (think("Hm."), search("rain"), pause()), model)
    body["messages"].append(assistant(*first["content"]))
    content = reply(body, (think("Ah."), call("weather")), model)["content"]
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
    body = converse(body_of(user(document)), (think("Hm."), call("weather")), model=BOUND)
    part = blocks(body, 0)[0]["source"]["content"][0]
    part["cache_control"] = {"type": "ephemeral"}

    assert not refused_rule(body, BOUND)
    part["text"] = "Sun."
    assert refused_rule(body, BOUND) == "ANT-THINK-08"


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
THINKS = st.builds(think, text=WORDS | st.just("")) | st.builds(think, text=WORDS, redacted=st.just(True))
SPOKEN = st.builds(say, text=WORDS.map("I say {}".format))
CALLS = st.builds(call, name=st.just("weather"), args=st.dictionaries(WORDS, WORDS | st.integers(), max_size=2))
MIXED = st.tuples(st.lists(THINKS | SPOKEN, max_size=5), st.lists(CALLS, max_size=2)).map(
    lambda parts: (*parts[0], *(parts[1] or (say("Rain."),)))
)
"""Text comes before calls: a text after a call may be refused (ANT-TOOL-01)."""
REASONED = MIXED.map(lambda turn: (think("First."), *turn))
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
