"""Tests of thinking that is valid only after the messages that it was issued for."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto import AsyncClient
from tenuto.catalog import resolve
from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, Reasoning, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import ChatRequest, ToolDefinition
from tenuto.testing import ScriptedTransport
from tenuto.wire.prefix_binding import prefix_of, stale_thoughts
from tenuto.wire.write import write_request

BOUND, FREE = resolve("anthropic/claude-opus-5-5"), resolve("anthropic/claude-opus-4-6")
TOOL = ToolDefinition("add", "Add.", {"type": "object", "properties": {}})


def ask(*messages, system="Be brief.", tools=(TOOL,), **more) -> ChatRequest:
    return ChatRequest(
        model="anthropic/claude-opus-5-5", messages=(SystemMessage(system), *messages), tools=tools, **more
    )


def reply_to(request: ChatRequest, *blocks, target=BOUND) -> AssistantMessage:
    """Return a reply to a request, bound to it."""
    prefix = prefix_of(write_request(request, target).body, target)
    origin = Origin(target.provider.name, target.dialect, target.model, prefix=prefix)
    return AssistantMessage((Reasoning("Hm.", meta=AnthropicMeta("c2lnbmVk")), *blocks), origin=origin)


def conversation() -> tuple:
    question = UserMessage("One and two?")
    first = reply_to(ask(question), ToolUse("toolu_1", "add", '{"a":1}'))
    result = ToolResults((ToolResult("toolu_1", "3"),))
    second = reply_to(ask(question, first, result), Text("Three."))
    return question, first, result, second, UserMessage("And?")


def thoughts(wire) -> int:
    return wire.body.count(b'"type":"thinking"') - wire.body.count(b'"thinking":{"type"')


def test_prefix_is_empty_unless_model_binds():
    request = ask(UserMessage("Hi"))

    assert prefix_of(write_request(request, FREE).body, FREE) == ""
    assert len(prefix_of(write_request(request, BOUND).body, BOUND)) == 49


def test_digest_of_journal_version_3_is_still_valid():
    """It has one part: the digest of the instructions, the tools and the messages in one hash."""
    question, first, result, second, last = conversation()
    old = []
    for reply, *before in ((first, question), (second, question, first, result)):
        body = json.loads(write_request(ask(*before), BOUND).body)
        digest = sha256(jsonio.encode([[{"type": "text", "text": body["system"]}], body["tools"]]))
        for message in body["messages"]:
            for part in message["content"]:
                if part["type"] == "tool_result":
                    part["content"] = [{"type": "text", "text": part["content"]}]
                digest.update(jsonio.encode([message["role"], part]))
        origin = msgspec.structs.replace(reply.origin, prefix=digest.hexdigest()[:32])
        old.append(msgspec.structs.replace(reply, origin=origin))
    kept = write_request(ask(question, old[0], result, old[1], last), BOUND)
    changed = write_request(ask(UserMessage("Other?"), old[0], result, old[1], last), BOUND)

    assert (thoughts(kept), kept.losses) == (2, ())
    assert (thoughts(changed), len(changed.losses)) == (0, 2)


@pytest.mark.parametrize(
    "block", [{"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}, {"type": "text", "text": "Hi"}]
)
def test_only_reply_with_thinking_has_prefix(block):
    """The digest of a request takes as long as writing the request."""
    body = write_request(ask(UserMessage("Hi")), BOUND).body

    async def send() -> Origin:
        reply = {"id": "msg_1", "type": "message", "model": "m", "content": [block], "stop_reason": "end_turn"}
        transport = ScriptedTransport(reply)
        async with AsyncClient(keys={"anthropic": "key"}, transport=transport) as client:
            origin = (await client.chat(ask(UserMessage("Hi")))).message.origin
        assert transport.requests[0].body == body
        return origin

    origin = asyncio.run(send())

    assert origin.prefix == (prefix_of(body, BOUND) if block["type"] == "thinking" else "")


def test_thinking_stays_after_unchanged_prefix():
    wire = write_request(ask(*conversation()), BOUND)

    assert wire.losses == ()
    assert wire.body.count(b"c2lnbmVk") == 2


@pytest.mark.parametrize(
    "changed, dropped",
    [
        (lambda roles: ask(*roles, system="Be long."), [1, 3]),
        (lambda roles: ask(*roles, tools=()), [1, 3]),
        (lambda roles: ask(*roles, tools=(msgspec.structs.replace(TOOL, description="Sum."),)), [1, 3]),
        (lambda roles: ask(UserMessage("Two and two?"), *roles[1:]), [1, 3]),
        (lambda roles: ask(*roles[:2], ToolResults((ToolResult("toolu_1", "4"),)), *roles[3:]), [3]),
        (lambda roles: ask(*roles[:4], UserMessage("So?")), []),
        (lambda roles: ask(*roles, cache="auto"), []),
        (lambda roles: ask(*roles, max_tokens=99), []),
    ],
    ids=["system", "no tools", "a tool", "the question", "a result", "later messages", "cache marks", "a parameter"],
)
def test_thinking_after_changed_prefix_is_dropped(changed, dropped):
    """Each dropped block has a loss with the reason; the others stay."""
    request = changed(conversation())
    wire = write_request(request, BOUND)
    stale_losses = [loss for loss in wire.losses if loss.kind == "stale-prefix"]

    assert [str(loss.location) for loss in stale_losses] == [f"messages[{at + 1}].blocks[0]" for at in dropped]
    assert wire.body.count(b"c2lnbmVk") == 2 - len(dropped)
    assert all("changed" in loss.remedy for loss in stale_losses)


def test_thinking_without_prefix_is_not_stale():
    """Neither for a model that binds nothing, nor if the message has no prefix."""
    question, first, *rest = conversation()
    other = ask(UserMessage("Another question"), first, *rest)

    assert (
        write_request(msgspec.structs.replace(other, model="anthropic/claude-opus-4-6"), FREE).losses != ()
    )  # of another model
    unknown = msgspec.structs.replace(first, origin=msgspec.structs.replace(first.origin, prefix=""))
    assert stale_thoughts((question, unknown), write_request(ask(question, unknown), BOUND).body, BOUND) == ()


def body(*messages, **fields) -> bytes:
    return json.dumps({"messages": list(messages), **fields}).encode()


def roles(role, *parts):
    return {"role": role, "content": list(parts)}


TEXT = {"type": "text", "text": "Hi"}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
USE = {"type": "tool_use", "id": "a", "name": "b", "input": {"cache_control": 1}}


@pytest.mark.parametrize(
    "one, other, same",
    [
        (body({"role": "user", "content": "Hi"}), body(roles("user", TEXT)), True),
        (body(roles("user", TEXT)), body(roles("user", MARKED)), True),
        (body(roles("user", TEXT, TEXT)), body(roles("user", TEXT), roles("user", TEXT)), True),
        (body(roles("user", RESULT)), body(roles("user", {**RESULT, "content": [MARKED | {"text": "x"}]})), True),
        (
            body(system="Be"),
            body(system=[{"type": "text", "text": "Be", "cache_control": {"type": "ephemeral"}}]),
            True,
        ),
        (body(tools=[{"name": "a"}]), body(tools=[{"name": "a", "cache_control": {"type": "ephemeral"}}]), True),
        (body(), body(tools=[], system=""), False),
        (body(roles("user", TEXT)), body(roles("assistant", TEXT)), False),
        (body(roles("assistant", USE)), body(roles("assistant", {**USE, "input": {}})), False),
        (body(roles("user", TEXT)), body(roles("user", TEXT, TEXT)), False),
    ],
)
def test_prefix_depends_on_content(one, other, same):
    """`cache_control` and the split into messages do not count; roles and tool input do."""
    assert (prefix_of(one, BOUND) == prefix_of(other, BOUND)) is same


PARTS = st.lists(st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=3)), min_size=1, max_size=3)


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), PARTS), min_size=1, max_size=5), st.data())
def test_prefix_stays_when_conversation_grows(messages, data):
    """Thinking stays valid at its own position, and at no other."""
    cut = data.draw(st.integers(1, len(messages)))
    begins = body(*(roles(role, *parts) for role, parts in messages[:cut]))
    before, after = ([roles(role, *parts) for role, parts in some] for some in (messages[:cut], messages[cut:]))
    more = roles("user", {"type": "text", "text": "else"})
    origin = Origin("anthropic", "anthropic-messages", "claude-opus-5-5", prefix=prefix_of(begins, BOUND))
    message = AssistantMessage((Reasoning("Hm.", meta=AnthropicMeta("c2lnbmVk")),), origin=origin)

    assert stale_thoughts((message,), body(*before, roles("assistant", THOUGHT), *after), BOUND) == ()
    assert stale_thoughts((message,), body(more, roles("assistant", THOUGHT)), BOUND) == ((0, 0),)
    assert stale_thoughts((message,), body(*before, more, roles("assistant", THOUGHT)), BOUND) == ((0, 0),)
    assert stale_thoughts((message,), body(*before, roles("assistant", TEXT, THOUGHT)), BOUND) == ((0, 0),)
    assert stale_thoughts((message,), body(more, roles("assistant", THOUGHT)), BOUND, {(0, 0)}) == ()


def test_thinking_issued_after_the_change_stays():
    """It was issued without the stale blocks."""
    transcript, system = conversation(), "Be long."
    third = reply_to(ask(*transcript, system=system), Text("Four."))
    more = (*transcript, third, UserMessage("And?"))
    fourth = reply_to(ask(*more, system=system), Text("Five."))
    wire = write_request(ask(*more, fourth, UserMessage("So?"), system=system), BOUND)

    assert [str(loss.location) for loss in wire.losses] == ["messages[2].blocks[0]", "messages[4].blocks[0]"]
    assert wire.body.count(b"c2lnbmVk") == 2


def test_moved_or_copied_thinking_is_stale():
    """Its prefix is present, but other messages follow the prefix."""
    question, first, result, second, more = conversation()
    moved = ask(question, first, result, UserMessage("Well?"), second, more)
    copied = ask(question, first, result, second, more, second, more)

    assert [str(loss.location) for loss in write_request(moved, BOUND).losses] == ["messages[5].blocks[0]"]
    assert [str(loss.location) for loss in write_request(copied, BOUND).losses] == ["messages[6].blocks[0]"]


def test_turn_of_stale_thinking_alone_is_dropped():
    """Thinking that was issued after the rest of the turn is stale, too."""
    blank = reply_to(ask(UserMessage("Hi")), Text(" "))
    before = UserMessage("Ho"), blank, UserMessage("And?")
    rest = json.loads(write_request(ask(*before[::2]), BOUND).body)
    first, more = rest["messages"][0]["content"]
    rest["messages"] = [roles("user", first), roles("assistant", {"type": "text", "text": " "}), roles("user", more)]
    prefix = prefix_of(json.dumps(rest).encode(), BOUND)
    later = reply_to(ask(UserMessage("Hi")), Text("Yes."))
    later = msgspec.structs.replace(later, origin=msgspec.structs.replace(later.origin, prefix=prefix))
    wire = write_request(ask(*before, later, UserMessage("So?")), BOUND)

    assert wire.body.count(b"c2lnbmVk") == 0
    stale_losses = [str(loss.location) for loss in wire.losses if loss.kind == "stale-prefix"]
    assert stale_losses == ["messages[2].blocks[0]", "messages[4].blocks[0]"]
