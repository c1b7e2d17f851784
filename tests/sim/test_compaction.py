"""Compaction on the wire: what the simulator answers, and what it accepts when that is sent back."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from tenuto import Client, Transcript, UserMessage
from tenuto.core.blocks import Marker
from tenuto.sim.engine import RawRequest, SimEngine, without_faults
from tenuto.sim.log import ExchangeLog
from tenuto.sim.script import ScriptPlayer
from tenuto.testing import Simulator, call, compact, deny, say, think, turn

BETAS = "compact-2026-01-12,compact-2026-09-04"
SUMMARIZE = {"compaction": {"type": "summarize"}}
BOUND, UNBOUND = "claude-opus-5-5", "claude-opus-4-6"
TURNS = (turn(think("Hm."), say("One.")), compact("So far."), turn(think("Ah."), say("Two.")), turn(say("Three.")))
LONG = "word " * 45_000
SHORT = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}


def edit(**fields: Any) -> dict[str, Any]:
    trigger = {"type": "input_tokens", "value": 50_000}
    return {"context_management": {"edits": [{"type": "compact_20260112", "trigger": trigger, **fields}]}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


class Wire:
    """One simulator, without HTTP."""

    def __init__(self, *turns: Any, seed: str = "seed") -> None:
        self.engine = SimEngine(seed, ExchangeLog(), ScriptPlayer(turns))

    def send(self, path: str, body: dict[str, Any], betas: str = BETAS) -> tuple[int, bytes]:
        data = json.dumps(body).encode()
        response = self.engine.answer(RawRequest("POST", path, {"anthropic-beta": betas}, {}, data))
        return response.status, b"".join(without_faults(response.pieces))

    def ask_claude(self, messages: Any, model: str = BOUND, **fields: Any) -> tuple[int, dict[str, Any]]:
        status, data = self.send("/v1/messages", {"model": model, "max_tokens": 4000, "messages": messages, **fields})
        return status, json.loads(data)

    def claude(self, *messages: Any, **fields: Any) -> dict[str, Any]:
        status, reply = self.ask_claude(messages, **fields)
        assert status == 200, reply
        return reply

    def refusal(self, *messages: Any, **fields: Any) -> str:
        """Return the error code of a refusal, or its message."""
        error = self.ask_claude(messages, **fields)[1].get("error", {})
        return str(error.get("details", {}).get("error_code") or error.get("message", ""))

    def gpt(self, *items: Any, path: str = "/v1/responses", **fields: Any) -> dict[str, Any]:
        status, data = self.send(path, {"model": "gpt-5.2", "input": list(items), **fields})
        reply: dict[str, Any] = json.loads(data)
        assert status == 200, reply
        return reply

    def gpt_events(self, *items: Any, **fields: Any) -> list[dict[str, Any]]:
        _, data = self.send("/v1/responses", {"model": "gpt-5.2", "input": list(items), "stream": True, **fields})
        return [json.loads(frame.partition(b"data: ")[2]) for frame in data.split(b"\n\n") if frame]


# --- Anthropic, on demand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_anthropic_sdk_compacts_and_sends_the_block_back(stream):
    with Simulator(script=TURNS) as sim, anthropic.Anthropic(base_url=sim.base_url, api_key="k", max_retries=0) as sdk:

        def ask(messages: Any, **fields: Any) -> Any:
            asked: Any = {"model": BOUND, "max_tokens": 4000, "messages": messages, "betas": BETAS.split(","), **fields}
            if not stream:
                return sdk.beta.messages.create(**asked)
            with sdk.beta.messages.stream(**asked) as events:
                return events.get_final_message()

        first = ask([user("Hello")])
        summary = ask([user("Hello")], **SUMMARIZE)
        second = ask([user(summary.content), assistant(first.content), user("Go on.")])

        assert summary.stop_reason == "compaction"
        (block,) = summary.content
        assert (block.type, block.content, block.tool_changes) == ("compaction", "So far.", [])
        assert second.content[-1].text == "Two."
        sim.assert_clean()
        assert "ANT-SRV-06" in sim.exercised


@pytest.mark.parametrize("model", [BOUND, UNBOUND])
def test_client_returns_the_same_block_streamed_and_whole(model):
    fields: Any = {"extra_headers": {"anthropic-beta": BETAS}}
    with Simulator(script=TURNS) as sim, Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}) as ai:
        asked: Any = {**fields, "extra_body": SUMMARIZE}
        summary = ai.chat(f"sim/anthropic/{model}", "Hello", **asked)
        with ai.stream(f"sim/anthropic/{model}", "Hello", **asked) as stream:
            streamed = stream.drain()
        after = Transcript((summary.message, UserMessage("Go on.")))
        ai.chat(f"sim/anthropic/{model}", after, **fields)

        (block,) = json.loads(sim.requests[0].reply)["content"]
        assert sim.requests[-1].body["messages"][0] == assistant([block])
        assert streamed.message == summary.message
        assert streamed.usage == summary.usage
        assert isinstance(summary.message.blocks[0], Marker)
        sim.assert_clean()


def test_summary_without_script_lists_user_messages():
    wire = Wire()
    content = [user("I live in Oslo."), assistant("Nice."), user("Find me a boat.")]
    (block,) = wire.claude(*content, **SUMMARIZE)["content"]
    (again,) = wire.claude(user([block]), assistant("Which?"), user("A red one."), **SUMMARIZE)["content"]

    assert block["content"] == "The user wrote:\n- I live in Oslo.\n- Find me a boat."
    assert again["content"] == f"{block['content']}\n- A red one."


def test_summary_may_be_null_and_is_ignored_when_returned():
    wire = Wire(turn(say("One.")), compact(None), turn(say("Two.")))
    reply = wire.claude(user("Hello"), **SUMMARIZE)

    assert reply["content"] == [{"type": "compaction", "content": None}]
    assert reply["stop_reason"] == "compaction"
    followed = wire.claude(user("Hello"), assistant(reply["content"]), assistant("One."), user("Go on."))
    assert followed["content"][-1]["text"] == "Two."


def test_compaction_can_be_unavailable_once():
    wire = Wire(turn(say("One.")), turn(deny(529), compact("So far.")), turn(say("Two.")))

    assert wire.refusal(user("Hello"), **SUMMARIZE) == "compaction_unavailable"
    assert wire.claude(user("Hello"), **SUMMARIZE)["content"][0]["content"] == "So far."
    assert wire.claude(user("Hello"))["content"][-1]["text"] == "One."


def test_tokens_hold_for_the_seed_in_any_process():
    (block,) = Wire(*TURNS).claude(user("Hello"), **SUMMARIZE)["content"]
    messages = [user([block, {"type": "text", "text": "Go on."}])]

    assert Wire(*TURNS).refusal(*messages) == ""
    assert Wire(*TURNS, seed="other").refusal(*messages) == "compaction_signature_invalid"


def test_tool_changes_are_those_of_the_compacted_messages():
    tool = {"name": "f", "input_schema": {"type": "object"}}
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}}
    messages = [user("Hello"), {"role": "system", "content": [removal]}]
    wire = Wire(*TURNS)
    fields: Any = {"tools": [tool]}
    (block,) = wire.claude(*messages, **fields, **SUMMARIZE)["content"]

    assert block["tool_changes"] == [removal]
    assert (
        wire.refusal(user([block | {"tool_changes": []}]), user("Hi"), **fields) == "compaction_tool_changes_mismatch"
    )


# --- earlier thinking --------------------------------------------------------------------------------------------------


def conversation(wire: Wire, model: str = BOUND, **fields: Any) -> list[dict[str, Any]]:
    """Return messages with two replies that have thinking, and a last user message."""
    messages = [user("Hello")]
    for text in ("Go on.", "And?"):
        reply = wire.claude(*messages, model=model, **fields)
        messages += [assistant(reply["content"]), user(text)]
    return messages


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_earlier_thinking_is_accepted_directly_after_the_block(cut, role):
    wire = Wire(*TURNS)
    messages = conversation(wire)
    block = wire.claude(*messages[:cut], **SUMMARIZE)["content"]
    sent = [{"role": role, "content": block}, *messages[cut:]]
    reply = wire.claude(*sent)

    assert reply["content"][-1]["text"] == "Three."
    assert wire.refusal(*sent, assistant(reply["content"]), user("More?")).startswith("the script has")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda sent: {"messages": sent, "system": "Be brief."}, "system"),
        (lambda sent: {"messages": [sent[0], *sent[3:]]}, "a gap"),
        (lambda sent: {"messages": [sent[0], user("By the way:"), *sent[1:]]}, "another message"),
    ],
)  # fmt: skip
def test_earlier_thinking_is_refused_after_a_change(change, reason):
    wire = Wire(*TURNS)
    messages = conversation(wire)
    block = wire.claude(messages[0], **SUMMARIZE)["content"]
    changed = change([user(block), *messages[1:]])

    assert "bound to a different conversation" in wire.refusal(*changed.pop("messages"), **changed), reason


def test_earlier_thinking_is_refused_after_an_unbound_compaction():
    wire = Wire(*TURNS)
    messages = conversation(wire)
    block = wire.claude(messages[0], model=UNBOUND, **SUMMARIZE)["content"]

    assert "bound to a different conversation" in wire.refusal(user(block), *messages[1:])


def test_earlier_thinking_needs_another_role_than_the_last():
    wire = Wire(*TURNS)
    messages = conversation(wire)
    more = [*messages[:2], user("A"), user("B"), *messages[3:]]
    more[4:] = [assistant(wire.claude(*more[:4])["content"]), user("And?")]
    block = wire.claude(*more[:3], **SUMMARIZE)["content"]

    assert "bound to a different conversation" in wire.refusal(assistant(block), *more[3:])


def test_earlier_thinking_survives_a_second_compaction():
    """The first block stands for one message; the second for the block and what was said before it arrived."""
    wire = Wire(*TURNS, turn(think("Oh."), say("Four.")))
    messages = conversation(wire)
    first = wire.claude(messages[0], **SUMMARIZE)["content"]
    behind = [user(first), *messages[1:]]
    behind += [assistant(wire.claude(*behind)["content"]), user("So?")]
    second = wire.claude(*behind[:3], **SUMMARIZE)["content"]
    sent = [user(second), *behind[3:]]

    assert wire.claude(*sent)["content"][-1]["text"] == "Four."


# --- Anthropic, by threshold ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropped", [False, True], ids=["all sent", "earlier messages dropped"])
def test_block_of_a_threshold_is_first_and_accepted(dropped):
    wire = Wire(turn(compact("So far."), think("Hm."), say("One.")), turn(say("Two.")))
    reply = wire.claude(user(LONG), **edit())
    messages = [*([] if dropped else [user(LONG)]), assistant(reply["content"]), user("Go on.")]
    followed = wire.claude(*messages, **edit())

    assert [block["type"] for block in reply["content"]] == ["compaction", "thinking", "text"]
    assert reply["content"][0]["content"] == "So far."
    assert [block.get("text") for block in followed["content"] if block["type"] != "thinking"] == ["Two."]
    assert followed["usage"]["input_tokens"] < 200


def test_messages_before_the_block_are_not_read():
    wire = Wire(turn(think("Hm."), say("One.")), turn(compact("So far."), say("Two.")), turn(say("Three.")))
    messages = [user("Hello")]
    for text in (LONG, "Go on."):
        messages += [assistant(wire.claude(*messages, **edit())["content"]), user(text)]

    assert wire.claude(user("Changed."), *messages[1:])["content"][-1]["text"] == "Three."


def test_threshold_cost_is_only_in_the_iterations():
    wire = Wire(turn(compact("So far."), say("One.")))
    body = {"model": UNBOUND, "max_tokens": 4000, "messages": [user(LONG)], **edit()}
    usage = wire.claude(user(LONG), model=UNBOUND, **edit())["usage"]
    _, stream = wire.send("/v1/messages", {**body, "stream": True})
    start = json.loads(stream.partition(b"data: ")[2].partition(b"\n")[0])["message"]["usage"]
    _, counted = wire.send("/v1/messages/count_tokens", {"model": UNBOUND, "messages": [user(LONG)]})
    compaction, message = usage["iterations"]

    assert (compaction["type"], message["type"]) == ("compaction", "message")
    assert compaction["input_tokens"] == start["input_tokens"] == json.loads(counted)["input_tokens"]
    assert compaction["output_tokens"] == 2
    assert message["input_tokens"] == usage["input_tokens"] < 100
    assert message["output_tokens"] == usage["output_tokens"]


def test_reply_below_the_threshold_has_one_iteration():
    reply = Wire(turn(say("One."))).claude(user("Hello"), model=UNBOUND, **edit())

    assert [block["type"] for block in reply["content"]] == ["text"]
    assert [part["type"] for part in reply["usage"]["iterations"]] == ["message"]


def test_paused_compaction_is_continued():
    wire = Wire(turn(compact("So far."), think("Hm."), say("One.")), turn(say("Two.")))
    paused = wire.claude(user(LONG), **edit(pause_after_compaction=True))
    history = [user(LONG), assistant(paused["content"])]
    reply = wire.claude(*history, **edit(pause_after_compaction=True))
    history += [assistant(reply["content"]), user("Go on.")]

    assert (paused["stop_reason"], len(paused["content"])) == ("compaction", 1)
    assert [paused["usage"][name] for name in ("input_tokens", "output_tokens")] == [0, 0]
    assert reply["content"][-1]["text"] == "One."
    assert wire.claude(*history)["content"][-1]["text"] == "Two."
    assert wire.claude(*history[1:])["content"][-1]["text"] == "Two."


def test_client_bills_the_iterations_streamed_and_whole():
    script = [turn(compact("So far."), say("One."))] * 2
    with Simulator(script=script) as sim, Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}) as ai:
        asked: Any = {"extra_body": edit(), "extra_headers": {"anthropic-beta": BETAS}}
        whole = ai.chat(f"sim/anthropic/{UNBOUND}", LONG, **asked)
        with ai.stream(f"sim/anthropic/{UNBOUND}", LONG, **asked) as stream:
            streamed = stream.drain()
        ai.chat(f"sim/anthropic/{UNBOUND}", whole.transcript + "Go on.", **asked)

        iterations = json.loads(sim.requests[0].reply)["usage"]["iterations"]
        assert whole.usage.input_tokens == sum(part["input_tokens"] for part in iterations)
        assert whole.usage.output_tokens == sum(part["output_tokens"] for part in iterations)
        assert (streamed.usage, streamed.message) == (whole.usage, whole.message)
        assert sim.requests[-1].body["messages"][1]["content"] == json.loads(sim.requests[0].reply)["content"]
        sim.assert_clean()


# --- OpenAI Responses -------------------------------------------------------------------------------------------------

HELLO = user("Hello")
TRIGGER = {"type": "compaction_trigger"}


def test_trigger_gets_exactly_one_compaction_item():
    wire = Wire(*TURNS)
    first = wire.gpt(HELLO)["output"]
    history = [HELLO, *first, user("Go on.")]
    (item,) = wire.gpt(*history, TRIGGER)["output"]
    events = wire.gpt_events(*history, TRIGGER)
    after = wire.gpt(item, user("Go on."))

    assert sorted(item) == ["encrypted_content", "id", "type"]
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created", "in_progress", "output_item.added", "compaction.compacting", "output_item.done", "completed",
    ]  # fmt: skip
    assert events[3]["item_id"] == item["id"]
    assert events[4]["item"] == events[5]["response"]["output"][0] == item
    assert wire.send("/v1/responses", {"model": "gpt-5.2", "input": [events[2]["item"], user("Go on.")]})[0] == 400
    assert after["output"][-1]["content"][0]["text"] == "Two."


def test_compaction_item_is_not_cut_by_the_output_limit():
    wire = Wire(compact("word " * 50), turn(say("One.")))
    reply = wire.gpt(HELLO, TRIGGER, max_output_tokens=16)

    assert (reply["status"], reply["usage"]["output_tokens"]) == ("completed", 63)
    assert wire.gpt(*reply["output"], user("Go on."))["usage"]["input_tokens"] > 63


@pytest.mark.parametrize("stored", [False, True], ids=["in the input", "stored"])
def test_openai_sdk_compacts_and_uses_the_window(stored):
    with (
        Simulator(script=TURNS) as sim,
        openai.OpenAI(base_url=f"{sim.base_url}/v1", api_key="k", max_retries=0) as sdk,
    ):
        first = sdk.responses.create(model="gpt-5.2", input="Hello")
        if stored:
            window = sdk.responses.compact(model="gpt-5.2", previous_response_id=first.id)
        else:
            items: Any = [HELLO, *(item.model_dump(exclude_none=True) for item in first.output)]
            window = sdk.responses.compact(model="gpt-5.2", input=items)
        output: Any = [item.model_dump(exclude_none=True, warnings=False) for item in window.output]
        second = sdk.responses.create(model="gpt-5.2", input=[*output, user("Go on.")])

        assert window.object == "response.compaction"
        assert [item.type for item in window.output] == ["message", "compaction"]
        assert output[0]["content"] == [{"type": "input_text", "text": "Hello"}]
        assert window.usage.total_tokens == window.usage.input_tokens + 2
        assert second.output_text == "Two."
        sim.assert_clean()
        with pytest.raises(openai.BadRequestError, match="not found"):
            sdk.responses.create(model="gpt-5.2", input="Hi", previous_response_id=window.id)


def test_compact_endpoint_has_its_own_parameters():
    status, data = Wire().send("/v1/responses/compact", {"model": "gpt-5.2", "input": [HELLO], "store": False})

    assert (status, json.loads(data)["error"]["param"]) == (400, "store")


def test_threshold_adds_an_item_and_earlier_ones_may_go():
    wire = Wire(turn(think("Hm."), say("One.")), turn(say("Two.")))
    long = user("word " * 2000)
    output = wire.gpt(long, **SHORT)["output"]
    dropped = wire.gpt(output[-1], user("Go on."), **SHORT)

    assert [item["type"] for item in output] == ["reasoning", "message", "compaction"]
    assert [item["type"] for item in wire.gpt(HELLO, **SHORT)["output"]] == ["reasoning", "message"]
    assert dropped["output"][-1]["content"][0]["text"] == "Two."
    assert dropped["usage"]["input_tokens"] < 100
    assert wire.gpt(long, model="gpt-5.4", **SHORT)["output"][-2]["phase"] == "final_answer"
    assert wire.gpt(long, *output, user("Go on."))["usage"]["input_tokens"] > 2000


def test_calls_stay_behind_the_compaction_item():
    wire = Wire(turn(think("Hm."), call("f", {})), turn(say("Two.")))
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
    output = wire.gpt(user("word " * 2000), tools=tools, **SHORT)["output"]
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "ok"}

    assert [item["type"] for item in output] == ["compaction", "reasoning", "function_call"]
    assert wire.gpt(*output, result, tools=tools)["output"][-1]["content"][0]["text"] == "Two."


def test_client_returns_the_compaction_item_unchanged():
    script = [turn(say("One."), compact("So far.")), turn(say("Two."))]
    with Simulator(script=script) as sim, Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}) as ai:
        whole = ai.chat("sim/openai/gpt-5.2", "word " * 2000, extra_body=SHORT)
        with ai.stream("sim/openai/gpt-5.2", "word " * 2000, extra_body=SHORT) as stream:
            streamed = stream.drain()
        ai.chat("sim/openai/gpt-5.2", whole.transcript + "Go on.")

        item = json.loads(sim.requests[0].reply)["output"][-1]
        assert item in sim.requests[-1].body["input"]
        assert streamed.message == whole.message
        assert "OAR-REAS-05" in sim.exercised
        sim.assert_clean()


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_script_that_ends_with_a_compaction_has_no_more_turns():
    wire = Wire(turn(say("One.")), compact("So far."))

    assert "there is no turn 2" in wire.refusal(user("Hello"), assistant("One."), user("Go on."))
    assert wire.claude(user("Hello"), **SUMMARIZE)["content"][0]["content"] == "So far."
