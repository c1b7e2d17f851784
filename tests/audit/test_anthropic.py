"""Audit of Messages requests beyond the cases in tests/rules: losses, warnings, accepted bodies, transcripts."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest

from tenuto.audit import audit_body
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Opaque, Reasoning, ServerToolResult, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.oneshot import target_of
from tenuto.wire.prefix_binding import prefix_of

OPEN, BOUND = "claude-opus-4-6", "claude-opus-5-5"
DIALECT = "anthropic-messages"
TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
HELLO = {"role": "user", "content": "Rain in Oslo?"}
MORE = {"role": "user", "content": "And tomorrow?"}


def target(model=OPEN, row="anthropic", **scope):
    return msgspec.structs.replace(target_of(DIALECT, model, row), **scope)


def text(value):
    return {"type": "text", "text": value}


def thinking(value, signature):
    return {"type": "thinking", "thinking": value, "signature": signature}


def call(id, **more):
    return {"type": "tool_use", "id": id, "name": "weather", "input": {"city": "Oslo"}, **more}


def result(id, content="rain"):
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def message(role, *blocks):
    return {"role": role, "content": list(blocks)}


def body_of(*messages, **more):
    return {"model": "m", "max_tokens": 4096, "tools": [TOOL], "messages": [HELLO, *messages], **more}


def reply(*blocks, model=OPEN, row="anthropic", **more):
    """Build a received reply from wire blocks."""
    received = []
    for block in blocks:
        match block:
            case {"type": "text"}:
                received.append(Text(block["text"]))
            case {"type": "thinking"}:
                received.append(Reasoning(block["thinking"], meta=AnthropicMeta(block["signature"])))
            case {"type": "redacted_thinking"}:
                received.append(Reasoning(meta=AnthropicRedactedMeta(block["data"])))
            case {"type": "tool_use"}:
                extra = {name: block[name] for name in ("caller", "toolset_name") if name in block}
                args = json.dumps(block["input"])
                received.append(ToolUse(block["id"], block["name"], args, extra=json.dumps(extra) if extra else ""))
    scope = {name: more.pop(name) for name in ("account", "platform", "prefix") if name in more}
    return AssistantMessage(tuple(received), origin=Origin(row, DIALECT, model, **scope), **more)


def findings(body, to=None, *severities, headers=None, given=()):
    """Return the rules of the dialect that a body breaks, with their pointers."""
    found = audit_body(body, to or target(), headers={} if headers is None else headers, replies=given)
    own = [finding for finding in found if finding.rule.startswith("ANT-")]
    return [(finding.rule, finding.pointer) for finding in own if not severities or finding.severity in severities]


CALL = (thinking("Look.", "sig-a"), text("One moment."), call("toolu_a"))
TURN = (message("assistant", *CALL), message("user", result("toolu_a")))
TWO = (thinking("One.", "sig-1"), text("Well."), thinking("Two.", "sig-2"), call("toolu_b"))


# --- losses and warnings ----------------------------------------------------------------------------------------------


def test_reasoning_of_unreadable_model_is_lost():
    body = body_of(message("assistant", thinking("Hm.", "sig"), text("Yes.")), MORE)
    received = reply(thinking("Hm.", "sig"), text("Yes."), model="claude-fable-5-1")

    assert findings(body, target(BOUND), given=(received,)) == [("ANT-THINK-10", "/messages/1/content/0")]
    assert findings(body, target("claude-haiku-5-5"), given=(received,)) == [("ANT-THINK-10", "/messages/1/content/0")]
    assert findings(body, target("claude-fable-5-1"), given=(received,)) == []


def test_reasoning_of_other_account_is_lost_if_bound_else_refused():
    body = body_of(message("assistant", thinking("Hm.", "sig"), text("Yes.")), MORE)

    def found(model, account):
        received = reply(thinking("Hm.", "sig"), text("Yes."), model=model, account="one")
        return findings(body, target(model, account=account), given=(received,))

    assert found(BOUND, "two") == [("ANT-THINK-11", "/messages/1/content/0")]
    assert found(OPEN, "two") == [("ANT-THINK-02", "/messages/1/content/0/signature")]
    assert found(BOUND, "one") == found(OPEN, "one") == found(OPEN, "") == []


def test_unbound_reasoning_is_lost_with_drop_block():
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    body = body_of(message("assistant", *TWO[1:]), message("user", result("toolu_b")), thinking=drop)
    headers = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}

    found = findings(body, target(BOUND), headers=headers, given=(reply(*TWO, model=BOUND),))
    assert found == [("ANT-THINK-12", "/messages/1/content/1")]


def test_omitted_reasoning_is_a_warning():
    expected = [("ANT-THINK-15", "/messages/1")]
    yes = reply(thinking("Hm.", "s"), text("Yes."))

    assert findings(body_of(message("assistant", *CALL[1:]), TURN[1]), given=(reply(*CALL),)) == expected
    assert findings(body_of(message("assistant", text("Yes.")), MORE), given=(yes,)) == expected
    assert findings(body_of(message("assistant", text("Yes.")), MORE), given=(reply(text("Yes.")),)) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (body_of(message("assistant", text("<thinking>hm</thinking>Yes.")), MORE), ("ANT-THINK-17", "/messages/1/content/0")),
        (body_of(message("assistant", call("a")), message("user", result("a")), tools=[]), ("ANT-TOOL-14", "/tools")),
        (body_of(MORE), ("ANT-MSG-07", "/messages/1/role")),
        (
            body_of(message("assistant", {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}), container={"id": "c"}),
            ("ANT-SRV-05", "/container"),
        ),
    ],
)  # fmt: skip
def test_accepted_body_with_warning(body, expected):
    assert findings(body, target("claude-haiku-4-5")) == [expected]


def test_fields_of_a_call_are_sent_back():
    fields = {"caller": {"type": "direct"}, "toolset_name": "computer"}
    bare = body_of(message("assistant", call("a")), message("user", result("a")))
    whole = body_of(message("assistant", call("a", **fields)), message("user", result("a")))

    assert findings(bare, given=(reply(call("a", **fields)),)) == [
        ("ANT-TOOL-18", "/messages/1/content/0/caller"),
        ("ANT-TOOL-18", "/messages/1/content/0/toolset_name"),
    ]
    assert findings(whole, given=(reply(call("a", **fields)),)) == []
    assert findings(bare, given=(reply(call("a", **fields), row="vertex"),)) == []


def test_container_of_reply_is_sent_back():
    received = reply(text("Done."), extra='{"container": {"id": "container_1"}}')
    body = body_of(message("assistant", text("Done.")), MORE)

    assert findings(body, given=(received,)) == [("ANT-SRV-05", "/container")]
    assert findings({**body, "container": "container_1"}, given=(received,)) == []


# --- refusals that a case file does not show --------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [{"row": "vertex"}, {"platform": "other.example"}])
def test_reasoning_of_other_platform_is_refused(scope):
    to = target(platform="api.example")
    same = reply(*CALL, platform="api.example")

    assert findings(body_of(*TURN), to, given=(reply(*CALL, **scope),)) == [("ANT-THINK-13", "/messages/1/content/0")]
    assert findings(body_of(*TURN), to, given=(same,)) == findings(body_of(*TURN), to, given=(reply(*CALL),)) == []


def test_limits_depend_on_host_header_and_model():
    size = 32 * 1024 * 1024
    longer = {**body_of(), "system": "word " * 300_000}
    beta = {"anthropic-beta": "context-1m-2025-08-07"}

    assert findings(body_of(), target("their-own-name", "somewhere")) == []
    assert findings(longer, target("claude-haiku-4-5"), headers=beta) == findings(longer, target(OPEN)) == []
    assert findings(body_of(), headers={"Content-Length": str(size + 1)}) == [("ANT-MSG-12", "/")]
    assert findings(body_of(), headers={"Content-Length": str(size)}) == []


def test_image_type_is_not_compared_on_older_models():
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\n\0\0\0\n").decode()
    source = {"type": "base64", "media_type": "image/jpeg", "data": data}
    body = body_of(message("user", {"type": "image", "source": source}))

    assert findings(body, target("claude-3-5-sonnet-20240620"), "refused") == []
    assert findings(body, target(OPEN), "refused") == [("ANT-MEDIA-04", "/messages/1/content/0/source/media_type")]


# --- prefix -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Be long."},
        {"tools": [{**TOOL, "description": "The weather"}]},
        {"messages": [{"role": "user", "content": "Rain in Bergen?"}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_prefix_digest_of_reply_is_compared(change):
    first = body_of(system="Be brief.")
    received = reply(*CALL, model=BOUND, prefix=prefix_of(json.dumps(first).encode(), target(BOUND)))

    def found(**changes):
        body = {**first, **changes}
        body["messages"] = [*body["messages"], *TURN]
        return findings(body, target(BOUND), given=(received,))

    assert found(**change) == [("ANT-THINK-08", "/messages/1/content/0")]
    assert found() == []
    assert found(messages=[message("user", {**text("Rain in Oslo?"), "cache_control": {"type": "ephemeral"}})]) == []


def test_changed_reply_unbinds_later_ones():
    first, second = reply(*CALL, model=BOUND), reply(thinking("So.", "sig-b"), text("Rain."), model=BOUND)
    third = reply(thinking("Ah.", "sig-c"), text("Sun."), model=BOUND)
    later = [
        message("assistant", thinking("So.", "sig-b"), text("Rain.")), MORE,
        message("assistant", thinking("Ah.", "sig-c"), text("Sun.")), MORE,
    ]  # fmt: skip
    replies = (first, second, third)
    changed = message("assistant", CALL[0], text("A moment."), CALL[2])
    foreign = (reply(*CALL, model="claude-opus-4-1"), second, third)

    assert findings(body_of(*TURN, *later), target(BOUND), given=replies) == []
    assert findings(body_of(changed, TURN[1], *later), target(BOUND), given=replies) == [
        ("ANT-THINK-08", "/messages/3/content/0"),
        ("ANT-THINK-08", "/messages/5/content/0"),
    ]
    assert findings(body_of(*later), target(BOUND), given=replies) == []  # cut off: not known to have been there
    assert findings(body_of(message("assistant", *CALL[1:]), TURN[1], *later), target(BOUND), given=foreign) == []


# --- reasoning compared with replies ----------------------------------------------------------------------------------

ONE, WELL, OTHER, USE = TWO
HIDDEN = {"type": "redacted_thinking", "data": "secret"}


@pytest.mark.parametrize(
    ("blocks", "latest", "earlier"),
    [
        (TWO, [], []),
        ((WELL, OTHER, USE), ["ANT-THINK-04 1"], []),
        ((ONE, OTHER, USE), ["ANT-THINK-04 1"], []),
        ((ONE, WELL, USE), [], []),
        ((WELL, USE), [], []),
        ((ONE, OTHER, WELL, USE), ["ANT-THINK-04 1"], []),
        ((ONE, text("Hm."), WELL, OTHER, USE), ["ANT-THINK-04 3"], []),
        ((ONE, ONE, WELL, OTHER, USE), ["ANT-THINK-04 1", "ANT-THINK-04 3"], []),
        ((ONE, text("Well."), text(" "), OTHER, USE), [], []),
        ((thinking("One!", "sig-1"), WELL, OTHER, USE), ["ANT-THINK-04 0", "ANT-THINK-04 2"], ["ANT-THINK-02 0"]),
        (
            (thinking("One.", "sig-2"), WELL, thinking("Two.", "sig-1"), USE),
            ["ANT-THINK-04 0", "ANT-THINK-04 2"],
            ["ANT-THINK-02 0", "ANT-THINK-02 2"],
        ),
        ((thinking("One.Two.", "sig-2"), WELL, USE), ["ANT-THINK-04 0"], ["ANT-THINK-16 0"]),
        ((ONE, WELL, thinking("Two.", "sig-3"), USE), ["ANT-THINK-02 2"], ["ANT-THINK-02 2"]),
        ((HIDDEN, *TWO), ["ANT-THINK-04 1", "ANT-THINK-04 3", "ANT-THINK-14 0"], ["ANT-THINK-14 0"]),
    ],
)  # fmt: skip
def test_reasoning_is_compared_with_reply(blocks, latest, earlier):
    """Blocks that are lost, swapped, moved, repeated, joined, changed or foreign; the latest turn must be unchanged."""
    body = body_of(message("assistant", *blocks), message("user", result("toolu_b")))
    later = {**body, "messages": [*body["messages"], message("assistant", text("Rain.")), MORE]}

    def found(sent, *replies):
        return sorted(
            f"{rule} {pointer.split('/')[4]}" for rule, pointer in findings(sent, None, "refused", given=replies)
        )

    assert found(body, reply(*TWO)) == latest
    assert found(later, reply(*TWO), reply(text("Rain."))) == earlier


def test_tokens_are_not_compared_without_replies():
    blocks = (thinking("Any.", "thing"), HIDDEN, call("a"))

    assert findings(body_of(message("assistant", *blocks), message("user", result("a")))) == []


def test_prefill_may_precede_reasoning():
    received = (reply(thinking("Hm.", "sig"), text("yes."), model="claude-haiku-4-5"),)
    body = body_of(message("assistant", text("Well,"), thinking("Hm.", "sig"), text("yes.")), MORE)

    assert findings(body, target("claude-haiku-4-5"), given=received) == []
    assert findings(body, target(OPEN), "refused", given=received) == [("ANT-THINK-04", "/messages/1/content/1")]


def test_paused_turn_is_not_a_prefill():
    blocks = (thinking("Hm.", "sig"), text("I search."))
    paused = reply(*blocks, raw_stop_reason="pause_turn")
    adaptive = {"type": "adaptive"}
    prefill = [("ANT-MSG-04", "/messages/1/role")]

    assert findings(body_of(message("assistant", *blocks)), None, "refused", given=(paused,)) == [
        ("ANT-THINK-06", "/messages/1/content/0")
    ]
    assert findings(body_of(message("assistant", *blocks), thinking=adaptive), given=(paused,)) == []
    assert findings(body_of(message("assistant", *blocks), thinking=adaptive), given=(reply(*blocks),)) == prefill
    longer = body_of(message("assistant", *blocks, text("So.")), thinking=adaptive)
    assert findings(longer, given=(paused,)) == prefill


def test_encrypted_content_is_compared_with_reply():
    page = {"type": "web_search_result", "url": "https://example.org", "title": "A", "encrypted_content": "sealed"}
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}

    def body(**changes):
        pages = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{**page, **changes}]}
        return body_of(message("assistant", search, pages, text("Yes.")), MORE)

    received = (AssistantMessage((ServerToolResult("s", json.dumps([page]), "web_search_tool_result"), Text("Yes."))),)
    expected = [("ANT-SRV-04", "/messages/1/content/1")]
    assert findings(body(), given=received) == findings(body()) == findings(body(encrypted_content="other")) == []
    assert findings(body(encrypted_content="other"), given=received) == expected
    assert findings(body(url="https://example.com"), given=received) == expected
    assert findings(body(encrypted_content="")) == findings(body(encrypted_content=None)) == expected


def test_unknown_block_of_a_reply_is_accepted():
    new = {"type": "new_thing", "words": "x"}
    body = body_of(message("assistant", new, text("Yes.")), MORE)
    received = AssistantMessage((Opaque(DIALECT, json.dumps(new)), Text("Yes.")))

    assert findings(body) == [("ANT-MSG-11", "/messages/1/content/0")]
    assert findings(body, given=(received,)) == []


def test_call_turn_is_accepted_as_the_provider_sent_it():
    blocks = (text("Look:"), thinking("Hm.", "sig"), call("a"))
    budget = {"type": "enabled", "budget_tokens": 2000}
    body = body_of(message("assistant", *blocks), message("user", result("a")), thinking=budget)

    assert findings(body, given=(reply(*blocks),)) == []
    assert findings(body) == [("ANT-THINK-05", "/messages/1/content/0")]


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_rules_of_claude_do_not_hold_for_deepseek():
    body = body_of(message("assistant", {"type": "thinking", "thinking": "Hm."}, text("Yes.")), MORE, seed=1)
    plain = body_of(message("assistant", text("Yes.")), MORE)
    deepseek = target("deepseek-v4-pro", "deepseek")

    assert findings(body, deepseek) == []
    assert {rule for rule, _ in findings(body)} == {"ANT-THINK-01", "ANT-PARAM-13"}
    assert findings(plain, deepseek) == [("ANT-THINK-19", "/messages/1/content")]
    assert findings({**plain, "thinking": {"type": "disabled"}}, deepseek) == []


@pytest.mark.parametrize(
    ("row", "model"), [("vertex", "claude-opus-4-6@20260101"), ("bedrock", "us.anthropic.claude-opus-4-6-v1:0")]
)
def test_rules_of_claude_hold_on_every_host(row, model):
    body = body_of(message("assistant", {"type": "thinking", "thinking": "Hm."}, text("Yes.")), MORE)

    assert findings(body, target(model, row)) == [("ANT-THINK-01", "/messages/1/content/0/signature")]
