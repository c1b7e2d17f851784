"""The simulated Responses dialect: requests that need earlier replies, and the replies, streamed and whole."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.sim.engine import RawRequest, SimEngine, without_faults
from tenuto.sim.log import ExchangeLog
from tenuto.sim.script import Cite, Script, ScriptPlayer, Search, SearchResult, Step, Think
from tenuto.testing import call, fail, image, pause, refuse, run_code, say, search, stop, think

PROVIDERS = ["openai", "azure", "xai", "deepseek", "vllm"]
USER = {"role": "user", "content": "What is the weather?"}
ASK = {"input": [USER], "reasoning": {"summary": "auto"}}
STATELESS = {**ASK, "store": False}
ANSWER = (think("Hm, let me see."), say("It rains."))
CALL = (think("Hm, let me see."), call("weather", {"city": "Oslo"}))
ALL = (
    think("**Look**\n\nHm.\n\n**Ask**\n\nWell."),
    search("weather", SearchResult("https://example.org")),
    run_code("print(1)", "1\n"),
    image(),
    say("It rains, they say.", cites=(Cite("https://example.org", "News", "rains"),)),
    call("f", {"a": 1}),
    call("g", "{not json"),
)


class Sim:
    """One simulator, without HTTP. Every request of a conversation gets the same turn."""

    def __init__(self, model: str = "openai", key: str = "", seed: str = "seed") -> None:
        self.model, self.key, self.seed = model, key, seed
        self.log = ExchangeLog()

    def send(self, body: dict[str, Any], *steps: Step | str) -> list[Any]:
        turn = tuple(say(step) if isinstance(step, str) else step for step in steps)
        scripts = ScriptPlayer([Script(turns=(turn,) * 9)] if steps else ())
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        data = json.dumps({"model": self.model, **body}).encode()
        request = RawRequest("POST", "/v1/responses", headers, {}, data)
        return SimEngine(self.seed, self.log, scripts).answer(request).pieces

    def reply(self, body: dict[str, Any], *steps: Step | str) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(b"".join(without_faults(self.send(body, *steps))))
        return reply

    def events(self, body: dict[str, Any], *steps: Step | str) -> list[dict[str, Any]]:
        return [event(frame) for frame in self.send({**body, "stream": True}, *steps)]

    def output(self, body: dict[str, Any], *steps: Step | str) -> list[dict[str, Any]]:
        return self.reply(body, *steps)["output"]

    def rule(self, body: dict[str, Any]) -> str:
        """Return the rule that refuses a request; empty if it is accepted."""
        self.send(body, "Yes.")
        return self.log.records[-1].rule


def event(frame: bytes) -> dict[str, Any]:
    name, data, *rest = frame.decode().split("\n")
    fields: dict[str, Any] = json.loads(data.removeprefix("data: "))
    assert name == f"event: {fields['type']}"
    assert rest == ["", ""]
    return fields


def names(events: list[dict[str, Any]]) -> list[str]:
    return [fields["type"].removeprefix("response.") for fields in events]


def deltas(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(fields["delta"] for fields in events if fields["type"] == f"response.{kind}.delta")


def without(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in keys}


def outputs(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an output for every call."""
    calls = [item for item in items if item["type"] in ("function_call", "custom_tool_call")]
    return [{"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "12"} for item in calls]


# --- requests that need earlier replies -------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "rule"), [("openai", "OAR-REAS-05"), ("xai", "OAR-XAI-01")])
def test_encrypted_content_is_valid_only_unchanged_and_for_its_issuer(model, rule):
    sim = Sim(model, key="mine")
    items = sim.output(STATELESS, *ANSWER)
    token = items[0]["encrypted_content"]
    body = {**STATELESS, "input": [USER, *items, USER]}
    changed = {**STATELESS, "input": [USER, {**items[0], "encrypted_content": token[:-5] + "AAAAA"}, items[1], USER]}
    bare = {**STATELESS, "input": [USER, without(items[0], "id"), without(items[1], "id"), USER]}

    assert sim.rule(body) == sim.rule(bare) == ""
    assert sim.rule(changed) == rule
    for other in (Sim(model, key="yours"), Sim(model, key="mine", seed="other")):
        assert other.rule(bare) == rule


def test_encrypted_content_of_an_added_event_is_refused():
    sim = Sim()
    events = sim.events(STATELESS, *ANSWER)
    added = next(fields["item"] for fields in events if fields["type"] == "response.output_item.added")
    items = events[-1]["response"]["output"]
    mixed = [{**items[0], "encrypted_content": added["encrypted_content"]}, items[1]]

    assert sim.rule({**STATELESS, "input": [USER, *mixed, USER]}) == "OAR-REAS-05"
    assert sim.rule({**STATELESS, "input": [USER, *items, USER]}) == ""


def test_stored_responses_are_continued():
    sim = Sim()
    reply = sim.reply({**ASK, "instructions": "Be kind."}, *CALL)
    previous = {"previous_response_id": reply["id"]}

    assert sim.rule({"input": outputs(reply["output"]), **previous}) == ""
    assert [finding.rule.id for finding in sim.log.records[-1].judgement.warnings] == ["OAR-PARAM-11"]
    assert sim.rule({"input": [USER], **previous}) == "OAR-TOOL-01"
    assert sim.rule({"input": [*reply["output"], *outputs(reply["output"])], **previous}) == "OAR-ITEM-01"
    assert sim.rule({"input": [], "previous_response_id": "resp_0"}) == "OAR-PARAM-06"
    assert sim.rule({"input": [], "previous_response_id": "resp_\ud800"}) == "OAR-PARAM-06"
    assert sim.rule({"input": [USER], **previous, "conversation": "conv_1"}) == "OAR-PARAM-05"
    assert Sim(key="other").rule({"input": [USER], **previous}) == "OAR-PARAM-06"


def test_items_are_found_by_reference_if_they_are_stored():
    sim = Sim()
    stored, lost = sim.output(ASK, *CALL), sim.output(STATELESS, *CALL)
    reference = [{"type": "item_reference", "id": item["id"]} for item in stored]

    assert sim.rule({"input": [USER, *reference, *outputs(stored)]}) == ""
    assert sim.rule({"input": [USER, without(stored[0], "encrypted_content"), stored[1], *outputs(stored)]}) == ""
    assert sim.rule({"input": [USER, *reference, *outputs(lost)]}) == "OAR-TOOL-02"
    assert sim.rule({"input": [USER, {"type": "item_reference", "id": lost[0]["id"]}]}) == "OAR-REAS-04"
    assert sim.rule({"input": [USER, {"type": "item_reference", "id": "fc_1"}]}) == "OAR-ITEM-04"


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("azure", {"input": [USER, {"role": "assistant", "id": "msg_made_up", "content": "Hi"}, USER]}),
        ("openai", {"input": [USER, {"type": "reasoning", "summary": []}, {"role": "assistant", "content": "Hi"}]}),
        ("deepseek", {"input": [{"type": "reasoning", "id": "a", "summary": []}] * 2}),
        ("xai", {"input": [USER, {"role": "assistant", "id": "msg_1", "content": "Hi"}] * 2}),
        ("xai", {"input": [USER], "messages": []}),
        ("ollama", {"input": [USER, {"type": "function_call_output", "call_id": "call_1", "output": ""}]}),
        ("openai", {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}], "conversation": "conv"}),
        ("openai/gpt-9-nova", {"input": [USER]}),
    ],
)
def test_tolerated_requests_are_accepted(model, body):
    assert Sim(model).rule(body) == ""


# --- replies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stream_and_body_are_equal(provider):
    sim = Sim(provider)
    events, reply = sim.events(ASK, *ALL), sim.reply(ASK, *ALL)
    added = {fields["output_index"]: fields["item"]["id"] for fields in events if "output_item.added" in fields["type"]}

    assert reply == events[-1]["response"]
    assert [fields["item"] for fields in events if fields["type"] == "response.output_item.done"] == reply["output"]
    assert [fields["sequence_number"] for fields in events] == list(range(len(events)))
    assert all(added[fields["output_index"]] == fields["item_id"] for fields in events if "item_id" in fields)
    assert names(events)[:2] == ["created", "in_progress"]
    assert deltas(events, "output_text") == "It rains, they say."
    assert sim.send(ASK, *ALL) == Sim(provider).send(ASK, *ALL) != Sim(provider, seed="other").send(ASK, *ALL)


def test_message_is_streamed_in_parts():
    events = Sim().events(ASK, say(["It ", "rains."]))
    plain = Sim().events({**ASK, "stream_options": {"include_obfuscation": False}}, *ALL)

    assert names(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [fields["delta"] for fields in events[4:6]] == ["It ", "rains."]
    assert len(events[4]["delta"] + events[4]["obfuscation"]) == 16
    assert not any("obfuscation" in fields for fields in plain)
    assert deltas(Sim().events(ASK, say(["\ud83d", "\ude00"])), "output_text") == "\ud83d\ude00"


def test_reasoning_has_the_form_of_its_provider():
    sim = Sim()
    shown, hidden = sim.output(ASK, *ALL)[0], sim.output({"input": "x"}, *ALL)[0]
    events = Sim("deepseek").events(ASK, think("Hm."), "x")

    assert [part["text"] for part in shown["summary"]] == ["**Look**\n\nHm.", "**Ask**\n\nWell."]
    assert hidden["summary"] == sim.output(ASK, think("x", redacted=True), "y")[0]["summary"] == []
    assert base64.urlsafe_b64decode(shown["encrypted_content"])[0] == 0x80
    assert 600 <= len(shown["encrypted_content"]) <= 4000
    assert "status" not in shown
    assert Sim("xai").output(ASK, *ANSWER)[0]["status"] == "completed"
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert deltas(events, "reasoning_text") == "Hm."


def test_items_have_ids_and_fields():
    tools = [
        {"type": "custom", "name": "sh"},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "f"}]},
    ]
    include = ["code_interpreter_call.outputs", "web_search_call.action.sources"]
    items = Sim().output({**ASK, "include": include}, *ALL)
    calls = Sim().output({**ASK, "tools": tools}, call("sh", {"input": "ls"}), call("f", id="call_x"))

    assert [item["id"].partition("_")[0] for item in items] == ["rs", "ws", "ci", "ig", "msg", "fc", "fc"]
    assert all(len(item["id"].partition("_")[2]) == 50 for item in items)
    assert items[1]["action"]["sources"] == [{"type": "url", "url": "https://example.org"}]
    assert items[2]["outputs"] == [{"type": "logs", "logs": "1\n"}]
    assert items[3]["result"].startswith("iVBOR")
    assert items[4]["content"][0]["annotations"][0]["start_index"] == 3
    assert [item["arguments"] for item in items[5:]] == ['{"a":1}', "{not json"]
    assert (calls[0]["type"], calls[0]["input"]) == ("custom_tool_call", "ls")
    assert (calls[1]["call_id"], calls[1]["namespace"]) == ("call_x", "ns")


def test_call_names_namespace_of_additional_tools():
    tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    added = {"type": "additional_tools", "role": "developer", "tools": tools}
    (item,) = Sim().output({**ASK, "input": [added, USER]}, call("exec", "text(1)"))

    assert (item["type"], item["namespace"], item["input"]) == ("custom_tool_call", "functions", "text(1)")


@pytest.mark.parametrize(
    ("model", "phases"),
    [
        ("openai", ["commentary", "final_answer"]),
        ("gpt-5.3-codex", ["commentary", "final_answer"]),
        ("gpt-5", [None] * 2),
    ],
)
def test_messages_have_phases(model, phases):
    items = Sim(model).output(ASK, "a", call("f"), "b")

    assert [item.get("phase") for item in items if item["type"] == "message"] == phases


@pytest.mark.parametrize(
    ("steps", "limit", "status", "reason", "kinds"),
    [
        ((refuse("No."),), None, "completed", None, ["message"]),
        (("x", stop(), "y"), None, "incomplete", "max_output_tokens", ["message"]),
        (("x", stop("filter")), None, "incomplete", "content_filter", ["message"]),
        (("x", stop("stop_sequence"), "y"), None, "completed", None, ["message"]),
        (("x", pause(), "y"), None, "completed", None, ["message"]),
        ((think("x"),), None, "completed", None, ["reasoning", "message"]),
        ((stop(),), None, "incomplete", "max_output_tokens", []),
        ((think("x" * 100), "y"), 16, "incomplete", "max_output_tokens", ["reasoning"]),
        ((think("x" * 40), "y" * 40, call("f")), 16, "incomplete", "max_output_tokens", ["reasoning", "message"]),
        ((think("x" * 40), "y" * 40, call("f")), 40, "completed", None, ["reasoning", "message", "function_call"]),
    ],
)
def test_replies_end(steps, limit, status, reason, kinds):
    events = Sim().events({**ASK, "max_output_tokens": limit}, *steps)
    reply = events[-1]["response"]

    assert events[-1]["type"] == f"response.{status}"
    assert (reply["status"], reply["incomplete_details"]) == (status, reason and {"reason": reason})
    assert (reply["completed_at"] is not None) == (status == "completed")
    assert [item["type"] for item in reply["output"]] == kinds
    assert limit is None or reply["usage"]["output_tokens"] <= limit
    assert Sim().reply({**ASK, "max_output_tokens": limit}, *steps) == reply


@pytest.mark.parametrize(
    ("status", "code", "response_code"),
    [
        (500, "server_error", "server_error"),
        (429, "rate_limit_exceeded", "rate_limit_exceeded"),
        (529, "server_is_overloaded", "server_error"),
    ],
)
def test_stream_error_is_an_event_and_a_failed_response(status, code, response_code):
    events = Sim().events(ASK, "x", fail(status, "Oh no."), "y")

    assert names(events)[-2:] == ["error", "failed"]
    assert (events[-2]["error"]["code"], events[-2]["error"]["message"]) == (code, "Oh no.")
    assert events[-1]["response"]["error"] == {"code": response_code, "message": "Oh no."}


def test_response_repeats_the_request():
    body = {
        "input": "x", "instructions": "Be kind.", "temperature": 0.5, "max_output_tokens": 99, "user": "u", "store": False,
        "metadata": {"a": "b"}, "truncation": "auto", "tool_choice": "none", "service_tier": "flex",
        "tools": [{"type": "function", "name": "f", "parameters": {}}], "reasoning": {"effort": "low", "summary": "auto"},
    }  # fmt: skip
    events = Sim().events(body, think("x" * 400), "y" * 40)
    started, usage = events[0]["response"], events[-1]["response"]["usage"]

    for key in body.keys() - {"input", "tools", "reasoning"}:
        assert started[key] == body[key]
    assert started["tools"][0]["strict"] is True
    assert started["reasoning"] == {"context": "all_turns", "effort": "low", "mode": "standard", "summary": "detailed"}
    assert (started["status"], started["output"], started["usage"]) == ("in_progress", [], None)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert (usage["output_tokens_details"]["reasoning_tokens"], usage["output_tokens"]) == (99, 99)


# --- conversations ----------------------------------------------------------------------------------------------------

word = st.sampled_from(["Hm.", "Well, let me see.", "**A**\n\nb\n\n**C**\n\nd", "", "é \U0001f600"])
step = st.one_of(
    st.builds(think, word, st.booleans()),
    st.builds(say, word),
    st.builds(call, st.sampled_from(["f", "sh"]), st.dictionaries(word, st.integers(), max_size=2)),
    st.builds(Search, st.just("q")),
    st.builds(run_code, st.just("1")),
    st.just(image()),
)
turns = st.lists(st.lists(step, min_size=1, max_size=6), min_size=1, max_size=3)
OPTIONS = {
    "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "sh"}],
    "reasoning": {"summary": "auto"},
    "store": False,
}


def play(sim: Sim, script: list[list[Step]], *, stream: bool) -> list[dict[str, Any]]:
    """Play a script turn by turn, sending everything back each time; every request must be accepted."""
    items = [USER]
    for steps in script:
        body = {"input": items, **OPTIONS}
        reply = sim.events(body, *steps)[-1]["response"] if stream else sim.reply(body, *steps)
        assert "output" in reply, reply
        if sim.model == "deepseek":  # calls come last there
            reply["output"].sort(key=lambda item: item["type"].endswith("tool_call") or item["type"] == "function_call")
        items = [*items, *reply["output"], *outputs(reply["output"]), USER]
    return items


@settings(max_examples=60, deadline=None)
@given(turns, st.booleans(), st.sampled_from(PROVIDERS))
def test_replies_can_be_sent_back(script, stream, provider):
    sim = Sim(provider)
    items = play(sim, script, stream=stream)
    bare = [without(item, "id") for item in items]

    assert sim.rule({"input": items, **OPTIONS}) == ""
    assert sim.rule({"input": bare, **OPTIONS}) == ""
    assert sim.rule({"input": [item for item in bare if item.get("type") != "reasoning"], **OPTIONS}) == ""


@settings(max_examples=60, deadline=None)
@given(turns, st.booleans(), st.sampled_from(["openai", "azure"]), st.randoms(use_true_random=False))
def test_lost_moved_or_altered_reasoning_is_refused(script, stream, provider, chance):
    sim = Sim(provider)
    items = play(sim, [[Think("Hm."), *steps] for steps in script], stream=stream)
    reasoning = [index for index, item in enumerate(items) if item.get("type") == "reasoning"]
    lost = chance.choice(reasoning)
    token = items[lost]["encrypted_content"]
    at = chance.randrange(len(token) - 2)
    changed = token[:at] + chance.choice([char for char in "ABab01" if char != token[at]]) + token[at + 1 :]

    def swap(first: int, second: int) -> list[dict[str, Any]]:
        other = [*items]
        other[first], other[second] = other[second], other[first]
        return other

    variants = [
        [item for index, item in enumerate(items) if index != lost],
        [{**item, "encrypted_content": changed} if index == lost else item for index, item in enumerate(items)],
        swap(lost, lost + 1),
        *(swap(first, second) for first, second in itertools.combinations(reasoning[:4], 2)),
    ]
    for variant in variants:
        assert sim.rule({"input": variant, **OPTIONS}).startswith("OAR-REAS-0")
