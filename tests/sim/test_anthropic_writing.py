"""What the Messages dialect says: whole or streamed it is the same, and sent back as it came it is never refused."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.anthropic_talk import BOUND, OPEN, SEED, ask, blocks, go_on, reply, request, tell, user, verdict, written
from sim.playing import TURNS
from tenuto.sim.anthropic.voice import VOICE
from tenuto.sim.mint import Mint
from tenuto.sim.script import (
    Call,
    Cut,
    Drip,
    Fail,
    Pause,
    Picture,
    Refuse,
    RunCode,
    Say,
    Search,
    Stall,
    Stop,
    Think,
    texts,
)  # fmt: skip

ADAPTIVE = {"type": "adaptive", "display": "summarized"}
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
DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}


def events(pieces: list[Any]) -> list[dict[str, Any]]:
    """Read frames; each says its type twice."""
    found = []
    for piece in pieces:
        name, data, rest = piece.decode().split("\n", 2)
        assert rest == "\n"
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def gathered(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a stream together again."""
    message: dict[str, Any] = {}
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
                if delta["type"] in DELTAS:
                    block[DELTAS[delta["type"]]] += delta[DELTAS[delta["type"]]]
                elif delta["type"] == "input_json_delta":
                    raw += delta["partial_json"]
                    block["input"] = raw
                elif delta["type"] == "signature_delta":
                    block["signature"] = delta["signature"]
                else:
                    block["citations"] = [*block["citations"], delta["citation"]]
            case "content_block_stop":
                block = message["content"][event["index"]]
                if "input" in block:
                    block["input"] = json.loads(block["input"] or "{}")
            case "message_delta":
                message |= event["delta"] | {"usage": message["usage"] | event["usage"]}
    return message


def streamed(body: dict[str, Any], turn: Any, model: str = "", **more: Any) -> list[dict[str, Any]]:
    return events(written({**body, "stream": True}, turn, model, **more))


@pytest.mark.parametrize("model", ["", OPEN, BOUND, "claude-opus-4-8"])
@pytest.mark.parametrize("turn", MORE_TURNS)
def test_a_stream_says_what_the_whole_reply_says(turn, model):
    body = ask(thinking={"type": "adaptive"})
    frames = streamed(body, MORE_TURNS[turn], model)
    types = [event["type"] for event in frames]

    assert gathered(frames) == reply(body, MORE_TURNS[turn], model)
    assert [types[0], *types[-2:]] == ["message_start", "message_delta", "message_stop"]
    assert "ping" in types


@pytest.mark.parametrize("stream", [True, False])
def test_the_same_request_gets_the_same_bytes_and_another_seed_others(stream):
    body = ask(thinking=ADAPTIVE, stream=stream)
    turn = (Think("Hm."), Search("rain"), Say("It rains."), Call("weather"))
    asked = VOICE.read(VOICE.open(request(body)))

    assert written(body, turn) == written(body, turn) == VOICE.write(asked, turn, Mint(SEED, asked.request.digest))
    assert VOICE.write(asked, turn, Mint("other", asked.request.digest)) != written(body, turn)


def test_ids_and_tokens_look_like_the_providers():
    long = "Thinking about it at length. " * 40
    found = reply(ask(thinking=ADAPTIVE), (Think(long), Think("x"), RunCode("1"), Call("weather")))
    thought, short, use, _, call = found["content"]

    assert re.fullmatch(r"msg_01[A-Za-z0-9]{22}", found["id"])
    assert re.fullmatch(r"toolu_01[A-Za-z0-9]{22}", call["id"])
    assert re.fullmatch(r"srvtoolu_01[A-Za-z0-9]{22}", use["id"])
    assert re.fullmatch(r"container_01[A-Za-z0-9]{22}", found["container"]["id"])
    assert base64.b64decode(thought["signature"], validate=True).startswith(b"\x12")
    assert len(long) < len(thought["signature"]) < 3 * len(long)
    assert 200 < len(short["signature"]) < 420


def test_thoughts_that_are_not_to_be_seen_are_empty_and_signed_in_a_frame_of_their_own():
    body = ask()
    frames = streamed(body, (Think("Secret."), Say("Rain.")), "claude-opus-5")
    deltas = [event["delta"]["type"] for event in frames if event.get("index") == 0 and "delta" in event]

    assert deltas == ["signature_delta"]
    assert "Secret" not in json.dumps(frames)
    assert gathered(frames)["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    assert (
        verdict(go_on(body, (Think("Secret."), Say("Rain.")), model="claude-opus-5"), "claude-opus-5").refusal is None
    )


@pytest.mark.parametrize(
    ("body", "model", "thinks"),
    [
        (ask(), OPEN, False), (ask(), "claude-sonnet-5", True), (ask(thinking={"type": "disabled"}), "claude-sonnet-5", False),
        (ask(thinking={"type": "between_tools"}), "claude-sonnet-5-5", False), (ask(thinking=ADAPTIVE), "", True),
    ],
)  # fmt: skip
def test_a_model_thinks_when_it_is_asked_to_or_does_unasked(body, model, thinks):
    assert VOICE.read(VOICE.open(request(body, model))).think is thinks


def test_what_a_script_thinks_is_thought_whether_or_not_it_was_asked_for():
    found = reply(ask(thinking={"type": "disabled"}), (Think("Hm."), Say("Rain.")), "claude-sonnet-5")

    assert [block["type"] for block in found["content"]] == ["thinking", "text"]


def test_hidden_thoughts_come_whole():
    frames = streamed(ask(thinking=ADAPTIVE), (Think("Secret.", redacted=True), Say("Rain.")))

    assert frames[1]["content_block"]["type"] == "redacted_thinking"
    assert len(frames[1]["content_block"]["data"]) > 200
    assert not [event for event in frames if "delta" in event and event.get("index") == 0]


def test_pieces_that_are_given_are_the_pieces_that_are_sent():
    frames = streamed(ask(thinking=ADAPTIVE), (Think(["a", "", "b"]), Say(["c d", " e"])))
    said = [texts(event["delta"].get(key, ())) for event in frames if event["type"] == "content_block_delta"
            for key in ("thinking", "text") if key in event["delta"]]  # fmt: skip

    assert said == ["a", "", "b", "c d", " e"]


def test_arguments_that_are_no_json_are_streamed_as_they_stand():
    turn = (Call("weather", '{"city": "Os'),)
    parts = [
        event["delta"]["partial_json"] for event in streamed(ask(), turn) if event["type"] == "content_block_delta"
    ]

    assert parts[0] == ""
    assert "".join(parts) == '{"city": "Os'
    assert reply(ask(), turn)["content"][0]["input"] == {"INVALID_JSON": '{"city": "Os'}
    assert reply(ask(), (Call("weather", '{"city": "Oslo"}', id="mine"),))["content"][0]["input"] == {"city": "Oslo"}


def test_a_call_without_arguments_streams_one_empty_piece():
    deltas = [event["delta"] for event in streamed(ask(), (Call("weather"),)) if event["type"] == "content_block_delta"]

    assert deltas == [{"type": "input_json_delta", "partial_json": ""}]


@pytest.mark.parametrize(
    ("turn", "limit", "content"),
    [
        ((Say("abcdefgh"), Say("more")), 1, [("text", "abcd")]),
        ((Say("abcd"), Say("more")), 1, [("text", "abcd")]),
        ((Think(["abcd", "efgh"]), Say("more")), 1, [("thinking", "abcd")]),
        ((Say("more"),), 0, []),
    ],
)
def test_a_reply_ends_at_its_length(turn, limit, content):
    found = reply(ask(thinking=ADAPTIVE, max_tokens=limit), turn)

    assert [(block["type"], block[block["type"]]) for block in found["content"]] == content
    assert found["stop_reason"] == "max_tokens"


def test_a_call_may_be_cut_short():
    body = ask(max_tokens=4)
    frames = streamed(body, (Call("weather", {"city": "Ouagadougou"}),))

    assert (
        "".join(event["delta"]["partial_json"] for event in frames if event["type"] == "content_block_delta")
        == '{"city":'
    )
    assert frames[-2]["delta"]["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("limit", range(16))
@pytest.mark.parametrize(
    "step", [Search("rain in Oslo"), RunCode("print(6 * 7)", "42"), Pause(), Call("weather", {"city": "Ouagadougou"})]
)
def test_a_full_reply_is_the_same_streamed_and_counts_no_more_than_it_may(step, limit):
    body = ask(max_tokens=limit)
    frames = streamed(body, (Say("Well"), step))
    whole = reply(body, (Say("Well"), step))
    usage = whole["usage"]
    written = "".join(
        event["delta"].get("partial_json", "") for event in frames if event["type"] == "content_block_delta"
    )
    used = [block["input"] for block in whole["content"] if "input" in block]

    assert [event["content_block"]["type"] for event in frames if event["type"] == "content_block_start"] == [
        block["type"] for block in whole["content"]
    ]
    assert used in (
        [],
        [{}],
        [{"INVALID_JSON": written}],
        [json.loads(written)] if whole["stop_reason"] != "max_tokens" else [],
    )
    assert len(written) <= 4 * limit
    assert frames[0]["message"]["usage"]["output_tokens"] <= usage["output_tokens"]
    assert usage["output_tokens"] == frames[-2]["usage"]["output_tokens"] <= limit
    assert usage.get("server_tool_use", {}).get("web_search_requests", 0) == (isinstance(step, Search) and bool(used))
    assert ("container" in whole) == (isinstance(step, RunCode) and bool(used))


def test_a_reply_ends_at_a_stop_sequence():
    found = reply(ask(stop_sequences=["END", "rain"]), (Say(["It ra", "ins. END"]), Say("More")))

    assert [block["text"] for block in found["content"]] == ["It "]
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "rain")
    short = reply(ask(stop_sequences=["rain"], max_tokens=1), (Say("It may rain."),))
    assert (short["stop_reason"], short["stop_sequence"]) == ("max_tokens", None)


@pytest.mark.parametrize(
    ("turn", "reason", "details"),
    [
        ((Say("x"),), "end_turn", None),
        ((Call("weather"), Say("x")), "tool_use", None),
        ((Refuse("No.", category="bio"),), "refusal", {"type": "refusal", "category": "bio", "explanation": "No."}),
        ((Stop("filter"),), "refusal", {"type": "refusal", "category": None, "explanation": None}),
        ((Pause(),), "pause_turn", None),
    ],
)
def test_a_reply_says_why_it_ends(turn, reason, details):
    found = reply(ask(), turn)

    assert (found["stop_reason"], found["stop_details"]) == (reason, details)


def test_a_line_breaks_inside_a_block():
    """A thought that was cut off is not signed."""
    pieces = written(ask(thinking=ADAPTIVE, stream=True), (Think("Hm."), Cut(), Say("Rain.")))

    assert pieces[-1] == Cut()
    assert [event["type"] for event in events(pieces[:-1])][-1] == "content_block_delta"
    assert "signature_delta" not in repr(pieces)


def test_an_error_ends_a_stream():
    pieces = written(ask(stream=True), (Say("Hm."), Fail(529, "Overloaded"), Say("Rain.")))
    last = events(pieces[-1:])[0]

    assert pieces[-1].startswith(b'event: error\ndata: {"type":"error","error":{')
    assert last["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert last["request_id"].startswith("req_01")
    assert "message_stop" not in repr(pieces)


def test_faults_stand_where_they_were_put():
    turn = (Say("a"), Stall(1), Drip(3), Call("weather"))
    pieces = written(ask(stream=True), turn)
    at = pieces.index(Stall(1))

    assert pieces[at + 1] == Drip(3)
    assert b"content_block_stop" in pieces[at - 1]
    assert b"content_block_start" in pieces[at + 2]
    assert written(ask(), turn)[:2] == [Stall(1), Drip(3)]
    half, cut = written(ask(), (Say("a"), Cut()))
    assert cut == Cut()
    assert written(ask(), (Say("a"),))[0].startswith(half)


def test_a_text_goes_on_behind_a_fault():
    turn = (Say("Hel"), Stall(1), Say("lo"), Say("you"))
    pieces = written(ask(stream=True), turn)
    fault, *whole = written(ask(), turn)
    kept = [piece for piece in pieces if isinstance(piece, bytes)]

    assert b"content_block_delta" in pieces[pieces.index(Stall(1)) - 1]
    assert fault == Stall(1)
    assert gathered(events(kept)) == json.loads(whole[0])
    assert [block["text"] for block in json.loads(whole[0])["content"]] == ["Hello", "you"]


def test_where_thoughts_must_come_back_there_always_is_one():
    body = go_on(ask(), (Say("x"),), (Call("weather"),), model="deepseek-v4-pro", style="deepseek")

    assert verdict(body, "deepseek-v4-pro", style="deepseek").refusal is None
    assert verdict(ask(user("x"), tell("y"), user("z")), "deepseek-v4-pro", style="deepseek").refusal is not None


@pytest.mark.parametrize(
    "before", [(), (Say("Look:"),), (Think("Hm."),), (Stall(0),)], ids=["", "said", "thought", "late"]
)
def test_a_call_with_an_id_of_the_scripts_comes_back_where_a_budget_wants_a_thought(before):
    body = ask(thinking={"type": "enabled", "budget_tokens": 2000})
    *_, whole = written(body, (*before, Call("weather", id="mine")), OPEN)
    content = json.loads(whole)["content"]
    body["messages"] += [tell(*content), user({"type": "tool_result", "tool_use_id": "mine"})]

    assert content[-1]["id"] == "mine"
    assert [block["type"] for block in content].count("thinking") == 1
    assert verdict(body, OPEN).refusal is None


def test_a_picture_is_told_of():
    assert reply(ask(), (Picture("AAAA"),))["content"][0]["text"] == "![picture](data:image/png;base64,AAAA)"


def test_code_goes_on_in_its_container():
    tools = [{"type": "code_execution_20250522", "name": "code_execution"}]
    found = reply(ask(tools=tools, container="container_x"), (RunCode("1", "2"), Pause()))

    assert found["container"]["id"] == "container_x"
    assert [block["type"] for block in found["content"]] == [
        "server_tool_use",
        "code_execution_tool_result",
        "server_tool_use",
    ]
    assert found["content"][1]["content"] == {
        "type": "code_execution_result", "stdout": "2", "stderr": "", "return_code": 0, "content": [],
    }  # fmt: skip
    assert found["usage"]["server_tool_use"] == {"web_search_requests": 0, "web_fetch_requests": 0}
    body = ask(user("x"), tell(*found["content"]), tools=tools, container="container_x")
    assert reply(body, (Say("Done."),))["content"][0]["tool_use_id"] == found["content"][2]["id"]


def test_what_is_marked_is_cached():
    said = {"type": "text", "text": "word " * 2000, "cache_control": {"type": "ephemeral"}}
    first = reply(ask(user(said)), (Say("x"),))["usage"]
    second = reply(ask(user(said), tell("x"), user("y")), (Say("x"),))["usage"]

    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation_input_tokens"] > 2000
    assert first["input_tokens"] == 3
    assert second["cache_read_input_tokens"] > 1000
    assert first["cache_creation"] == {
        "ephemeral_5m_input_tokens": first["cache_creation_input_tokens"], "ephemeral_1h_input_tokens": 0,
    }  # fmt: skip
    said["cache_control"]["ttl"] = "1h"
    longer = reply(ask(user(said)), (Say("x"),))["usage"]
    assert longer["cache_creation"] == {
        "ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": longer["cache_creation_input_tokens"],
    }  # fmt: skip
    assert longer["cache_creation_input_tokens"] > 2000


def test_what_is_asked_is_read():
    call = {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "rain"}]}
    body = ask(
        user("Hi"), tell(call), user(result, {"type": "text", "text": "So?"}), system=[{"type": "text", "text": "Be brief."}],
        tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True}, stop_sequences=["END"],
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}},
    )  # fmt: skip
    asked = VOICE.read(VOICE.open(request(body)))

    assert (asked.turn, asked.system, asked.choice, asked.parallel) == (1, "Be brief.", "weather", False)
    assert [(said.role, said.text, said.calls, said.results) for said in asked.said] == [
        ("user", "Hi", (), ()),
        ("assistant", "", (("weather", '{"city":"Oslo"}'),), ()),
        ("user", "So?", (), (("weather", "rain"),)),
    ]
    assert (asked.stop, asked.schema, asked.max_tokens) == (("END",), {"type": "object"}, 4000)
    assert [(tool.name, tool.kind) for tool in asked.tools] == [("weather", "function")]


# Sent back

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
STEPS = st.one_of(
    st.builds(Think, text=WORDS | st.just("")),
    st.builds(Think, text=WORDS, redacted=st.just(True)),
    st.builds(Say, text=WORDS.map("I say {}".format)),
    st.builds(Call, name=st.just("weather"), args=st.dictionaries(WORDS, WORDS | st.integers(), max_size=2)),
)
MIXES = st.tuples(
    st.lists(STEPS, max_size=5), STEPS.filter(lambda step: not isinstance(step, Think))
).map(lambda found: (*found[0], found[1]))  # fmt: skip
THOUGHTFUL = MIXES.map(lambda turn: (Think("First."), *turn))
ASKED = st.sampled_from(
    [
        ("", {"thinking": ADAPTIVE}), (OPEN, {"thinking": ADAPTIVE}), (OPEN, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        (BOUND, {}), (BOUND, {"thinking": ADAPTIVE, "system": "Be brief."}), ("claude-fable-5-1", {"thinking": ADAPTIVE}),
    ]
)  # fmt: skip
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(ASKED, st.lists(MIXES, min_size=1, max_size=3))
def test_what_comes_back_as_it_went_is_never_refused(asked, turns):
    model, setting = asked
    body = go_on(ask(**setting), *turns, model=model)
    found = verdict(body, model)

    assert found.refusal is None
    assert found.noted == ()


def refused(body: dict[str, Any], model: str) -> bool:
    return verdict(body, model).refusal is not None


@QUICK
@given(ASKED, THOUGHTFUL, st.data())
def test_one_other_letter_in_a_token_is_refused(asked, turn, data):
    model, setting = asked
    body = go_on(ask(**setting), turn, model=model)
    block = data.draw(st.sampled_from([block for block in blocks(body) if "thinking" in block["type"]]))
    key = "signature" if block["type"] == "thinking" else "data"
    token = block[key]
    at = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \u00e9"))

    block[key] = token[:at] + letter + token[at + 1 :]
    assert refused(body, model) == (block[key] != token)
    block[key] = token[:at] + token[at + 1 :]
    assert refused(body, model)


def test_the_last_letter_of_a_token_counts_whole():
    """Its spare bits say nothing to a reader of base64, and are not to be changed all the same."""
    tried = 0
    for size in range(12):
        body = go_on(ask(thinking=ADAPTIVE), (Think("x" * size), Say("Rain.")))
        token = blocks(body)[0]["signature"]
        bare = token.rstrip("=")
        letters = (bare[:-1] + letter + token[len(bare) :] for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop")
        for other in letters:
            if other != token and base64.b64decode(other) == base64.b64decode(token):
                blocks(body)[0]["signature"] = other
                assert refused(body, OPEN)
                tried += 1
    assert tried


@QUICK
@given(ASKED, THOUGHTFUL, st.data())
def test_one_other_letter_in_a_thought_is_refused(asked, turn, data):
    model, setting = asked
    body = go_on(ask(**setting), turn, model=model)
    block = data.draw(st.sampled_from([block for block in blocks(body) if block["type"] == "thinking"]))
    text = block["thinking"]
    at = data.draw(st.integers(0, len(text)))

    block["thinking"] = text[:at] + data.draw(st.characters(exclude_categories=["Cs"])) + text[at:]
    assert refused(body, model)
    block["thinking"] = text[:at] + text[at + 1 :]
    assert refused(body, model) == (block["thinking"] != text)


@QUICK
@given(ASKED, THOUGHTFUL, st.data())
def test_thoughts_that_change_places_are_refused(asked, turn, data):
    model, setting = asked
    body = go_on(ask(**setting), turn, model=model)
    held = blocks(body)
    first = data.draw(st.sampled_from([at for at, block in enumerate(held) if "thinking" in block["type"]]))
    second = data.draw(st.sampled_from([at for at in range(len(held)) if at != first]))

    held[first], held[second] = held[second], held[first]
    assert refused(body, model)
