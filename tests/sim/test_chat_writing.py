"""Replies of the chat dialect: equal as body and stream, with the differences of hosts, and accepted when sent back."""

from __future__ import annotations

import json
import re
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.playing import SEED, ask, judged, write_turn
from tenuto.sim.engine import RawRequest, SimEngine
from tenuto.sim.log import ExchangeLog
from tenuto.sim.providers import all_providers
from tenuto.sim.script import Cite, Say, ScriptPlayer, Search, SearchResult
from tenuto.testing import call, image, pause, refuse, run_code, say, search, stop, think, turn

NAMES = [provider.name for provider in all_providers() if provider.dialect == "openai-chat"]
MODELS = [
    "openai/gpt-5.4", "deepseek/deepseek-v4-pro", "moonshot/kimi-k3", "magistral-medium-latest", "glm-5.3", "grok-4.7",
    "groq/openai/gpt-oss-120b", "groq/llama-3.3-70b-versatile", "openrouter/anthropic/claude-opus-4.6",
    "openrouter/openai/gpt-6-sol", "openrouter/google/gemini-4-argon", "openrouter/moonshotai/kimi-k2.6",
    "openrouter/z-ai/glm-4.6", "qwen3.8-max", "MiniMax-M2.7",
]  # fmt: skip
CLAUDE, GPT, GEMINI = MODELS[8:11]
HI = {"role": "user", "content": "hi"}
BODY = {"messages": [HI], "stream_options": {"include_usage": True}}
FULL = turn(think("Let me see."), "Here ", call("f", {"a": 1}), call("g"), "it is.")
FOUND = (SearchResult("https://example.org/a", "A page", "Some words"),)
LONG = "x" * 100


def written(named, steps, body=None, *, stream=False):
    return write_turn(ask("openai-chat", named, {"model": named, **(body or BODY)}, stream=stream), steps)


def whole(named, steps, body=None) -> dict[str, Any]:
    (data,) = written(named, steps, body)
    return json.loads(data)


def message(named, steps, body=None) -> dict[str, Any]:
    return whole(named, steps, body)["choices"][0]["message"]


def chunks(named, steps, body=None) -> list[dict[str, Any]]:
    frames = written(named, steps, body, stream=True)
    lines = b"".join(frame for frame in frames if isinstance(frame, bytes)).decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]


def result(id="call_1"):
    return {"role": "tool", "tool_call_id": id, "content": "ok"}


def refusal(named, *messages, **fields):
    body = {"model": named, "messages": list(messages), "stream": True, **fields}
    return judged(ask("openai-chat", named, body, stream=True)).refusal


def assembled(found, index=0) -> dict[str, Any]:
    """Join the deltas of a choice."""
    joined: dict[str, Any] = {}
    details: dict[Any, dict[str, Any]] = {}
    for delta in (choice["delta"] for chunk in found for choice in chunk["choices"] if choice["index"] == index):
        for key, value in delta.items():
            if key == "tool_calls":
                for fragment in value:
                    calls = joined.setdefault(key, [])
                    if fragment["index"] == len(calls):
                        calls.append(json.loads(json.dumps(fragment)))
                    else:
                        calls[-1]["function"]["arguments"] += fragment["function"]["arguments"]
            elif key == "reasoning_details":
                for one in value:
                    own = details.setdefault((one["index"], one["type"]), {})
                    for name, part in one.items():
                        own[name] = (
                            own.get(name, "") + part if name in ("text", "summary", "data", "signature") else part
                        )
            elif key == "content" and (isinstance(value, list) or isinstance(joined.get(key), list)):
                joined[key] = joined_parts(joined.get(key), value)
            elif isinstance(value, str) and key != "role":
                joined[key] = (joined.get(key) or "") + value
            else:
                joined[key] = joined.get(key, []) + value if isinstance(value, list) else value
    return {**joined, "reasoning_details": list(details.values())} if details else joined


def joined_parts(before, value) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": before}] if isinstance(before, str) and before else list(before or [])
    for one in [{"type": "text", "text": value}] if isinstance(value, str) else value:
        last = parts[-1] if parts else {}
        if one["type"] == "text" and last.get("type") == "text":
            last["text"] += one["text"]
        elif one["type"] == "thinking" and last.get("type") == "thinking" and "signature" not in last:
            text = last["thinking"][0]["text"] + "".join(part["text"] for part in one["thinking"])
            parts[-1] = {**last, **one, "thinking": [{"type": "text", "text": text}]}
        elif one.get("text") != "":
            parts.append(dict(one))
    return parts


def finish(found):
    return [choice["finish_reason"] for chunk in found for choice in chunk["choices"] if choice["finish_reason"]]


# --- body and stream --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [*NAMES, *MODELS])
def test_stream_equals_body(named):
    body, found = whole(named, FULL), chunks(named, FULL)
    expected, streamed = body["choices"][0]["message"], assembled(found)

    assert streamed["content"] == (expected.get("content") or "")
    for key in ("reasoning_content", "reasoning", "reasoning_details"):
        assert (streamed.get(key) or None) == (expected.get(key) or None), key
    assert streamed["tool_calls"] == expected["tool_calls"]
    assert finish(found) == ["tool_calls"] == [body["choices"][0]["finish_reason"]]
    assert {chunk["id"] for chunk in found} == {body["id"]}
    usages = [chunk.get("usage") or chunk.get("x_groq", {}).get("usage") for chunk in found]
    assert [usage for usage in usages if usage][-1] == body["usage"]


@pytest.mark.parametrize("named", ["openai", "deepseek", "mistral", "openrouter", "together", "perplexity"])
def test_pieces_of_a_script_are_chunks(named):
    pieces = ["One", " two", "", ' "three" \U0001f600 \u2028']
    deltas = [
        choice["delta"].get("content") for chunk in chunks(named, turn(say(pieces))) for choice in chunk["choices"]
    ]

    assert [delta for delta in deltas if delta] == [piece for piece in pieces if piece]


def test_lone_surrogates_are_written():
    steps = turn(say(["a\ud83d", "b"]), call("f", {"a": "\ude00"}))

    assert message("openai", steps)["content"] == assembled(chunks("openai", steps))["content"] == "a\ud83db"


# --- differences of hosts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "keys"),
    [
        ("deepseek", {"reasoning_content"}), ("moonshot", {"reasoning_content"}), ("chat", {"reasoning_content"}),
        ("groq", {"reasoning"}), ("ollama", {"reasoning"}), ("together", {"reasoning"}),
        ("openrouter", {"reasoning", "reasoning_details"}),
        ("openai", set()), ("azure", set()), ("mistral", set()), ("minimax", set()), ("perplexity", set()),
    ],
)  # fmt: skip
def test_place_of_reasoning(named, keys):
    found = message(named, turn(think("Hm."), "So."))

    assert {key for key in found if key.startswith("reasoning")} == keys
    assert all("Hm." in str(found[key]) for key in keys)


def test_thinking_parts_tags_and_split_reasoning():
    steps = turn(think("First. "), think("Then."), "So.")
    parts = message("mistral", steps)["content"]
    split = message("minimax", turn(think("Hm."), "So."), {**BODY, "reasoning_split": True})

    assert [part["type"] for part in parts] == ["thinking", "text"]
    assert parts[0]["thinking"] == [{"type": "text", "text": "First. Then."}]
    assert assembled(chunks("mistral", steps))["content"] == parts
    assert message("minimax", turn(think("Hm."), "So."))["content"] == "<think>\nHm.\n</think>\n\nSo."
    assert (split["content"], split["reasoning_details"][0]["text"]) == ("So.", "Hm.")
    assert message("minimax", turn(think(LONG), "So."), {**BODY, "max_tokens": 5})["content"] == "<think>\n" + "x" * 20


@pytest.mark.parametrize(
    ("named", "fields"),
    [
        ("deepseek", {"thinking": {"type": "disabled"}}),
        ("openrouter", {"reasoning": {"exclude": True}}),
        ("groq/openai/gpt-oss-120b", {"reasoning_format": "hidden"}),
        ("openai", {}),
    ],
)
def test_hidden_reasoning_is_only_counted(named, fields):
    reply = whole(named, turn(think("A long thought."), "So."), {**BODY, **fields})

    assert "thought" not in json.dumps(reply["choices"])
    assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] == 4


@pytest.mark.parametrize("named", ["deepseek", "moonshot"])
def test_field_of_required_reasoning_is_never_absent(named):
    steps = turn(call("f"))

    assert message(named, steps)["reasoning_content"] == assembled(chunks(named, steps))["reasoning_content"] == ""


@pytest.mark.parametrize(
    ("named", "pattern"),
    [
        ("openai", r"call_\w{24}"), ("deepseek", r"call_00_\w{24}"), ("mistral", r"[a-zA-Z0-9]{9}"), ("groq", r"[a-z0-9]{9}"),
        ("moonshot", r"functions\.f:0"), ("xai", r"call_\d{8}"), ("alibaba", r"call_[0-9a-f]{24}"), (CLAUDE, r"toolu_bdrk_01\w{22}"),
    ],
)  # fmt: skip
def test_form_of_call_ids(named, pattern):
    assert re.fullmatch(pattern, message(named, turn(call("f")))["tool_calls"][0]["id"])


def test_call_ids_count_through_the_conversation():
    first = message("moonshot", turn(call("f"), call("f")))
    back = [HI, first, *(result(call["id"]) for call in first["tool_calls"])]
    second = message("moonshot", turn(call("f")), {"messages": back})

    assert [call["id"] for call in (*first["tool_calls"], *second["tool_calls"])] == [
        f"functions.f:{n}" for n in range(3)
    ]


@pytest.mark.parametrize(
    ("named", "is_whole"), [("mistral", True), ("groq", True), ("openai", False), ("alibaba", False)]
)
def test_calls_are_whole_or_split(named, is_whole):
    found = chunks(named, turn(call("f", {"city": "a long name of a city"})))
    fragments = [one for chunk in found for choice in chunk["choices"] for one in choice["delta"].get("tool_calls", [])]

    assert (len(fragments) == 1) == is_whole


@pytest.mark.parametrize(
    ("named", "content"), [("openai", {"content": None}), ("deepseek", {"content": ""}), ("groq", {})]
)
def test_content_of_message_with_calls(named, content):
    found = message(named, turn(call("f")))

    assert {key: value for key, value in found.items() if key == "content"} == content


@pytest.mark.parametrize(
    ("named", "places"),
    [
        ("openai", [-1]), ("xai", [-1]), ("deepseek", [-1]), ("openrouter", [-1]), ("perplexity", [0, 1, 2]),
    ],
)  # fmt: skip
def test_place_of_usage_in_stream(named, places):
    found = chunks(named, turn("Hi"))

    assert [index for index, chunk in enumerate(found) if chunk.get("usage")] == [
        place % len(found) for place in places
    ]
    assert bool(found[-1]["choices"]) == (named not in ("openai", "xai"))
    assert not any("usage" in chunk for chunk in chunks("openai", turn("Hi"), {"messages": [HI]}))


def test_usage_counts_cache_and_reasoning():
    cached = whole(
        "openai", turn("Hi"), {"messages": [{**HI, "content": "x" * 4000}, message("openai", turn("y")), HI]}
    )
    reasoning = whole("xai", turn(think("A long thought."), "Yes."))["usage"]

    assert cached["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert (reasoning["completion_tokens"], reasoning["completion_tokens_details"]["reasoning_tokens"]) == (1, 4)
    assert reasoning["total_tokens"] == reasoning["prompt_tokens"] + 5


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize(
    ("step", "trace"),
    [
        (search("rain in Oslo", *FOUND), "example.org/a"),
        (say("It rains.", cites=(Cite("https://example.org/b", "B"),)), "example.org/b"),
        (run_code("print(1)", "one"), "one"),
        (image(), "iVBORw0KGgo"),
        (refuse("Never."), "Never."),
        (search("nothing"), "nothing"),
        (call("f", '{"a": 1.10}'), '{\\"a\\": 1.10}'),
    ],
)
def test_each_step_is_written(named, step, trace):
    assert trace in json.dumps(whole(named, turn(step)))
    assert trace in json.dumps(assembled(chunks(named, turn(step))))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (turn("Well", pause(), "x"), "stop"), (turn("Well", stop("length"), "x"), "length"),
        (turn("Well", stop("stop_sequence"), "x"), "stop"), (turn("Well", stop("filter"), "x"), "content_filter"),
        (turn("Well", refuse("No."), "x"), "stop"), (turn("Well", call("f")), "tool_calls"),
    ],
)  # fmt: skip
def test_finish_reason(steps, reason):
    assert whole("openai", steps)["choices"][0]["finish_reason"] == reason
    assert finish(chunks("openai", steps)) == [reason]


def test_refusal_has_its_field_or_is_text():
    assert message("openai", turn(refuse("No.")))["refusal"] == "No."
    assert message("mistral", turn(refuse("No.")))["content"] == "No."
    assert assembled(chunks("openai", turn(refuse("No, no."))))["refusal"] == "No, no."


def test_choices_have_their_own_call_ids():
    body = {**BODY, "n": 3}
    choices, found = whole("openai", FULL, body)["choices"], chunks("openai", FULL, body)

    assert len({choice["message"]["tool_calls"][0]["id"] for choice in choices}) == 3
    for choice in choices:
        assert assembled(found, choice["index"])["tool_calls"] == choice["message"]["tool_calls"]
    assert finish(found) == ["tool_calls"] * 3


@pytest.mark.parametrize("limit", [1, 2, 5, 11])
@pytest.mark.parametrize(
    "steps",
    [
        turn(LONG), turn(say(["abc", "defgh", LONG])), turn(think("Hm."), think(LONG), "So."), turn(refuse(LONG)),
        turn("Well.", call("weather", {"city": "Oslo"}), call("weather", {"city": LONG})),
    ],
    ids=range(5),
)  # fmt: skip
@pytest.mark.parametrize("named", ["openai", "deepseek", "mistral", "xai"])
def test_token_limit_ends_the_reply(named, steps, limit):
    reply = whole(named, steps, {**BODY, "max_tokens": limit})
    streamed = assembled(chunks(named, steps, {**BODY, "max_tokens": limit}))

    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] - reply["usage"]["prompt_tokens"] == limit
    assert (streamed.get("content") or "") == (reply["choices"][0]["message"].get("content") or "")


@pytest.mark.parametrize(
    ("steps", "stop", "content"),
    [
        (turn("one tw", "o three"), "two", "one "),
        (turn("one ", say(["t", "w"]), "o three"), ["two"], "one "),
        (turn("one tw", think("Hm."), "o three"), "two", "one two three"),
        (turn("one tw", call("f"), "o three"), "two", "one two three"),
        (turn("one two"), ["two", "one"], ""),
    ],
    ids=str,
)
def test_stop_sequence_ends_the_reply(steps, stop, content):
    assert message("fireworks", steps, {**BODY, "stop": stop})["content"] == content
    assert assembled(chunks("fireworks", steps, {**BODY, "stop": stop}))["content"] == content


# --- sent back --------------------------------------------------------------------------------------------------------

WORDS = st.text(string.ascii_letters + ' .,\n"{}<>é\U0001f600', min_size=1, max_size=30)
STEPS = st.one_of(
    st.builds(think, WORDS | st.lists(WORDS, max_size=3), st.booleans()),
    st.builds(say, WORDS | st.lists(WORDS, min_size=1, max_size=3)),
    st.builds(call, st.sampled_from(["f", "get_it"]), st.dictionaries(st.sampled_from("abc"), WORDS, max_size=3)),
    st.builds(Search, WORDS, st.sampled_from([(), FOUND])),
)
TURNS = st.lists(STEPS, max_size=5).flatmap(
    lambda steps: st.sampled_from([Say("Done."), call("f", {"a": 1}), refuse("No."), pause()]).map(
        lambda last: (say("Well."), *steps, last)
    )
)


def replayed(named, reply):
    """Leave out the fields that a client does not send back."""
    strict = {"mistral": (), "fireworks": ("reasoning_content",)}
    known = strict.get(named.split("/")[0].replace("magistral-medium-latest", "mistral"))
    kept = {key: value for key, value in reply.items() if value is not None}
    return (
        kept if known is None else {key: kept[key] for key in kept if key in ("role", "content", "tool_calls", *known)}
    )


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@given(named=st.sampled_from([*NAMES, *MODELS]), turns=st.lists(TURNS, min_size=1, max_size=3))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_replies_are_accepted_when_sent_back(stream, named, turns):
    messages = [HI]
    for steps in turns:
        body = {"messages": messages, "stream": True}
        reply = assembled(chunks(named, steps, body)) if stream else message(named, steps, body)
        back = [result(call["id"]) for call in reply.get("tool_calls") or []] or [HI]
        messages = [*messages, replayed(named, reply), *back]
        assert refusal(named, *messages) is None


THINKING = turn(think("First this."), think("Then that."), call("f", {"a": 1}))


@pytest.mark.parametrize("named", [CLAUDE, GPT, GEMINI])
@pytest.mark.parametrize("reasoning", [{"effort": "none"}, {"exclude": True}])
def test_replies_without_reasoning_are_accepted(named, reasoning):
    reply = message(named, THINKING, {**BODY, "reasoning": reasoning})

    assert "First this." not in json.dumps(reply)
    assert refusal(named, HI, reply, result(reply["tool_calls"][0]["id"]), reasoning=reasoning) is None


def test_host_error_is_in_the_metadata():
    reply = message(CLAUDE, THINKING)
    reply["reasoning_details"][0]["text"] = "Other."
    body = {"model": CLAUDE, "messages": [HI, reply, result(reply["tool_calls"][0]["id"])]}
    request = RawRequest("POST", "/v1/chat/completions", body=json.dumps(body).encode())
    (data,) = SimEngine(SEED, ExchangeLog(), ScriptPlayer()).answer(request).pieces
    error = json.loads(data)["error"]

    assert error["message"] == "Provider returned error"
    assert "Invalid `signature` in `thinking` block" in error["metadata"]["raw"]
