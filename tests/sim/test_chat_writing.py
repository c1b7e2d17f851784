"""What the chat dialect writes: the same in a body and in a stream, as each provider writes it, and fit to be sent back."""

from __future__ import annotations

import json
import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.chat_asking import asked, assembled, events, result, user, verdict, whole, written
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
    turn,
)
from tenuto.sim.styles import STYLES

NAMES = [style.name for style in STYLES if style.dialect == "openai-chat"]
MODELS = [
    *(
        "openai/gpt-5.4",
        "deepseek/deepseek-v4-pro",
        "moonshot/kimi-k3",
        "magistral-medium-latest",
        "glm-5.3",
        "grok-4.7",
    ),
    *("groq/openai/gpt-oss-120b", "groq/llama-3.3-70b-versatile", "openrouter/anthropic/claude-opus-4.6"),
    *("openrouter/openai/gpt-6-sol", "openrouter/google/gemini-4-argon", "openrouter/moonshotai/kimi-k2.6"),
    *("openrouter/z-ai/glm-4.6", "qwen3.8-max", "MiniMax-M2.7"),
]
BODY = {"messages": [user("hi")], "stream_options": {"include_usage": True}}
FULL = turn(Think("Let me see."), "Here ", Call("f", {"a": 1}), Call("g"), "it is.")
FOUND = (Found("https://example.org/a", "A page", "Some words"),)


def chunks(named, steps, body=None):
    return events(written(named, steps, body or BODY, stream=True))


def finish(found):
    return [choice["finish_reason"] for chunk in found for choice in chunk["choices"] if choice.get("finish_reason")]


# --- the same in both forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [*NAMES, *MODELS])
def test_a_stream_says_what_the_body_says(named):
    body = whole(named, FULL, BODY)
    found = chunks(named, FULL)
    message, streamed = body["choices"][0]["message"], assembled(found)

    assert streamed["content"] == (message.get("content") or "")
    for key in ("reasoning_content", "reasoning"):
        assert (streamed.get(key) or None) == (message.get(key) or None), key
    assert streamed.get("reasoning_details") == message.get("reasoning_details")
    told = [(one["id"], one["function"]) for one in message["tool_calls"]]
    assert told == [(one["id"], one["function"]) for one in streamed["tool_calls"]]
    assert finish(found) == ["tool_calls"] == [body["choices"][0]["finish_reason"]]
    assert {chunk["id"] for chunk in found} - {""} == {body["id"]}


@pytest.mark.parametrize("named", NAMES)
def test_usage_is_the_same_in_both_forms(named):
    found = chunks(named, FULL)
    told = [chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") for chunk in found]

    assert [one for one in told if one][-1] == whole(named, FULL, BODY)["usage"]


@pytest.mark.parametrize("named", NAMES)
def test_the_same_request_gets_the_same_bytes(named):
    assert written(named, FULL, BODY, stream=True) == written(named, FULL, BODY, stream=True)
    assert written(named, FULL, BODY) == written(named, FULL, BODY)
    assert written(named, FULL, BODY) != written(named, FULL, {"messages": [user("ho")]})


@pytest.mark.parametrize("named", NAMES)
def test_a_stream_ends_with_its_last_word(named):
    frames = written(named, FULL, BODY, stream=True)

    assert frames[-1] == b"data: [DONE]\n\n"
    assert all(frame.endswith(b"\n\n") for frame in frames)


@pytest.mark.parametrize("named", ["openai", "deepseek", "mistral", "openrouter", "together", "perplexity"])
def test_pieces_of_a_script_are_streamed_as_they_are(named):
    pieces = ["One", " two", "", ' "three" \U0001f600 \u2028']
    found = chunks(named, turn(Think(["a", " b"]), Say(pieces)))
    told = [choice["delta"].get("content") for chunk in found for choice in chunk["choices"]]
    texts = [one if isinstance(one, str) else "".join(part.get("text", "") for part in one or []) for one in told]

    assert [one for one in texts if one][-3:] == [one for one in pieces if one]


@pytest.mark.parametrize("named", NAMES)
def test_half_a_character_is_written_as_it_is(named):
    steps = turn(Say(["a\ud83d", "b"]), Call("f", {"a": "\ude00"}))
    body = whole(named, steps)["choices"][0]["message"]
    streamed = assembled(chunks(named, steps))

    assert body["content"] == streamed["content"] == "a\ud83db"
    assert body["tool_calls"][0]["function"]["arguments"] == streamed["tool_calls"][0]["function"]["arguments"]


# --- where things stand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "keys"),
    [
        ("deepseek", {"reasoning_content"}), ("moonshot", {"reasoning_content"}), ("xai", {"reasoning_content"}),
        ("zai", {"reasoning_content"}), ("alibaba", {"reasoning_content"}), ("fireworks", {"reasoning_content"}),
        ("chat", {"reasoning_content"}), ("together", {"reasoning", "reasoning_content"}), ("groq", {"reasoning"}),
        ("ollama", {"reasoning"}), ("openrouter", {"reasoning", "reasoning_details"}),
        ("openai", set()), ("azure", set()), ("mistral", set()), ("minimax", set()),
    ],
)  # fmt: skip
def test_reasoning_stands_where_the_provider_puts_it(named, keys):
    body = whole(named, turn(Think("Hm."), "So."))
    message = body["choices"][0]["message"]

    assert {key for key in message if key.startswith("reasoning")} == keys
    assert all("Hm." in str(message[key]) for key in keys)


def test_mistral_thinks_in_chunks_and_signs_them():
    content = whole("magistral-medium-latest", turn(*[Think("Hm."), Say("So.")] * 8))["choices"][0]["message"][
        "content"
    ]

    assert content[0]["thinking"] == [{"type": "text", "text": "Hm."}]
    assert [one["type"] for one in content] == ["thinking", "text"] * 8
    assert 0 < sum("signature" in one for one in content) < 8


def test_minimax_thinks_in_tags_or_apart():
    tagged = whole("minimax", turn(Think("Hm."), "So."))["choices"][0]["message"]
    apart = whole("minimax", turn(Think("Hm."), "So."), {**BODY, "reasoning_split": True})["choices"][0]["message"]

    assert tagged["content"] == "<think>\nHm.\n</think>\n\nSo."
    assert (apart["content"], apart["reasoning_details"][0]["text"]) == ("So.", "Hm.")


def test_thoughts_that_are_turned_off_or_hidden_are_only_counted():
    for named, body in (
        ("deepseek", {**BODY, "thinking": {"type": "disabled"}}),
        ("openrouter", {**BODY, "reasoning": {"exclude": True}}),
        ("groq/openai/gpt-oss-120b", {**BODY, "reasoning_format": "hidden"}),
        ("openai", BODY),
    ):
        told = whole(named, turn(Think("A long thought."), "So."), body)
        assert "thought" not in json.dumps(told["choices"])
        assert told["usage"]["completion_tokens_details"]["reasoning_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
def test_deepseek_and_kimi_have_the_field_even_if_nothing_was_thought(stream):
    for named in ("deepseek", "moonshot"):
        steps = turn(Call("f"))
        message = assembled(chunks(named, steps)) if stream else whole(named, steps)["choices"][0]["message"]
        assert message["reasoning_content"] == ""


@pytest.mark.parametrize(
    ("named", "pattern"),
    [
        ("openai", r"call_\w{24}"), ("deepseek", r"call_00_\w{24}"), ("mistral", r"[a-zA-Z0-9]{9}"), ("groq", r"[a-z0-9]{9}"),
        ("groq/openai/gpt-oss-120b", r"fc_[0-9a-f-]{36}"), ("moonshot", r"functions\.f:0"), ("xai", r"call_\d{8}"),
        ("alibaba", r"call_[0-9a-f]{24}"), ("ollama", r"call_[a-z0-9]{8}"), ("minimax", r"call_function_\w{12}_0"),
        ("openrouter/anthropic/claude-opus-4.6", r"toolu_bdrk_01\w{22}"), ("vllm", r"chatcmpl-tool-[0-9a-f]{32}"),
        ("openrouter/moonshotai/kimi-k2.6", "f:0"),
    ],
)  # fmt: skip
def test_ids_of_calls_have_the_providers_form(named, pattern):
    (told,) = whole(named, turn(Call("f")))["choices"][0]["message"]["tool_calls"]

    assert re.fullmatch(pattern, told["id"])


def test_ids_of_calls_go_on_counting():
    said = whole("moonshot", turn(Call("f"), Call("f")))["choices"][0]["message"]
    back = [user("hi"), said, *(result(one["id"]) for one in said["tool_calls"])]
    more = whole("moonshot", turn(Call("f")), {"messages": back})["choices"][0]["message"]

    assert [one["id"] for one in (*said["tool_calls"], *more["tool_calls"])] == [f"functions.f:{n}" for n in range(3)]


@pytest.mark.parametrize(
    ("named", "whole_calls"), [("mistral", True), ("groq", True), ("xai", True), ("openai", False), ("alibaba", False)]
)
def test_a_call_comes_whole_or_in_pieces(named, whole_calls):
    found = chunks(named, turn(Call("f", {"city": "a long name of a city"})))
    pieces = [one for chunk in found for choice in chunk["choices"] for one in choice["delta"].get("tool_calls", [])]

    assert (len(pieces) == 1) == whole_calls


def test_arguments_in_a_string_are_sent_as_they_stand():
    for args in ('{"a": 1.10}', "{oops", ""):
        assert (
            whole("openai", turn(Call("f", args)))["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
            == args
        )


# --- usage and other fields -------------------------------------------------------------------------------------------


def test_openai_sends_usage_only_if_asked_and_says_null_before():
    asking, silent = chunks("openai", turn("Hi")), chunks("openai", turn("Hi"), {"messages": [user("hi")]})

    assert asking[-1]["choices"] == []
    assert asking[-1]["usage"]["completion_tokens"] == 1
    assert {chunk["usage"] for chunk in asking[:-1]} == {None}
    assert not any("usage" in chunk for chunk in silent)


def test_xai_leaves_thoughts_out_of_the_answers_tokens():
    told = whole("xai", turn(Think("A long thought."), "Yes."))["usage"]

    assert (told["completion_tokens"], told["completion_tokens_details"]["reasoning_tokens"]) == (1, 4)
    assert told["total_tokens"] == told["prompt_tokens"] + 5


def test_each_has_its_own_words_for_usage():
    long = {"messages": [user("x" * 4000), {"role": "assistant", "content": "y"}, user("z")]}
    told = whole("deepseek", turn("Hi"), long)["usage"]

    assert told["prompt_cache_hit_tokens"] + told["prompt_cache_miss_tokens"] == told["prompt_tokens"]
    assert told["prompt_cache_hit_tokens"] > 0
    assert whole("openrouter", turn("Hi"))["usage"]["cost"] > 0
    assert "total_time" in chunks("groq", turn("Hi"))[-1]["x_groq"]["usage"]
    assert set(whole("together", turn("Hi"))["usage"]) == {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
    }


def test_openrouter_sends_comments_and_a_bill_of_its_own():
    streams = [written("openrouter", turn("Hi"), {"messages": [user(str(n))]}, stream=True) for n in range(8)]

    assert any(frames[0] == b": OPENROUTER PROCESSING\n\n" for frames in streams)
    assert all(b'"cost":' in frames[-2] for frames in streams)


def test_azure_begins_with_what_the_filter_found():
    first, second = chunks("azure", turn("Hi"))[:2]

    assert (first["id"], first["choices"]) == ("", [])
    assert first["prompt_filter_results"][0]["content_filter_results"]["hate"]["filtered"] is False
    assert second["choices"][0]["content_filter_results"] == {}


# --- every step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize(
    ("step", "trace"),
    [
        (Search("rain in Oslo", FOUND), "example.org/a"),
        (Say("It rains.", cites=(Cite("https://example.org/b", "B"),)), "example.org/b"),
        (RunCode("print(1)", "one"), "one"),
        (Picture(), "iVBORw0KGgo"),
        (Refuse("Never."), "Never."),
        (Search("nothing"), "nothing"),
    ],
)
def test_no_step_is_lost(named, step, trace):
    body = json.dumps(whole(named, turn(step)))
    frames = chunks(named, turn(step))
    streamed = json.dumps([assembled(frames), frames[-1].get("citations"), frames[-1].get("search_results")])

    assert trace in body
    assert trace in streamed


def test_sources_stand_where_the_provider_puts_them():
    steps = turn(Search("q", FOUND), Say("Rain.", cites=(Cite("https://example.org/a", "A page"),)))
    openai = whole("openai", steps)["choices"][0]["message"]
    perplexity = whole("perplexity", steps)

    assert openai["annotations"][-1]["url_citation"] == {
        "url": "https://example.org/a", "title": "A page", "start_index": 0, "end_index": 5,
    }  # fmt: skip
    assert perplexity["citations"] == ["https://example.org/a"] * 2
    assert perplexity["search_results"][0]["snippet"] == "Some words"


def test_a_refusal_has_its_own_field_where_there_is_one():
    openai = whole("openai", turn(Refuse("No.")))["choices"][0]
    mistral = whole("mistral", turn(Refuse("No.")))["choices"][0]

    assert (openai["message"]["refusal"], openai["message"]["content"], openai["finish_reason"]) == (
        "No.",
        None,
        "stop",
    )
    assert (mistral["message"]["content"], mistral["finish_reason"]) == ("No.", "stop")
    assert assembled(chunks("openai", turn(Refuse("No, no."))))["refusal"] == "No, no."


@pytest.mark.parametrize(
    ("named", "step", "reason"),
    [
        ("openai", Pause(), "stop"), ("openai", Stop("length"), "length"), ("openai", Stop("stop_sequence"), "stop"),
        ("openai", Stop("filter"), "content_filter"), ("zai", Stop("filter"), "sensitive"), ("mistral", Stop("filter"), "error"),
    ],
)  # fmt: skip
def test_an_answer_ends_as_the_script_says(named, step, reason):
    steps = turn("Well", step, "never said")

    assert whole(named, steps)["choices"][0]["finish_reason"] == reason
    assert finish(chunks(named, steps)) == [reason]
    assert "never said" not in json.dumps(whole(named, steps))


def test_the_limit_of_tokens_ends_it():
    told = whole("openai", turn("x" * 100, Call("f")), {**BODY, "max_completion_tokens": 5})["choices"][0]

    assert (told["message"]["content"], told["finish_reason"]) == ("x" * 20, "length")
    assert "tool_calls" not in told["message"]
    cut = whole("openai", turn(Call("f", {"a": "x" * 100})), {**BODY, "max_completion_tokens": 5})["choices"][0]
    assert (cut["finish_reason"], len(cut["message"]["tool_calls"][0]["function"]["arguments"])) == ("length", 16)
    assert assembled(chunks("openai", turn(Say(["abc", "defgh", "i"])), {**BODY, "max_tokens": 1}))["content"] == "abcd"


def test_a_stop_sequence_ends_it():
    steps = turn("one two", " three four", "five")

    for body in ({**BODY, "stop": " four"}, {**BODY, "stop": ["xx", " four"]}):
        told = whole("openai", steps, body)["choices"][0]
        assert (told["message"]["content"], told["finish_reason"]) == ("one two three", "stop")


def test_several_choices_say_the_same_with_ids_of_their_own():
    body = {**BODY, "n": 3}
    told = whole("openai", FULL, body)["choices"]
    found = chunks("openai", FULL, body)

    assert [one["index"] for one in told] == [0, 1, 2]
    assert len({one["message"]["tool_calls"][0]["id"] for one in told}) == 3
    for one in told:
        streamed = assembled(found, one["index"])
        assert streamed["content"] == one["message"]["content"]
        assert [call["id"] for call in streamed["tool_calls"]] == [call["id"] for call in one["message"]["tool_calls"]]
    assert finish(found) == ["tool_calls"] * 3


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "trace"),
    [
        ("openai", b'data: {"error":{"message":"Busy"'), ("groq", b'event: error\ndata: {"error":{"message":"Busy"'),
        ("openrouter", b'"error":{"message":"Busy","code":503}'), ("xai", b'data: {"error":{"message":"Busy"'),
    ],
)  # fmt: skip
def test_an_error_inside_the_stream_ends_it(named, trace):
    frames = written(named, turn("Well", Fail(503, "Busy"), "never said"), BODY, stream=True)

    assert trace in frames[-1]
    assert b"never said" not in b"".join(frames)
    assert b"Well" in b"".join(frames)


def test_openrouter_says_the_error_in_a_chunk():
    last = chunks("openrouter", turn("Well", Fail(503, "Busy")))[-1]

    assert last["choices"][0]["finish_reason"] == "error"
    assert last["error"]["code"] == 503


def test_groq_fails_a_call_that_does_not_fit_its_schema():
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    body = {**BODY, "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}
    (error,) = [one["error"] for one in chunks("groq", turn(Call("f", {"b": 1})), body) if "error" in one]

    assert error["code"] == "tool_use_failed"
    assert error["status_code"] == 400
    assert "missing properties: 'a', additionalProperties 'b' not allowed" in error["message"]
    assert json.loads(error["failed_generation"]) == {"name": "f", "arguments": {"b": 1}}


def test_faults_stand_where_the_script_has_them():
    frames = written("openai", turn(Stall(0.1), "one", Drip(3), "two", Cut()), BODY, stream=True)
    places = {type(one): at for at, one in enumerate(frames) if not isinstance(one, bytes)}
    texts = [at for at, one in enumerate(frames) if isinstance(one, bytes) and (b'"one"' in one or b'"two"' in one)]

    assert places[Stall] < texts[0] < places[Drip] < texts[1] < places[Cut]


def test_a_body_is_cut_in_half():
    drip, half, cut = written("openai", turn("one", Cut(), Drip(3)))

    assert (drip, cut) == (Drip(3), Cut())
    assert written("openai", turn("one"))[0].startswith(half)


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_a_request_is_read():
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    body = {
        "messages": [
            {"role": "system", "content": "Be kind."}, {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            user([{"type": "text", "text": "hi"}]),
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
            result("1"),
        ],
        "tools": [{"type": "function", "function": function}, {"type": "openrouter:web_search"}, {"type": "code_execution"}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False, "n": 2,
        "max_tokens": 9, "stop": "x", "response_format": {"type": "json_schema", "json_schema": {"schema": {"a": 1}}},
    }  # fmt: skip
    found = asked("chat", body)

    assert (found.system, found.turn, found.choice, found.parallel) == ("Be kind.\n\nBe brief.", 1, "f", False)
    assert [(one.role, one.text, one.calls, one.results) for one in found.said] == [
        ("user", "hi", (), ()), ("assistant", "", (("f", "{}"),), ()), ("user", "", (), (("f", "ok"),)),
    ]  # fmt: skip
    assert [(one.name, one.kind) for one in found.tools] == [
        ("f", "function"), ("openrouter:web_search", "search"), ("code_execution", "code"),
    ]  # fmt: skip
    assert (found.max_tokens, found.stop, found.schema, found.choices) == (9, ("x",), {"a": 1}, 2)
    assert found.prompt_tokens > 10


# --- and back again ---------------------------------------------------------------------------------------------------

WORDS = st.text(string.ascii_letters + ' .,\n"{}<>é\U0001f600', min_size=1, max_size=30)
ARGS = st.dictionaries(
    st.sampled_from("abc"), st.integers() | WORDS | st.none() | st.lists(st.booleans(), max_size=2), max_size=3
)
STEPS = st.one_of(
    st.builds(Think, WORDS | st.lists(WORDS, max_size=3), st.booleans()),
    st.builds(Say, WORDS | st.lists(WORDS, min_size=1, max_size=3)),
    st.builds(Call, st.sampled_from(["f", "get_it"]), ARGS),
    st.builds(Search, WORDS, st.sampled_from([(), FOUND])),
    st.builds(RunCode, WORDS, WORDS),
    st.just(Picture()),
)
TURNS = st.lists(STEPS, max_size=5).flatmap(
    lambda steps: st.sampled_from([Say("Done."), Call("f", {"a": 1}), Refuse("No."), Pause()]).map(
        lambda last: (Say("Well."), *steps, last)
    )
)


def kept(named, message):
    """Leave out what a client knows not to send back there."""
    strict = {
        "mistral": ("role", "content", "tool_calls"),
        "fireworks": ("role", "content", "tool_calls", "reasoning_content"),
    }
    known = strict.get(named.split("/")[0].replace("magistral-medium-latest", "mistral"))
    return {key: value for key, value in message.items() if value is not None and (known is None or key in known)}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@given(named=st.sampled_from([*NAMES, *MODELS]), turns=st.lists(TURNS, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_said_can_be_sent_back(stream, named, turns):
    """Whatever a provider answered is taken back verbatim, with results, turn by turn."""
    if named == "azure":
        turns = [tuple(step for step in one if not isinstance(step, Picture)) for one in turns]
    messages = [user("hi")]
    for steps in turns:
        body = {"messages": messages, "max_tokens": 100_000} if named not in MODELS else {"messages": messages}
        assert verdict(named, body, stream=True).refusal is None
        if stream:
            message = assembled(chunks(named, steps, body))
        else:
            message = whole(named, steps, body)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        back = [result(one["id"]) for one in calls] or [user("go on")]
        messages = [*messages, kept(named, message), *back]
        found = verdict(named, {"messages": messages}, stream=True)
        assert found.refusal is None, found.refusal.message
