"""What the Responses dialect says: the events in their order, the same plain as streamed, and always fit to be replayed."""

from __future__ import annotations

import base64
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.responses_help import AZURE, DEEPSEEK, OPENAI, XAI, Host, event, results, user, without
from tenuto.sim.asked import Style
from tenuto.sim.responses.voice import VOICE
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

OTHER = Style(name="vllm", dialect="openai-responses", envelope="openai")
STYLES = [OPENAI, AZURE, XAI, DEEPSEEK, OTHER]
ASK = {"input": "What is the weather?", "reasoning": {"summary": "auto"}}
ALL = (
    Think("**Look**\n\nHm.\n\n**Ask**\n\nWell."),
    Search("weather", (Found("https://example.org"),)),
    RunCode("print(1)", "1\n"),
    Picture(),
    Say("It rains, they say.", (Cite("https://example.org", "News", "rains"),)),
    Call("f", {"a": 1}),
    Call("g", "{not json"),
)


def names(events):
    return [one["type"].removeprefix("response.") for one in events]


def kinds(items):
    return [item["type"] for item in items]


def deltas(events, kind):
    return "".join(one["delta"] for one in events if one["type"] == f"response.{kind}.delta")


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_a_stream_and_a_body_say_the_same(style):
    host = Host(style)
    events = host.events(ASK, *ALL)
    whole = host.reply(ASK, *ALL)
    last = events[-1]["response"]

    assert whole["output"] == last["output"]
    assert without(whole, "billing") == last
    assert [one["item"] for one in events if one["type"] == "response.output_item.done"] == whole["output"]
    assert deltas(events, "output_text") == "It rains, they say."


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_the_same_request_gets_the_same_bytes(style):
    assert Host(style).pieces(ASK, *ALL) == Host(style).pieces(ASK, *ALL)
    assert Host(style).pieces(ASK, *ALL) != Host(style, seed="other").pieces(ASK, *ALL)


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_events_are_numbered_and_items_open_before_they_are_filled(style):
    events = Host(style).events(ASK, *ALL)
    opened = {}
    for one in events:
        if one["type"] == "response.output_item.added":
            opened[one["output_index"]] = one["item"]["id"]
        elif "item_id" in one:
            assert opened[one["output_index"]] == one["item_id"]

    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert names(events)[:2] == ["created", "in_progress"]
    assert names(events)[-1] == "completed"
    assert sorted(opened) == list(range(7))


def test_a_message_is_streamed_part_by_part():
    events = Host().events(ASK, Say(["It ", "rains."]))

    assert names(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [one["delta"] for one in events[4:6]] == ["It ", "rains."]
    assert events[4]["logprobs"] == []
    assert len(events[4]["delta"] + events[4]["obfuscation"]) == 16
    assert events[2]["item"]["content"] == []
    assert events[8]["item"]["content"][0]["text"] == events[6]["text"] == "It rains."


def test_padding_can_be_switched_off():
    body = {**ASK, "stream_options": {"include_obfuscation": False}}

    assert not any("obfuscation" in one for one in Host().events(body, *ALL))
    assert any("obfuscation" in one for one in Host(AZURE).events(ASK, *ALL))


def test_a_summary_has_its_parts_and_is_shown_only_if_asked_for():
    thought = Think("**Look**\n\nHm.\n\n**Ask**\n\nWell.")
    events = Host().events(ASK, thought, "x")
    shown = events[-1]["response"]["output"][0]
    hidden = Host().events({"input": "x"}, thought, "x")

    assert [part["text"] for part in shown["summary"]] == ["**Look**\n\nHm.", "**Ask**\n\nWell."]
    assert names(events).count("reasoning_summary_part.added") == 2
    assert hidden[-1]["response"]["output"][0]["summary"] == []
    assert not any("summary" in one["type"] for one in hidden)
    assert Host().output(ASK, Think("x", redacted=True), "y")[0]["summary"] == []


@pytest.mark.parametrize("style", [OPENAI, AZURE], ids=lambda style: style.name)
def test_the_blob_of_the_opening_is_not_that_of_the_end(style):
    events = Host(style).events({"input": "x"}, Think("Hm. " * 300), "y")
    first, last = (one["item"] for one in events if one.get("item", {}).get("type") == "reasoning")
    blobs = [first["encrypted_content"], last["encrypted_content"]]

    assert blobs[0] != blobs[1]
    assert events[-1]["response"]["output"][0] == last
    for blob in blobs:
        assert blob.startswith("gAAAAAB")
        assert 600 <= len(blob) <= 4000
        assert base64.urlsafe_b64decode(blob)[0] == 0x80


def test_ids_look_like_the_providers():
    items = Host().output(ASK, *ALL)
    whole = Host().reply(ASK, *ALL)
    prefixes = ["rs", "ws", "ci", "ig", "msg", "fc", "fc"]

    assert [item["id"].partition("_")[0] for item in items] == prefixes
    assert all(len(item["id"].partition("_")[2]) == 50 for item in items)
    assert len({item["id"] for item in items}) == len(items)
    assert {item["id"].partition("_")[2][:16] for item in items} == {whole["id"][5:21]}
    assert whole["id"].startswith("resp_")


def test_xai_names_items_after_their_response():
    whole = Host(XAI).reply(ASK, *ALL)
    found = [item["id"] for item in whole["output"]]

    assert found[0] == f"rs_{whole['id']}"
    assert found[4] == f"msg_{whole['id']}"
    assert found[5:] == [f"fc_{whole['id']}_5", f"fc_{whole['id']}_6"]
    assert whole["output"][0]["status"] == "completed"


def test_deepseek_thinks_aloud():
    events = Host(DEEPSEEK).events(ASK, Think("Hm."), "x")
    item = events[-1]["response"]["output"][0]

    assert item["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert deltas(events, "reasoning_text") == "Hm."
    assert events[-1]["response"]["store"] is False


def test_calls_carry_their_text_as_it_is():
    items = Host().output(ASK, *ALL)
    tools = [
        {"type": "custom", "name": "sh"},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "f"}]},
    ]
    given = Host().output(
        {**ASK, "tools": tools}, Call("sh", {"input": "ls"}), Call("sh", "pwd"), Call("f", id="call_x")
    )

    assert [item["arguments"] for item in items[5:]] == ['{"a":1}', "{not json"]
    assert kinds(given) == ["custom_tool_call", "custom_tool_call", "function_call"]
    assert [item["input"] for item in given[:2]] == ["ls", "pwd"]
    assert (given[2]["call_id"], given[2]["namespace"]) == ("call_x", "ns")


def test_what_the_provider_does_itself_is_told():
    include = ["code_interpreter_call.outputs", "web_search_call.action.sources"]
    items = Host().output({**ASK, "include": include}, *ALL)
    events = names(Host().events(ASK, *ALL))

    assert items[1]["action"] == {
        "type": "search", "queries": ["weather"], "query": "weather",
        "sources": [{"type": "url", "url": "https://example.org"}],
    }  # fmt: skip
    assert items[2]["outputs"] == [{"type": "logs", "logs": "1\n"}]
    assert items[3]["result"].startswith("iVBOR")
    assert items[4]["content"][0]["annotations"] == [
        {"type": "url_citation", "end_index": 8, "start_index": 3, "title": "News", "url": "https://example.org"}
    ]
    assert "web_search_call.searching" in events
    assert "code_interpreter_call.interpreting" in events
    assert "image_generation_call.partial_image" in events
    assert "output_text.annotation.added" in events


def test_a_refusal_is_a_part_of_its_own():
    events = Host().events(ASK, Refuse("No."))

    assert events[-1]["response"]["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert deltas(events, "refusal") == "No."
    assert events[-1]["response"]["status"] == "completed"


@pytest.mark.parametrize(
    ("steps", "status", "reason", "found"),
    [
        (("x", Stop(), "y"), "incomplete", "max_output_tokens", ["message"]),
        (("x", Stop("filter")), "incomplete", "content_filter", ["message"]),
        (("x", Stop("stop_sequence"), "y"), "completed", None, ["message"]),
        (("x", Pause(), "y"), "completed", None, ["message"]),
        ((Think("x"),), "completed", None, ["reasoning", "message"]),
        ((), "completed", None, ["message"]),
        ((Stop(),), "incomplete", "max_output_tokens", []),
    ],
)
def test_an_answer_ends_as_it_is_told_to(steps, status, reason, found):
    events = Host().events(ASK, *steps)
    whole = events[-1]["response"]

    assert events[-1]["type"] == f"response.{status}"
    assert whole["status"] == status
    assert whole["incomplete_details"] == (reason and {"reason": reason})
    assert (whole["completed_at"] is not None) == (status == "completed")
    assert kinds(whole["output"]) == found
    assert without(Host().reply(ASK, *steps), "billing") == whole


@pytest.mark.parametrize(("limit", "found"), [(2, ["reasoning"]), (5, ["reasoning", "message"]), (40, ["reasoning", "message", "function_call"])])  # fmt: skip
def test_an_answer_ends_where_its_tokens_do(limit, found):
    steps = (Think("0123456789ab"), Say(["0123", "456789", "abcdef"]), Call("f", {"a": "b"}))
    events = Host().events({**ASK, "max_output_tokens": limit}, *steps)
    whole = events[-1]["response"]

    assert kinds(whole["output"]) == found
    assert whole["usage"]["output_tokens"] <= limit
    assert whole["status"] == ("completed" if limit == 40 else "incomplete")
    if limit == 5:
        assert whole["output"][1]["content"][0]["text"] == deltas(events, "output_text") == "01234567"
        assert whole["output"][1]["status"] == "incomplete"


def test_faults_happen_where_they_stand():
    stall, cut = Stall(1.0), Cut()
    frames = Host().pieces(ASK, Say("one "), stall, Say("two"), Drip(3), Call("f"), cut, "never")
    kept = [frame if not isinstance(frame, bytes) else event(frame)["type"] for frame in frames]
    text = "".join(found["delta"] for found in map(event, (f for f in frames if isinstance(f, bytes))) if "output_text.delta" in found["type"] and found["output_index"] == 0)  # fmt: skip

    assert text == "one two"
    assert event(frames[-1])["response"]["output"][0]["content"][0]["text"] == "one two"
    assert kept.index(stall) < kept.index("response.output_text.done")
    assert kept.index(Drip(3)) == kept.index("response.output_item.done") + 1
    assert kept[kept.index(cut) - 1] == "response.output_item.done"
    assert kept[kept.index(cut) + 1] == "response.output_item.added"


def test_faults_of_a_plain_reply_stand_around_it():
    whole = Host().pieces(ASK, "x", stream=False)[0]
    early, half, cut = Host().pieces(ASK, Stall(0.1), "x", Cut(), stream=False)

    assert (early, cut) == (Stall(0.1), Cut())
    assert whole.startswith(half)
    assert len(half) == len(whole) // 2


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (500, "server_error", "server_error"),
        (429, "rate_limit_exceeded", "rate_limit_exceeded"),
        (529, "server_is_overloaded", "server_error"),
    ],
)
def test_a_failure_in_the_stream_is_told_twice(status, code, told):
    events = Host().events(ASK, "x", Fail(status, "Oh no."), "y")

    assert names(events)[-2:] == ["error", "failed"]
    assert events[-2]["error"] == {
        "type": events[-2]["error"]["type"],
        "code": code,
        "message": "Oh no.",
        "param": None,
    }
    assert events[-1]["response"]["status"] == "failed"
    assert events[-1]["response"]["error"] == {"code": told, "message": "Oh no."}
    assert names(events).count("output_item.done") == 1


def test_a_response_says_back_what_was_asked():
    tool = {"type": "function", "name": "f", "parameters": {}}
    body = {
        "input": "x", "instructions": "Be kind.", "temperature": 0.5, "max_output_tokens": 99, "tools": [tool], "user": "u",
        "metadata": {"a": "b"}, "previous_response_id": None, "truncation": "auto", "tool_choice": "none", "store": False,
        "text": {"verbosity": "low"}, "reasoning": {"effort": "low", "summary": "auto"}, "service_tier": "flex",
    }  # fmt: skip
    begun = Host().events(body, "x")[0]["response"]

    for key in ("instructions", "temperature", "max_output_tokens", "user", "metadata", "truncation", "tool_choice", "store", "service_tier"):  # fmt: skip
        assert begun[key] == body[key]
    assert begun["tools"] == [{"type": "function", "description": None, "name": "f", "parameters": {}, "strict": True}]
    assert begun["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert begun["reasoning"] == {"context": "all_turns", "effort": "low", "mode": "standard", "summary": "detailed"}
    assert (begun["status"], begun["output"], begun["usage"]) == ("in_progress", [], None)


def test_phases_say_what_is_an_answer():
    def phases(host):
        return [item.get("phase") for item in host.output(ASK, "a", Call("f"), "b") if item["type"] == "message"]

    assert phases(Host()) == ["commentary", "final_answer"]
    assert phases(Host(model="gpt-5.3-codex")) == ["commentary", "final_answer"]
    assert phases(Host(model="gpt-5")) == [None, None]
    assert phases(Host(XAI)) == [None, None]


def test_usage_counts_thoughts_among_what_is_written():
    usage = Host().reply(ASK, Think("x" * 400), "y" * 40)["usage"]

    assert usage["output_tokens_details"]["reasoning_tokens"] == 100
    assert usage["output_tokens"] == 110
    assert usage["total_tokens"] == usage["input_tokens"] + 110


def test_tokens_are_counted():
    asked = Host().asked({"input": "x" * 400})

    assert VOICE.count(asked) == {"object": "response.input_tokens", "input_tokens": asked.prompt_tokens}
    assert 100 <= asked.prompt_tokens < 120


def test_half_characters_are_written():
    events = Host().events(ASK, Say(["\ud83d", "\ude00"]))

    assert deltas(events, "output_text").encode("utf-16-le", "surrogatepass").decode("utf-16-le") == "\U0001f600"


# --- whatever was said can be sent back -----------------------------------------------------------------------------

word = st.sampled_from(["Hm.", "Well, let me see.", "**A**\n\nb\n\n**C**\n\nd", "", "é \U0001f600"])
step = st.one_of(
    st.builds(Think, word, st.booleans()),
    st.builds(Say, word),
    st.builds(Call, st.sampled_from(["f", "sh"]), st.dictionaries(word, st.integers(), max_size=2)),
    st.builds(Search, st.just("q")),
    st.builds(RunCode, st.just("1")),
    st.just(Picture()),
)
turns = st.lists(st.lists(step, min_size=1, max_size=6), min_size=1, max_size=3)
TOOLS = [{"type": "function", "name": "f"}, {"type": "custom", "name": "sh"}]


def conversation(host, script, store, stream):
    """Play a script turn by turn, sending everything back each time; every request has to be accepted."""
    items = [user()]
    for steps in script:
        body = {"input": items, "tools": TOOLS, "store": store, "reasoning": {"summary": "auto"}}
        verdict = host.verdict(body)
        assert verdict.refusal is None, verdict.refusal.message
        said = host.streamed(body, *steps) if stream else host.output(body, *steps)
        items = [*items, *said, *results(said), user("And now?")]
    return items, {"tools": TOOLS, "store": store, "reasoning": {"summary": "auto"}}


@settings(max_examples=60, deadline=None)
@given(turns, st.booleans(), st.booleans(), st.sampled_from(STYLES))
def test_what_was_said_can_be_sent_back(script, store, stream, style):
    host = Host(style)
    items, more = conversation(host, script, store, stream)
    verdict = host.verdict({"input": items, **more})

    assert verdict.refusal is None
    assert host.asked({"input": items, **more}).turn == len(script)


@settings(max_examples=40, deadline=None)
@given(turns, st.booleans(), st.sampled_from([OPENAI, AZURE, XAI]))
def test_what_is_stored_need_not_be_sent_back(script, stream, style):
    host = Host(style)
    body = {"input": [user()], "tools": TOOLS}
    for at, steps in enumerate(script):
        assert host.verdict(body).refusal is None
        assert host.asked(body).turn == at
        said = host.streamed(body, *steps) if stream else host.output(body, *steps)
        id = host.made[-1].reply["id"]
        body = {"input": [*results(said), user("And now?")], "tools": TOOLS, "previous_response_id": id}

    assert host.verdict(body).refusal is None


@settings(max_examples=60, deadline=None)
@given(turns, st.booleans(), st.booleans(), st.sampled_from([OPENAI, AZURE]), st.randoms(use_true_random=False))
def test_a_thought_that_is_dropped_moved_or_altered_is_refused(script, store, stream, style, chance):
    host = Host(style)
    script = [[Think("Hm."), *steps] for steps in script]
    items, more = conversation(host, script, store, stream)
    thoughts = [at for at, item in enumerate(items) if item.get("type") == "reasoning"]
    gone = chance.choice(thoughts)
    blob = items[gone]["encrypted_content"]
    letter = chance.randrange(len(blob))
    other = chance.choice([one for one in "ABab01" if one != blob[letter]])
    spoilt = [
        [item for at, item in enumerate(items) if at != gone],
        _with(items, gone, encrypted_content=blob[:letter] + other + blob[letter + 1 :]),
        _with(items, gone, encrypted_content=blob[: -chance.randrange(1, 40)]),
        [*items[:gone], items[gone + 1], items[gone], *items[gone + 2 :]],
        *(_swapped(items, one, two) for one, two in itertools.combinations(thoughts[:4], 2)),
    ]
    for bad in spoilt:
        refusal = host.verdict({"input": bad, **more}).refusal
        assert refusal is not None
        assert refusal.rule.startswith("OAR-REAS-0")


def _with(items, at, **more):
    return [item | more if place == at else item for place, item in enumerate(items)]


def _swapped(items, one, two):
    found = [*items]
    found[one], found[two] = found[two], found[one]
    return found


@settings(max_examples=40, deadline=None)
@given(turns, st.booleans(), st.sampled_from(STYLES))
def test_without_thoughts_and_ids_everything_is_taken(script, stream, style):
    host = Host(style)
    items, more = conversation(host, script, False, stream)
    bare = [without(item, "id") for item in items if item.get("type") != "reasoning"]

    for sent in (bare, [without(item, "id") for item in items]):
        assert host.verdict({"input": sent, **more}).refusal is None
        assert Host(style, seed="other").verdict({"input": bare, **more}).refusal is None


@settings(max_examples=40, deadline=None)
@given(st.lists(step, min_size=1, max_size=6), st.sampled_from(STYLES))
def test_any_turn_is_the_same_plain_and_streamed(steps, style):
    events = Host(style).events(ASK, *steps)
    (data,) = Host(style).pieces(ASK, *steps, stream=False)

    assert without(json.loads(data), "billing") == events[-1]["response"]
