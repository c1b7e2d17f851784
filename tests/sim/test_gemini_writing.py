"""Replies of the simulated Gemini: they can be sent back unchanged, and every step of a script has its form."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sim.playing import ask, judged, turn_request, write_turn
from tenuto.rules import Judgement
from tenuto.sim import providers
from tenuto.sim.dialects import ParsedRequest
from tenuto.sim.gemini import DIALECT
from tenuto.sim.providers import SimulatedProvider
from tenuto.sim.script import Cite, Fault, SearchResult, Think
from tenuto.testing import call, image, pause, refuse, run_code, say, search, stall, stop, think

GEMINI, VERTEX = (providers.find(name, "gemini")[0] for name in ("gemini", "vertex"))


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model_turn(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def weather(**more: Any) -> dict[str, Any]:
    """Return a tool with one function."""
    return {"functionDeclarations": [{"name": "weather", "description": "Weather", **more}]}


def results(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a result for every call among the parts."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    named = [{key: call[key] for key in ("name", "id") if key in call} for call in calls]
    return user(*({"functionResponse": {**fields, "response": {"output": "rain"}}} for fields in named))


def parse(
    body: dict[str, Any], model: str = "", provider: SimulatedProvider = GEMINI, *, stream: bool = False, **more: Any
) -> ParsedRequest:
    name = f"{provider.name}/{model}" if model else provider.name
    return msgspec.structs.replace(ask("gemini", name, body, stream=stream, account="me"), **more)


def judgement(body: dict[str, Any], model: str = "", provider: SimulatedProvider = GEMINI) -> Judgement:
    return judged(parse(body, model, provider))


def refused_rule(body: dict[str, Any], model: str = "", provider: SimulatedProvider = GEMINI) -> str:
    """Return the rule that refuses a body; empty if none does."""
    refusal = judgement(body, model, provider).refusal
    return refusal.rule.id if refusal else ""


def chunks(pieces: list[bytes | Fault], *, stream: bool) -> list[dict[str, Any]]:
    """Parse a reply: one body, or every chunk of a stream."""
    data = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    if not stream:
        return [json.loads(data)]
    frames = data.split(b"\r\n\r\n")
    assert frames.pop() == b""
    assert all(frame.startswith(b"data: ") for frame in frames)
    return [json.loads(frame[6:]) for frame in frames]


def parts_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of the first candidate of a reply, in order."""
    return [
        part
        for chunk in found
        for candidate in chunk.get("candidates", [])[:1]
        for part in candidate.get("content", {}).get("parts", [])
    ]


MODELS = ["", "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-4-argon", "gemini-2.5-flash"]
OLD = "gemini-2.5-flash"
QUESTION: dict[str, Any] = {
    "contents": [user("Weather in Oslo?")],
    "tools": [weather()],
    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
}
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BOTH_WAYS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
HOSTS = pytest.mark.parametrize("provider", [GEMINI, VERTEX], ids=["gemini", "vertex"])


def play(*steps, stream: bool = False, model: str = "", provider=GEMINI, **more) -> list[dict[str, Any]]:
    return chunks(write_turn(parse({**QUESTION, **more}, model, provider, stream=stream), steps), stream=stream)


def whole(*steps, **more) -> dict[str, Any]:
    (body,) = play(*steps, **more)
    return body


# --- any reply can be sent back ---------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
steps = st.one_of(
    st.builds(think, words, st.booleans()),
    st.builds(say, words | st.lists(words, min_size=1, max_size=4)),
    st.builds(call, st.just("weather"), st.dictionaries(words, st.none() | st.booleans() | st.integers() | words, max_size=3)),
    st.builds(run_code, words, st.just("42")),
    st.just(image()),
)  # fmt: skip
turns = st.lists(steps, min_size=1, max_size=5).map(tuple)
several = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def send_back(body: dict[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the next request: with the results of the calls, or with another question."""
    has_calls = any("functionCall" in part for part in parts)
    return {
        **body,
        "contents": [*body["contents"], model_turn(*parts), results(parts) if has_calls else user("And now?")],
    }


@several
@given(
    history=st.lists(turns, min_size=1, max_size=3), model=st.sampled_from(MODELS), stream=st.booleans(),
    provider=st.sampled_from([GEMINI, VERTEX]),
)  # fmt: skip
def test_reply_sent_back_unchanged_is_accepted(history, model, provider, stream):
    body = QUESTION
    for turn in history:
        parts = parts_of(chunks(write_turn(parse(body, model, provider, stream=stream), turn), stream=stream))
        assume(parts)
        body = send_back(body, parts)
        assert judgement(body, model, provider).refusal is None


@several
@given(turn=turns, model=st.sampled_from(MODELS), stream=st.booleans(), data=st.data())
def test_changed_moved_or_dropped_signature_is_refused(turn, model, stream, data):
    parts = parts_of(chunks(write_turn(parse(QUESTION, model, stream=stream), turn), stream=stream))
    signed = [n for n, part in enumerate(parts) if "thoughtSignature" in part]
    assume(signed)
    index = data.draw(st.sampled_from(signed))
    signature = parts[index]["thoughtSignature"]

    offset = data.draw(st.integers(0, len(signature) - 1))
    character = data.draw(st.sampled_from(CHARACTERS).filter(lambda one: one != signature[offset]))
    changed = copy.deepcopy(parts)
    changed[index]["thoughtSignature"] = signature[:offset] + character + signature[offset + 1 :]
    assert refused_rule(send_back(QUESTION, changed), model) == "GEM-SIG-02"

    others = [n for n, part in enumerate(parts) if kind(part) != kind(parts[index]) and not part.get("thought")]
    if others and model != OLD:
        moved = copy.deepcopy(parts)
        moved[data.draw(st.sampled_from(others))]["thoughtSignature"] = moved[index].pop("thoughtSignature")
        assert refused_rule(send_back(QUESTION, moved), model).startswith("GEM-SIG-")

    calls = [part for part in parts if "functionCall" in part]
    if calls and model != OLD:
        del calls[0]["thoughtSignature"]
        assert refused_rule(send_back(QUESTION, parts), model) == "GEM-SIG-01"


def kind(part: dict[str, Any]) -> str:
    return next(name for name in part if name not in ("thought", "thoughtSignature"))


@HOSTS
@pytest.mark.parametrize("model", MODELS[:-1])
@pytest.mark.parametrize(
    "on_call, on_result, expected",
    [(True, False, ""), (False, True, "GEM-SIG-01"), (True, True, ""), (False, False, "GEM-SIG-01")],
)
def test_signature_matrix(on_call, on_result, expected, model, provider):
    parts = parts_of(play(call("weather", {"city": "Oslo"}), model=model, provider=provider))
    signature = parts[0].pop("thoughtSignature")
    body = send_back(QUESTION, parts)
    for index, is_signed in ((1, on_call), (2, on_result)):
        if is_signed:
            body["contents"][index]["parts"][0]["thoughtSignature"] = signature

    assert refused_rule(body, model, provider) == expected


@several
@given(turn=turns, model=st.sampled_from(MODELS), provider=st.sampled_from([GEMINI, VERTEX]))
def test_streamed_and_whole_reply_are_equal(turn, model, provider):
    one = whole(*turn, model=model, provider=provider)
    many = play(*turn, model=model, provider=provider, stream=True)

    assert join_texts(parts_of(many)) == join_texts(parts_of([one]))
    assert many[-1]["usageMetadata"] == one["usageMetadata"]
    assert {chunk["responseId"] for chunk in many} == {one["responseId"]}
    assert [chunk["candidates"][0].get("finishReason") for chunk in many][:-1] == [None] * (len(many) - 1)
    assert many[-1]["candidates"][0]["finishReason"] == one["candidates"][0]["finishReason"]


def join_texts(parts: list[dict[str, Any]]) -> list[Any]:
    """Join the pieces of a text up to its signature."""
    joined: list[Any] = []
    for part in parts:
        last = joined[-1] if joined else {}
        continues = "text" in part and "text" in last and part.get("thought") == last.get("thought")
        if continues and "thoughtSignature" not in last:
            joined[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


# --- signatures, reasoning, calls -------------------------------------------------------------------------------------


def test_signature_is_on_last_text_or_on_an_empty_one():
    seen = set()
    for n in range(40):
        parts = parts_of(play(say("It rains on and on."), stream=True, contents=[user(f"Weather {n}?")]))
        assert ["thoughtSignature" in part for part in parts] == [False] * (len(parts) - 1) + [True]
        assert "".join(part["text"] for part in parts) == "It rains on and on."
        seen.add(parts[-1]["text"] == "")

    assert seen == {True, False}


def test_reasoning_is_shown_on_request():
    turn = (think("Hm."), think("Secret", redacted=True), say("It rains."))
    shown, hidden = whole(*turn), whole(*turn, generationConfig={})

    assert parts_of([shown])[0] == {"text": "Hm.", "thought": True}
    assert [part["text"] for part in parts_of([hidden])] == ["It rains."]
    assert shown["usageMetadata"]["thoughtsTokenCount"] == hidden["usageMetadata"]["thoughtsTokenCount"] == 3
    assert "Secret" not in json.dumps(shown)


@BOTH_WAYS
def test_only_first_of_parallel_calls_is_signed(stream):
    calls = (call("weather", {"a": 1}), call("weather", {"a": 2}), call("weather"))
    parts = parts_of(play(*calls, stream=stream))

    assert [part["functionCall"]["args"] for part in parts] == [{"a": 1}, {"a": 2}, {}]
    assert ["thoughtSignature" in part for part in parts] == [True, False, False]


def test_calls_have_ids_from_gemini_3_5_on():
    calls = {model: parts_of(play(call("weather"), model=model))[0]["functionCall"] for model in MODELS[1:]}

    assert [model for model, call in calls.items() if "id" in call] == ["gemini-3.5-flash", "gemini-4-argon"]
    assert parts_of(play(call("weather", id="mine")))[0]["functionCall"]["id"] == "mine"


@BOTH_WAYS
def test_arguments_as_text_are_unchanged_or_end_the_reply(stream):
    body = b"".join(write_turn(parse(QUESTION), (call("weather", '{"a": 1.10, "b":2}'),)))
    last = play(say("Let me look."), call("weather", '{"city": "Os'), stream=stream)[-1]["candidates"][0]

    assert b'"args":{"a": 1.10, "b":2}' in body
    assert refused_rule(send_back(QUESTION, parts_of([json.loads(body)]))) == ""
    assert last["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert '{"city": "Os' in last["finishMessage"]


# --- server tools and images ------------------------------------------------------------------------------------------


def test_citations_have_offsets_in_bytes():
    found = search("æøå", SearchResult("https://example.org/a", "A"), SearchResult("https://example.org/b", "B"))
    turn = (found, say("Ærø: "), say("regn.", cites=(Cite("https://example.org/b"),)))
    metadata = whole(*turn)["candidates"][0]["groundingMetadata"]

    assert metadata == play(*turn, stream=True)[-1]["candidates"][0]["groundingMetadata"]
    assert metadata["webSearchQueries"] == ["æøå"]
    assert [chunk["web"]["uri"][-1] for chunk in metadata["groundingChunks"]] == ["a", "b"]
    assert metadata["groundingSupports"] == [
        {"segment": {"endIndex": 7, "text": "Ærø: "}, "groundingChunkIndices": [0, 1]},
        {"segment": {"startIndex": 7, "endIndex": 12, "text": "regn."}, "groundingChunkIndices": [1]},
    ]


@BOTH_WAYS
def test_search_next_to_functions_is_in_parts(stream):
    more = {"tools": [weather(), {"googleSearch": {}}], "toolConfig": {"includeServerSideToolInvocations": True}}
    parts = parts_of(play(search("rain"), call("weather"), stream=stream, **more))

    assert [next(iter(part)) for part in parts] == ["toolCall", "toolResponse", "functionCall"]
    assert all("thoughtSignature" in part for part in parts)
    assert refused_rule(send_back({**QUESTION, **more}, parts)) == ""


def test_code_and_its_output_are_two_parts():
    code, output, answer = parts_of([whole(run_code("print(42)", "42\n"), say("42"))])
    failed = whole(run_code("1/0", ok=False), model=OLD)

    id = output["codeExecutionResult"]["id"]
    assert code["executableCode"] == {"language": "PYTHON", "code": "print(42)", "id": id}
    assert output == {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n", "id": id}}
    assert ("thoughtSignature" in code, answer["text"]) == (True, "42")
    assert parts_of([failed])[1] == {"codeExecutionResult": {"outcome": "OUTCOME_FAILED"}}


# --- the end of a reply -----------------------------------------------------------------------------------------------


@HOSTS
@BOTH_WAYS
def test_refusal_blocks_the_prompt_or_ends_the_answer(stream, provider):
    (blocked,) = play(refuse("No.", category="jailbreak"), stream=stream, provider=provider)
    *_, ended = play(say("Well,"), refuse("No."), stream=stream, provider=provider)

    assert blocked["promptFeedback"] == {"blockReason": "JAILBREAK", "blockReasonMessage": "No."}
    assert "candidates" not in blocked
    assert ended["candidates"][0]["finishReason"] == "SAFETY"
    assert ended["candidates"][0]["finishMessage"] == "No."


@BOTH_WAYS
@pytest.mark.parametrize(
    "step, reason",
    [(stop("length"), "MAX_TOKENS"), (stop("filter"), "SAFETY"), (stop("stop_sequence"), "STOP"), (pause(), "STOP")],
)
def test_finish_reasons(step, reason, stream):
    found = play(say("It rains."), step, say("Never sent."), stream=stream)

    assert found[-1]["candidates"][0]["finishReason"] == reason
    assert "Never" not in json.dumps(found)


@BOTH_WAYS
@pytest.mark.parametrize(
    "turn, config, text, reason",
    [
        ((say("one two three four five"), call("weather")), {"maxOutputTokens": 3}, "one two thre", "MAX_TOKENS"),
        ((say("one two three four five"),), {"stopSequences": ["x", " four"]}, "one two three", "STOP"),
        ((say("It EN"), say("D, it rains.")), {"stopSequences": ["END"]}, "It ", "STOP"),
        ((call("weather", {"city": "Oslo"}),), {"max_output_tokens": 2}, "", "MAX_TOKENS"),
        ((think("word " * 9), say("a")), {"maxOutputTokens": 4}, "", "MAX_TOKENS"),
    ],
)
def test_output_limit_and_stop_sequences(turn, config, text, reason, stream):
    found = play(*turn, stream=stream, generationConfig=config)

    assert "".join(part.get("text", "") for part in parts_of(found)) == text
    assert found[-1]["candidates"][0]["finishReason"] == reason
    assert not any("functionCall" in part for part in parts_of(found))
    assert found[-1]["usageMetadata"].get("thoughtsTokenCount", 0) == (4 if isinstance(turn[0], Think) else 0)


# --- forms and counts -------------------------------------------------------------------------------------------------


def test_stream_without_alt_sse_is_an_array():
    turn = (say(["It ", "rains", "."]), stall(0.1), call("weather"))
    pieces = write_turn(parse(QUESTION, stream=True, headers={}), turn)

    assert json.loads(b"".join(piece for piece in pieces if isinstance(piece, bytes))) == play(*turn, stream=True)
    assert pieces[0].startswith(b"[{")
    assert pieces[-1] == b"]"


def test_vertex_counts_at_the_end_only():
    first, *_, last = play(say("It rains on and on and on."), stream=True, provider=VERTEX)

    assert first["usageMetadata"] == {"trafficType": "ON_DEMAND"}
    counts = {"promptTokenCount", "candidatesTokenCount", "totalTokenCount"}
    assert counts < last["usageMetadata"].keys()
    assert first["createTime"] == last["createTime"]
    assert "index" not in last["candidates"][0]


def test_counts_add_up():
    found = search("rain", SearchResult("https://a.example", "A", "wet"))
    usage = whole(think("Hm, hm."), found, say("It rains."), cachedContent="cachedContents/1")["usageMetadata"]
    counts = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")

    assert usage["totalTokenCount"] == sum(usage[name] for name in counts)
    assert usage["cachedContentTokenCount"] == usage["promptTokenCount"] // 2


@BOTH_WAYS
def test_every_candidate_is_sent(stream):
    found = play(say("It rains."), stream=stream, generationConfig={"candidateCount": 2})

    assert [candidate["index"] for candidate in found[-1]["candidates"]] == [0, 1]


@pytest.mark.parametrize("key", ["generateContentRequest", "generate_content_request", None])
def test_tokens_are_counted(key):
    body = {"contents": [user("Weather in Oslo?", {"inlineData": {"mimeType": "image/png", "data": "AAAA"}})]}
    request = parse({key: body} if key else body, method="countTokens")

    assert DIALECT.count(turn_request(request)) == {
        "totalTokens": 262,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}, {"modality": "IMAGE", "tokenCount": 258}],
    }


# --- reading ----------------------------------------------------------------------------------------------------------


def test_request_is_read_in_either_case():
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": True}}}
    body = {
        "system_instruction": {"parts": [{"text": "Be kind"}]},
        "contents": [
            user("Weather?"),
            model_turn({"text": "hm", "thought": True}, {"function_call": {"name": "weather", "args": {"a": 1}}}),
            user({"functionResponse": {"name": "weather", "response": {"output": "rain"}}}),
        ],
        "tools": [{"function_declarations": [{"name": "weather", "parameters": schema}]}],
        "toolConfig": {"function_calling_config": {"mode": "any"}},
        "generationConfig": {
            "max_output_tokens": 9, "stopSequences": ["x"], "thinkingConfig": {"include_thoughts": True},
            "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}},
        },
    }  # fmt: skip
    request = turn_request(parse(body, OLD))

    assert (request.turn, request.system, request.tool_choice) == (1, "Be kind", "weather")
    assert [(one.role, one.text, one.calls, one.results) for one in request.messages] == [
        ("user", "Weather?", 0, ()),
        ("assistant", "", 1, ()),
        ("user", "", 0, ("rain",)),
    ]
    assert [tool.name for tool in request.tools] == ["weather"]
    assert request.tools[0].schema["properties"] == {"a": {"type": ["integer", "null"]}}
    assert (request.max_tokens, request.stop, request.shows_thinking, request.thinks) == (9, ("x",), True, True)
    assert request.schema == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    "config, schema",
    [
        ({}, None),
        ({"responseMimeType": "application/json"}, {}),
        ({"responseJsonSchema": {"type": "object"}}, {"type": "object"}),
        ({"responseFormat": [{"text": {"jsonSchema": {"type": "null"}}}]}, {"type": "null"}),
    ],
)
def test_answer_schema_is_read(config, schema):
    assert turn_request(parse({**QUESTION, "generationConfig": config})).schema == schema
