"""What Gemini's voice says: replies that go back unharmed, streamed or not, and every step of a script in its words."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sim.gemini_asking import GEMINI, VERTEX, answers, ask, chunks, exchange, parts_of, said, user, verdict, weather
from tenuto.sim.gemini.voice import VOICE
from tenuto.sim.script import (
    Call,
    Cite,
    Cut,
    Drip,
    Fail,
    Found,
    Pause,
    Picture,
    Refuse,
    RunCode,
    Say,
    Search,
    Stall,
    Stop,
    Think,
)

MODELS = ["", "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-4-argon", "gemini-2.5-flash"]
QUESTION: dict[str, Any] = {
    "contents": [user("Weather in Oslo?")],
    "tools": [weather()],
    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def played(*steps, stream: bool = False, model: str = "", style=GEMINI, **more) -> list[dict[str, Any]]:
    body = {**QUESTION, **more}
    return chunks(exchange(ask(body, model, style, stream=stream), steps), stream=stream)


def whole(*steps, **more) -> dict[str, Any]:
    (body,) = played(*steps, **more)
    return body


# --- any turn goes back unharmed --------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
steps = st.one_of(
    st.builds(Think, words, st.booleans()),
    st.builds(Say, words | st.lists(words, min_size=1, max_size=4)),
    st.builds(Call, st.just("weather"), st.dictionaries(words, st.none() | st.booleans() | st.integers() | words, max_size=3)),
    st.builds(RunCode, words, st.just("42")),
    st.just(Picture()),
)  # fmt: skip
turns = st.lists(steps, min_size=1, max_size=5).map(tuple)
hosts = st.sampled_from([GEMINI, VERTEX])
several = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def back(body: dict[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Send a reply back with what it asks for, or with the next question."""
    called = any("functionCall" in part for part in parts)
    return {**body, "contents": [*body["contents"], said(*parts), answers(parts) if called else user("And now?")]}


@several
@given(
    history=st.lists(turns, min_size=1, max_size=3), model=st.sampled_from(MODELS), style=hosts, stream=st.booleans()
)
def test_a_reply_sent_back_as_it_came_is_never_refused(history, model, style, stream):
    body = QUESTION
    for turn in history:
        parts = parts_of(chunks(exchange(ask(body, model, style, stream=stream), turn), stream=stream))
        assume(parts)
        body = back(body, parts)
        found = verdict(body, model, style)
        assert found.refusal is None, found.refusal


@several
@given(turn=turns, model=st.sampled_from(MODELS), stream=st.booleans(), data=st.data())
def test_a_signature_that_is_changed_moved_or_dropped_is_refused(turn, model, stream, data):
    parts = parts_of(chunks(exchange(ask(QUESTION, model, stream=stream), turn), stream=stream))
    signed = [at for at, part in enumerate(parts) if "thoughtSignature" in part]
    assume(signed)
    at = data.draw(st.sampled_from(signed))
    signature = parts[at]["thoughtSignature"]

    place = data.draw(st.integers(0, len(signature) - 1))
    letter = data.draw(st.sampled_from(LETTERS).filter(lambda one: one != signature[place]))
    changed = copy.deepcopy(parts)
    changed[at]["thoughtSignature"] = signature[:place] + letter + signature[place + 1 :]
    assert verdict(back(QUESTION, changed), model).refusal.rule in ("GEM-SIG-02", "GEM-SIG-05")

    plain = parts_of(played(*turn, model=model))
    others = [n for n in range(len(parts)) if n != at and not _is_for(parts[n], [parts[at], *plain])]
    if "text" in parts[at]:
        others = [n for n in others if not parts[n].get("thought")]  # there it is taken
    if others and model != "gemini-2.5-flash":
        moved = copy.deepcopy(parts)
        moved[data.draw(st.sampled_from(others))]["thoughtSignature"] = moved[at].pop("thoughtSignature")
        assert verdict(back(QUESTION, moved), model).refusal.rule.startswith("GEM-SIG-")

    calls = [n for n, part in enumerate(parts) if "functionCall" in part]
    if calls and model != "gemini-2.5-flash":
        dropped = copy.deepcopy(parts)
        del dropped[calls[0]]["thoughtSignature"]
        assert verdict(back(QUESTION, dropped), model).refusal.rule == "GEM-SIG-01"


def _is_for(part: dict[str, Any], signed: list[dict[str, Any]]) -> bool:
    """Tell whether a part says what a signed one says, in this reply or in the same one that was not streamed."""
    return any(_bare(part) == _bare(one) for one in signed if "thoughtSignature" in one)


def _bare(part: dict[str, Any]) -> Any:
    if "functionCall" in part:
        return {**part["functionCall"], "id": ""}
    return {key: value for key, value in part.items() if key != "thoughtSignature"}


@several
@given(turn=turns, model=st.sampled_from(MODELS), style=hosts)
def test_streamed_and_whole_say_the_same(turn, model, style):
    one = whole(*turn, model=model, style=style)
    many = played(*turn, model=model, style=style, stream=True)

    assert _joined(parts_of(many)) == _joined(parts_of([one]))
    assert many[-1]["usageMetadata"] == one["usageMetadata"]
    assert {chunk["responseId"] for chunk in many} == {one["responseId"]}
    assert [chunk["candidates"][0].get("finishReason") for chunk in many][:-1] == [None] * (len(many) - 1)
    assert many[-1]["candidates"][0]["finishReason"] == one["candidates"][0]["finishReason"]


def _joined(parts: list[dict[str, Any]]) -> list[Any]:
    """Join the pieces of a text up to its signature."""
    found: list[Any] = []
    for part in parts:
        last = found[-1] if found else {}
        joins = "text" in part and "text" in last and part.get("thought") == last.get("thought")
        if joins and "thoughtSignature" not in last:
            found[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            found.append(part)
    return found


# --- each step --------------------------------------------------------------------------------------------------------


def test_the_same_request_gets_the_same_bytes():
    turn = (Think("Hm."), Say("It rains."), Call("weather"))
    assert exchange(ask(QUESTION), turn) == exchange(ask(QUESTION), turn)
    assert exchange(ask(QUESTION, stream=True), turn) == exchange(ask(QUESTION, stream=True), turn)


def test_a_signature_comes_on_the_last_text_or_on_one_more_without_words():
    seen = set()
    for n in range(40):
        parts = parts_of(played(Say("It rains on and on."), stream=True, contents=[user(f"Weather {n}?")]))
        assert ["thoughtSignature" in part for part in parts] == [False] * (len(parts) - 1) + [True]
        assert "".join(part["text"] for part in parts) == "It rains on and on."
        seen.add(parts[-1]["text"] == "")

    assert seen == {True, False}


def test_signatures_have_the_size_of_real_ones():
    sizes = [len(whole(Call("weather"), contents=[user(f"{n}?")]).__str__()) for n in range(30)]

    assert 300 < min(sizes) < 1000
    assert 2000 < max(sizes) < 4000


def test_thoughts_are_shown_where_they_are_asked_for():
    turn = (Think("Hm."), Think("Secret", redacted=True), Say("It rains."))
    shown, hidden = whole(*turn), whole(*turn, generationConfig={})

    assert parts_of([shown])[0] == {"text": "Hm.", "thought": True}
    assert [part["text"] for part in parts_of([hidden])] == ["It rains."]
    assert shown["usageMetadata"]["thoughtsTokenCount"] == hidden["usageMetadata"]["thoughtsTokenCount"] == 3
    assert "Secret" not in json.dumps(shown)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_only_the_first_of_parallel_calls_is_signed(stream):
    parts = parts_of(played(Call("weather", {"a": 1}), Call("weather", {"a": 2}), Call("weather"), stream=stream))

    assert [part["functionCall"]["args"] for part in parts] == [{"a": 1}, {"a": 2}, {}]
    assert ["thoughtSignature" in part for part in parts] == [True, False, False]


def test_calls_have_ids_from_3_5_on():
    ids = {model: "id" in parts_of(played(Call("weather"), model=model))[0]["functionCall"] for model in MODELS[1:]}

    assert ids == {
        "gemini-3-flash-preview": False,
        "gemini-3.5-flash": True,
        "gemini-4-argon": True,
        "gemini-2.5-flash": False,
    }
    assert parts_of(played(Call("weather", id="mine")))[0]["functionCall"]["id"] == "mine"


def test_arguments_as_text_stand_as_they_are():
    body = b"".join(exchange(ask(QUESTION), (Call("weather", '{"a": 1.10, "b":2}'),)))

    assert b'"args":{"a": 1.10, "b":2}' in body
    assert verdict(back(QUESTION, parts_of([json.loads(body)]))).refusal is None


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_arguments_that_are_no_object_are_a_malformed_call(stream):
    last = played(Say("Let me look."), Call("weather", '{"city": "Os'), stream=stream)[-1]["candidates"][0]

    assert last["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert '{"city": "Os' in last["finishMessage"]


def test_what_was_found_and_cited_is_told_in_bytes():
    search = Search("æøå", (Found("https://example.org/a", "A"), Found("https://example.org/b", "B")))
    turn = (search, Say("Ærø: "), Say("regn.", cites=(Cite("https://example.org/b"),)))
    (told,) = [chunk["candidates"][0]["groundingMetadata"] for chunk in (whole(*turn),)]
    streamed = played(*turn, stream=True)[-1]["candidates"][0]["groundingMetadata"]

    assert told == streamed
    assert told["webSearchQueries"] == ["æøå"]
    assert [chunk["web"]["uri"] for chunk in told["groundingChunks"]] == [
        "https://example.org/a",
        "https://example.org/b",
    ]
    assert told["groundingSupports"] == [
        {"segment": {"endIndex": 7, "text": "Ærø: "}, "groundingChunkIndices": [0, 1]},
        {"segment": {"startIndex": 7, "endIndex": 12, "text": "regn."}, "groundingChunkIndices": [1]},
    ]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_search_beside_functions_is_told_in_parts(stream):
    more = {"tools": [weather(), {"googleSearch": {}}], "toolConfig": {"includeServerSideToolInvocations": True}}
    parts = parts_of(played(Search("rain"), Call("weather"), stream=stream, **more))

    assert [next(iter(part)) for part in parts] == ["toolCall", "toolResponse", "functionCall"]
    assert all("thoughtSignature" in part for part in parts)
    assert verdict(back({**QUESTION, **more}, parts)).refusal is None


def test_code_runs_in_two_parts():
    ran, failed = (
        whole(RunCode("print(42)", "42\n"), Say("42")),
        whole(RunCode("1/0", ok=False), model="gemini-2.5-flash"),
    )
    code, result, text = parts_of([ran])

    assert code["executableCode"] == {
        "language": "PYTHON",
        "code": "print(42)",
        "id": result["codeExecutionResult"]["id"],
    }
    assert (result["codeExecutionResult"]["outcome"], result["codeExecutionResult"]["output"]) == ("OUTCOME_OK", "42\n")
    assert ("thoughtSignature" in code, "thoughtSignature" in result, text["text"]) == (True, False, "42")
    assert parts_of([failed])[1] == {"codeExecutionResult": {"outcome": "OUTCOME_FAILED"}}


@pytest.mark.parametrize("style", [GEMINI, VERTEX], ids=["gemini", "vertex"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_refusal_blocks_the_prompt_or_ends_the_answer(stream, style):
    (blocked,) = played(Refuse("No.", category="jailbreak"), stream=stream, style=style)
    *_, ended = played(Say("Well,"), Refuse("No."), stream=stream, style=style)

    assert blocked["promptFeedback"] == {"blockReason": "JAILBREAK", "blockReasonMessage": "No."}
    assert "candidates" not in blocked
    assert ended["candidates"][0]["finishReason"] == "SAFETY"
    assert ended["candidates"][0]["finishMessage"] == "No."


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "step, reason",
    [(Stop("length"), "MAX_TOKENS"), (Stop("filter"), "SAFETY"), (Stop("stop_sequence"), "STOP"), (Pause(), "STOP")],
)
def test_ends(step, reason, stream):
    found = played(Say("It rains."), step, Say("Never said."), stream=stream)

    assert found[-1]["candidates"][0]["finishReason"] == reason
    assert "Never" not in json.dumps(found)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_length_and_stop_sequences_end_a_text(stream):
    long = Say("one two three four five six seven eight")
    short = played(long, Call("weather"), stream=stream, generationConfig={"maxOutputTokens": 3})
    stopped = played(long, stream=stream, generationConfig={"stopSequences": ["x", " four"]})
    across = played(Say("It EN"), Say("D, it rains."), stream=stream, generationConfig={"stopSequences": ["END"]})
    calling = played(Call("weather", {"city": "Oslo"}), stream=stream, generationConfig={"max_output_tokens": 2})
    thought = played(Think("word " * 9), Say("a"), stream=stream, generationConfig={"maxOutputTokens": 4})

    for found, text, reason in (
        (short, "one two thre", "MAX_TOKENS"),
        (stopped, "one two three", "STOP"),
        (across, "It ", "STOP"),
        (calling, "", "MAX_TOKENS"),
        (thought, "", "MAX_TOKENS"),
    ):
        assert "".join(part.get("text", "") for part in parts_of(found)) == text
        assert found[-1]["candidates"][0]["finishReason"] == reason
    assert not any("functionCall" in part for part in parts_of(short))
    assert thought[-1]["usageMetadata"]["thoughtsTokenCount"] == 4


def test_faults_stand_where_they_are_to_happen():
    drip, stall, cut = Drip(3), Stall(1.0), Cut()
    pieces = exchange(
        ask(QUESTION, stream=True), (drip, Say(["It ", "rains"]), stall, Say([" on."]), cut, Call("weather"))
    )
    kinds = [piece if not isinstance(piece, bytes) else b"" for piece in pieces]
    body = exchange(ask(QUESTION), (Say("It rains."), stall, cut))

    assert kinds == [drip, b"", b"", stall, b"", cut, b""]
    assert b"functionCall" in pieces[-1]
    assert body[0] == stall
    assert body[2:] == [cut]
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(body[1])


@pytest.mark.parametrize("status, told", [(529, 503), (500, 500), (429, 429)])
def test_an_error_inside_a_stream_ends_it(status, told):
    found = played(Say(["It ", "rains"]), Fail(status, "Too much"), Say("Never said."), stream=True)

    assert found[-1]["error"]["code"] == told
    assert found[-1]["error"]["message"] == "Too much"
    assert [part["text"] for part in parts_of(found)][:2] == ["It ", "rains"]
    assert "finishReason" not in json.dumps(found)
    assert "Never" not in json.dumps(found)


def test_without_events_a_stream_is_an_array():
    turn = (Say(["It ", "rains", "."]), Stall(0.1), Call("weather"))
    pieces = exchange(ask(QUESTION, stream=True, alt=""), turn)
    told = json.loads(b"".join(piece for piece in pieces if isinstance(piece, bytes)))

    assert told == played(*turn, stream=True)
    assert pieces[0].startswith(b"[{")
    assert pieces[-1] == b"]"


def test_vertex_tells_its_counts_at_the_end():
    first, *_, last = played(Say("It rains on and on and on."), stream=True, style=VERTEX)

    assert first["usageMetadata"] == {"trafficType": "ON_DEMAND"}
    assert {"promptTokenCount", "candidatesTokenCount", "totalTokenCount", "trafficType"} <= last[
        "usageMetadata"
    ].keys()
    assert first["createTime"] == last["createTime"]
    assert "index" not in last["candidates"][0]


def test_counts_add_up():
    used = whole(Think("Hm, hm."), Search("rain", (Found("https://a.example", "A", "wet"),)), Say("It rains."))[
        "usageMetadata"
    ]
    counts = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")

    assert used["totalTokenCount"] == sum(used[name] for name in counts)


def test_vertex_streams_arguments_where_it_is_asked_to():
    more = {"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": True}}}
    args = {"city": "Oslo, the capital", "days": 3, "more": {"list": [True, None]}}
    first, *between, last = parts_of(played(Call("weather", args), stream=True, style=VERTEX, **more))
    pieces = [piece for part in between for piece in part["functionCall"]["partialArgs"]]

    assert first["functionCall"] == {"name": "weather", "willContinue": True}
    assert "thoughtSignature" in first
    assert last == {"functionCall": {}}
    assert "".join(piece.get("stringValue", "") for piece in pieces) == "Oslo, the capital"
    assert [piece["jsonPath"] for piece in pieces][2:] == ["$.days", "$.more.list[0]", "$.more.list[1]"]
    call = {"functionCall": {"name": "weather", "args": args}, "thoughtSignature": first["thoughtSignature"]}
    assert verdict(back(QUESTION, [call]), style=VERTEX).refusal is None


def test_every_candidate_that_is_asked_for_comes():
    for stream in (True, False):
        found = played(Say("It rains."), stream=stream, generationConfig={"candidateCount": 2})
        assert [candidate["index"] for candidate in found[-1]["candidates"]] == [0, 1]


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_what_is_asked_is_read_whichever_way_it_is_written():
    body = {
        "system_instruction": {"parts": [{"text": "Be kind"}]},
        "contents": [
            user("Weather?"),
            said({"text": "hm", "thought": True}, {"function_call": {"name": "weather", "args": {"a": 1}}}),
            user({"functionResponse": {"name": "weather", "response": {"output": "rain"}}}),
        ],
        "tools": [{"function_declarations": [{"name": "weather", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": True}}}}]}, {"codeExecution": {}}],
        "toolConfig": {"function_calling_config": {"mode": "any"}},
        "generationConfig": {"max_output_tokens": 9, "stopSequences": ["x"], "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}, "thinkingConfig": {"include_thoughts": True}},
    }  # fmt: skip
    asked = VOICE.read(VOICE.open(ask(body)))

    assert (asked.turn, asked.system, asked.choice) == (1, "Be kind", "weather")
    assert [(one.role, one.text, one.calls, one.results) for one in asked.said] == [
        ("user", "Weather?", (), ()),
        ("assistant", "", (("weather", '{"a":1}'),), ()),
        ("user", "", (), (("weather", "rain"),)),
    ]
    assert [(tool.name, tool.kind) for tool in asked.tools] == [("weather", "function"), ("codeExecution", "code")]
    assert asked.tools[0].schema["properties"] == {"a": {"type": ["integer", "null"]}}
    assert (asked.max_tokens, asked.stop, asked.show, asked.think) == (9, ("x",), True, True)
    assert asked.schema == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    "config, schema",
    [
        ({}, None),
        ({"responseMimeType": "application/json"}, {}),
        ({"responseJsonSchema": {"type": "object"}}, {"type": "object"}),
        (
            {"responseFormat": [{"text": {"mimeType": "application/json", "jsonSchema": {"type": "null"}}}]},
            {"type": "null"},
        ),
    ],
)
def test_what_an_answer_has_to_fit(config, schema):
    assert VOICE.read(VOICE.open(ask({**QUESTION, "generationConfig": config}))).schema == schema


@pytest.mark.parametrize("key", ["generateContentRequest", "generate_content_request", None])
def test_tokens_are_counted(key):
    body = {"contents": [user("Weather in Oslo?", {"inlineData": {"mimeType": "image/png", "data": "AAAA"}})]}
    request = ask({key: body} if key else body)
    request = type(request)(
        **{name: getattr(request, name) for name in request.__struct_fields__} | {"verb": "countTokens"}
    )
    told = VOICE.count(VOICE.read(VOICE.open(request)))

    assert told == {
        "totalTokens": 262,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}, {"modality": "IMAGE", "tokenCount": 258}],
    }
