"""What the audit sees in requests of the Messages dialect beyond the refusals: losses, warnings, tolerances, ledgers."""

from __future__ import annotations

import base64
import copy
import json
import struct

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenuto.audit import audit_body
from tenuto.audit.anthropic_pictures import seen
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


def text(words):
    return {"type": "text", "text": words}


def thought(words, signature):
    return {"type": "thinking", "thinking": words, "signature": signature}


def use(id, **more):
    return {"type": "tool_use", "id": id, "name": "weather", "input": {"city": "Oslo"}, **more}


def result(id, content="rain"):
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def said(role, *blocks):
    return {"role": role, "content": list(blocks)}


def ask(*messages, **more):
    return {"model": "m", "max_tokens": 4096, "tools": [TOOL], "messages": [HELLO, *messages], **more}


def reply(*blocks, model=OPEN, row="anthropic", **more):
    """A reply as it was received: wire blocks in, ours out."""
    made = []
    for block in blocks:
        match block:
            case {"type": "text"}:
                made.append(Text(block["text"]))
            case {"type": "thinking"}:
                made.append(Reasoning(block["thinking"], meta=AnthropicMeta(block["signature"])))
            case {"type": "redacted_thinking"}:
                made.append(Reasoning(meta=AnthropicRedactedMeta(block["data"])))
            case {"type": "tool_use"}:
                extra = {name: block[name] for name in ("caller", "toolset_name") if name in block}
                args = json.dumps(block["input"])
                made.append(ToolUse(block["id"], block["name"], args, extra=json.dumps(extra) if extra else ""))
    scope = {name: more.pop(name) for name in ("account", "platform", "prefix") if name in more}
    return AssistantMessage(tuple(made), origin=Origin(row, DIALECT, model, **scope), **more)


def found(body, to=None, *severities, headers=None, given=()):
    """The dialect's own rules that are broken; those of every dialect are another test's."""
    findings = audit_body(body, to or target(), headers=headers, given=given)
    own = [one for one in findings if one.rule.startswith("ANT-")]
    return [(one.rule, one.pointer) for one in own if not severities or one.severity in severities]


CALL = (thought("Look.", "sig-a"), text("One moment."), use("toolu_a"))
TURN = (said("assistant", *CALL), said("user", result("toolu_a")))
TWO = (thought("One.", "sig-1"), text("Well."), thought("Two.", "sig-2"), use("toolu_b"))


# --- what is lost, and what is warned of ------------------------------------------------------------------------------


def test_thoughts_that_the_model_does_not_read_are_lost():
    body = ask(said("assistant", thought("Hm.", "sig"), text("Yes.")), MORE)
    came = reply(thought("Hm.", "sig"), text("Yes."), model="claude-fable-5-1")

    assert found(body, target(BOUND), given=(came,)) == [("ANT-THINK-10", "/messages/1/content/0")]
    assert found(body, target("claude-haiku-5-5"), given=(came,)) == [("ANT-THINK-10", "/messages/1/content/0")]
    assert found(body, target("claude-fable-5-1"), given=(came,)) == []


def test_thoughts_of_another_account_are_lost_where_bound_and_refused_elsewhere():
    body = ask(said("assistant", thought("Hm.", "sig"), text("Yes.")), MORE)

    def told(model, account):
        came = reply(thought("Hm.", "sig"), text("Yes."), model=model, account="one")
        return found(body, target(model, account=account), given=(came,))

    assert told(BOUND, "two") == [("ANT-THINK-11", "/messages/1/content/0")]
    assert told(OPEN, "two") == [("ANT-THINK-02", "/messages/1/content/0/signature")]
    assert told(BOUND, "one") == told(OPEN, "one") == told(OPEN, "") == []


def test_a_bound_thought_behind_a_change_is_dropped_where_that_was_asked_for():
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    body = ask(said("assistant", *TWO[1:]), said("user", result("toolu_b")), thinking=drop)
    came = reply(*TWO, model=BOUND)

    assert found(body, target(BOUND), given=(came,)) == [("ANT-THINK-12", "/messages/1/content/1")]


def test_reasoning_that_is_left_out_is_warned_of():
    told = [("ANT-THINK-15", "/messages/1")]

    assert found(ask(said("assistant", *CALL[1:]), TURN[1]), given=(reply(*CALL),)) == told
    assert found(ask(said("assistant", text("Yes.")), MORE), given=(reply(thought("Hm.", "s"), text("Yes.")),)) == told
    assert found(ask(said("assistant", text("Yes.")), MORE), given=(reply(text("Yes.")),)) == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (ask(said("assistant", text("<thinking>hm</thinking>Yes.")), MORE), ("ANT-THINK-17", "/messages/1/content/0")),
        (ask(said("assistant", use("a")), said("user", result("a")), tools=[]), ("ANT-TOOL-14", "/tools")),
        (ask(MORE), ("ANT-MSG-07", "/messages/1/role")),
        (
            ask(said("assistant", {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}), container={"id": "c"}),
            ("ANT-SRV-05", "/container"),
        ),
    ],
)  # fmt: skip
def test_what_is_taken_and_worth_knowing(body, told):
    assert found(body, target("claude-haiku-4-5")) == [told]


def test_what_a_call_said_of_itself_comes_back():
    came = reply(use("a", caller={"type": "direct"}, toolset_name="computer"))
    body = ask(said("assistant", use("a")), said("user", result("a")))

    assert found(body, given=(came,)) == [
        ("ANT-TOOL-18", "/messages/1/content/0/caller"),
        ("ANT-TOOL-18", "/messages/1/content/0/toolset_name"),
    ]
    assert found(ask(said("assistant", use("a", caller={"type": "direct"}, toolset_name="computer")), said("user", result("a"))), given=(came,)) == []  # fmt: skip


def test_what_a_call_said_to_others_is_not_missed():
    came = reply(use("a", caller={"type": "direct"}), row="vertex")

    assert found(ask(said("assistant", use("a")), said("user", result("a"))), given=(came,)) == []


def test_a_conversation_goes_on_in_its_container():
    came = reply(text("Done."), extra='{"container": {"id": "container_1"}}')
    body = ask(said("assistant", text("Done.")), MORE)

    assert found(body, given=(came,)) == [("ANT-SRV-05", "/container")]
    assert found({**body, "container": "container_1"}, given=(came,)) == []


# --- refusals that no file of one conversation can show ---------------------------------------------------------------


@pytest.mark.parametrize("scope", [{"row": "vertex"}, {"platform": "other.example"}])
def test_a_thought_goes_back_to_the_platform_that_signed_it(scope):
    to = target(platform="api.example")
    body = ask(*TURN)

    assert found(body, to, given=(reply(*CALL, **scope),)) == [("ANT-THINK-13", "/messages/1/content/0")]
    assert (
        found(body, to, given=(reply(*CALL, platform="api.example"),)) == found(body, to, given=(reply(*CALL),)) == []
    )


def test_a_model_that_nobody_knows():
    assert found(ask(), target("there-is-no-such-model")) == [("ANT-PARAM-15", "/model")]
    assert found(ask(), target("their-own-name", "somewhere")) == []
    assert found(ask(), target("claude-opus-4-6-20260101")) == []


def test_a_prompt_beyond_any_count_of_its_words_is_too_long():
    long = {**ask(), "system": "word " * 300_000}

    assert found(long, target("claude-haiku-4-5")) == [("ANT-MSG-10", "/messages")]
    assert found(long, target("claude-haiku-4-5"), headers={"anthropic-beta": "context-1m-2025-08-07"}) == []
    assert found({**ask(), "system": "word " * 200_000}, target("claude-haiku-4-5")) == []
    assert found(long, target(OPEN)) == []


def test_a_body_of_more_than_32_megabytes():
    size = 32 * 1024 * 1024

    assert found(ask(), headers={"Content-Length": str(size + 1)}) == [("ANT-MSG-12", "/")]
    assert found(ask(), headers={"Content-Length": str(size)}) == []


def picture(width=10, height=10, kind="image/png", weight=0):
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"
    data = base64.b64encode(head + b"\0" * weight).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def test_a_picture_of_more_than_five_megabytes():
    heavy = 5 * 1024 * 1024 - 29

    assert found(ask(said("user", picture(weight=heavy + 1))), None, "refused") == [("ANT-MEDIA-03", "/messages/1/content/0/source")]  # fmt: skip
    assert found(ask(said("user", picture(weight=heavy))), None, "refused") == []


# --- bound to what stood before ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Be long."},
        {"tools": [{**TOOL, "description": "The weather"}]},
        {"messages": [{"role": "user", "content": "Rain in Bergen?"}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_digest_of_a_reply_tells_what_it_was_bound_to(change):
    asked = ask(system="Be brief.")
    came = reply(*CALL, model=BOUND, prefix=prefix_of(json.dumps(asked).encode(), target(BOUND)))

    def sent(**changed):
        now = {**asked, **changed}
        return {**now, "messages": [*now["messages"], *TURN]}

    assert found(sent(**change), target(BOUND), given=(came,)) == [("ANT-THINK-08", "/messages/1/content/0")]
    assert found(sent(), target(BOUND), given=(came,)) == []
    marked = [{"role": "user", "content": [{**text("Rain in Oslo?"), "cache_control": {"type": "ephemeral"}}]}]
    assert found(sent(messages=marked), target(BOUND), given=(came,)) == []


def test_an_earlier_reply_that_changed_unbinds_all_later_ones():
    first, second = reply(*CALL, model=BOUND), reply(thought("So.", "sig-b"), text("Rain."), model=BOUND)
    third = reply(thought("Ah.", "sig-c"), text("Sun."), model=BOUND)
    later = [said("assistant", thought("So.", "sig-b"), text("Rain.")), MORE, said("assistant", thought("Ah.", "sig-c"), text("Sun.")), MORE]  # fmt: skip
    given = (first, second, third)
    broken = [("ANT-THINK-08", "/messages/3/content/0"), ("ANT-THINK-08", "/messages/5/content/0")]

    assert found(ask(*TURN, *later), target(BOUND), given=given) == []
    reworded = said("assistant", CALL[0], text("A moment."), CALL[2])
    assert found(ask(reworded, TURN[1], *later), target(BOUND), given=given) == broken
    assert found(ask(*later), target(BOUND), given=given) == []  # cut off: nothing tells whether it was there
    foreign = reply(*CALL, model="claude-opus-4-1")
    assert (
        found(ask(said("assistant", *CALL[1:]), TURN[1], *later), target(BOUND), given=(foreign, second, third)) == []
    )


# --- compared with what was given -------------------------------------------------------------------------------------


def changed(*blocks, later=False, given=TWO):
    """Send other blocks back than were given, in the latest turn or in an earlier one."""
    body = ask(said("assistant", *blocks), said("user", result("toolu_b")))
    replies = [reply(*given)]
    if later:
        body["messages"] += [said("assistant", text("Rain.")), MORE]
        replies.append(reply(text("Rain.")))
    return found(body, None, "refused", given=tuple(replies))


ONE, WELL, OTHER, USE = TWO
HIDDEN = {"type": "redacted_thinking", "data": "secret"}


@pytest.mark.parametrize(
    ("blocks", "latest", "earlier"),
    [
        (TWO, [], []),
        ((WELL, OTHER, USE), ["ANT-THINK-04 /messages/1/content/1"], []),
        ((ONE, OTHER, USE), ["ANT-THINK-04 /messages/1/content/1"], []),
        ((ONE, WELL, USE), [], []),
        ((WELL, USE), [], []),
        ((ONE, OTHER, WELL, USE), ["ANT-THINK-04 /messages/1/content/1"], []),
        ((ONE, text("Hm."), WELL, OTHER, USE), ["ANT-THINK-04 /messages/1/content/3"], []),
        ((ONE, ONE, WELL, OTHER, USE), ["ANT-THINK-04 /messages/1/content/1", "ANT-THINK-04 /messages/1/content/3"], []),
        ((ONE, text("Well."), text(" "), OTHER, USE), [], []),
        (
            (thought("One!", "sig-1"), WELL, OTHER, USE),
            ["ANT-THINK-04 /messages/1/content/0", "ANT-THINK-04 /messages/1/content/2"],
            ["ANT-THINK-02 /messages/1/content/0/signature"],
        ),
        (
            (thought("One.", "sig-2"), WELL, thought("Two.", "sig-1"), USE),
            ["ANT-THINK-04 /messages/1/content/0", "ANT-THINK-04 /messages/1/content/2"],
            ["ANT-THINK-02 /messages/1/content/0/signature", "ANT-THINK-02 /messages/1/content/2/signature"],
        ),
        (
            (thought("One.Two.", "sig-2"), WELL, USE),
            ["ANT-THINK-04 /messages/1/content/0"],
            ["ANT-THINK-16 /messages/1/content/0"],
        ),
        (
            (ONE, WELL, thought("Two.", "sig-3"), USE),
            ["ANT-THINK-02 /messages/1/content/2/signature"],
            ["ANT-THINK-02 /messages/1/content/2/signature"],
        ),
        (
            (HIDDEN, *TWO),
            ["ANT-THINK-14 /messages/1/content/0/data", "ANT-THINK-04 /messages/1/content/1", "ANT-THINK-04 /messages/1/content/3"],
            ["ANT-THINK-14 /messages/1/content/0/data"],
        ),
    ],
)  # fmt: skip
def test_each_thought_is_compared_with_what_was_given(blocks, latest, earlier):
    """One lost among many, swapped, moved, doubled, joined, altered, foreign; in the latest turn more counts."""
    for later, told in ((False, latest), (True, earlier)):
        assert sorted(" ".join(one) for one in changed(*blocks, later=later)) == sorted(told), later


def test_where_nothing_was_given_nothing_is_compared():
    assert found(ask(said("assistant", thought("Any.", "thing"), HIDDEN, use("a")), said("user", result("a")))) == []


def test_words_put_in_the_mouth_stand_before_a_thought():
    came = (reply(thought("Hm.", "sig"), text("yes."), model="claude-haiku-4-5"),)
    body = ask(said("assistant", text("Well,"), thought("Hm.", "sig"), text("yes.")), MORE)

    assert found(body, target("claude-haiku-4-5"), given=came) == []
    assert found(body, target(OPEN), "refused", given=came) == [("ANT-THINK-04", "/messages/1/content/1")]


def test_a_turn_that_was_paused_goes_on():
    blocks = (thought("Hm.", "sig"), text("I search."))
    paused = reply(*blocks, raw_stop_reason="pause_turn")

    assert found(ask(said("assistant", *blocks)), None, "refused", given=(paused,)) == [("ANT-THINK-06", "/messages/1/content/0")]  # fmt: skip
    thinking = {"type": "adaptive"}
    assert found(ask(said("assistant", *blocks), thinking=thinking), given=(paused,)) == []
    assert found(ask(said("assistant", *blocks), thinking=thinking), given=(reply(*blocks),)) == [("ANT-MSG-04", "/messages/1/role")]  # fmt: skip
    assert found(ask(said("assistant", *blocks, text("So.")), thinking=thinking), given=(paused,)) == [("ANT-MSG-04", "/messages/1/role")]  # fmt: skip


def test_what_the_provider_sealed_comes_back_as_it_was():
    page = {"type": "web_search_result", "url": "https://example.org", "title": "A", "encrypted_content": "sealed"}
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}

    def sent(**altered):
        pages = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{**page, **altered}]}
        return ask(said("assistant", search, pages, text("Yes.")), MORE)

    came = AssistantMessage((ServerToolResult("s", json.dumps([page]), "web_search_tool_result"), Text("Yes.")))
    told = [("ANT-SRV-04", "/messages/1/content/1")]
    assert found(sent(), given=(came,)) == found(sent()) == found(sent(encrypted_content="other")) == []
    assert found(sent(encrypted_content="other"), given=(came,)) == told
    assert found(sent(url="https://example.com"), given=(came,)) == told
    assert found(sent(encrypted_content=""), given=(came,)) == found(sent(encrypted_content=None)) == told


def test_a_block_that_nobody_knows_is_fine_where_the_provider_sent_it():
    new = {"type": "new_thing", "words": "x"}
    body = ask(said("assistant", new, text("Yes.")), MORE)
    came = AssistantMessage((Opaque(DIALECT, json.dumps(new)), Text("Yes.")))

    assert found(body) == [("ANT-MSG-11", "/messages/1/content/0")]
    assert found(body, given=(came,)) == []


# --- tolerances -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        ask(said("assistant", use("a")), said("assistant", use("b")), said("user", result("a")), said("user", result("b"))),
        ask(said("assistant", use("a")), said("user", result("a")), said("assistant", use("a")), said("user", result("a"))),
        ask(said("assistant", text(" "), use("a")), said("user", result("a", ""))),
        ask(said("assistant", thought("", "sig"), use("a")), said("user", {"type": "tool_result", "tool_use_id": "a"})),
        ask(said("assistant", thought("Hm.", "sig")), said("assistant", text("Yes.")), MORE),
        ask(said("assistant", {"type": "connector_text", "text": "x"}), MORE),
        ask(context_management={"edits": []}),
        ask(temperature=0.3, top_p=0.9, top_k=5),
        ask(max_tokens=0),
        ask(tools=[{"type": "mcp_toolset", "mcp_server_name": "x"}], tool_choice={"type": "tool", "name": "theirs"}),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_the_provider_takes_is_not_refused(body):
    assert found(body, None, "refused") == []


def test_a_picture_of_another_type_than_it_names_was_taken_by_older_models():
    body = ask(said("user", picture(kind="image/jpeg")))

    assert found(body, target("claude-3-5-sonnet-20240620"), "refused") == []
    assert found(body, target(OPEN), "refused") == [("ANT-MEDIA-04", "/messages/1/content/0/source/media_type")]


def test_a_budget_for_all_turns_between_calls_may_be_larger_than_a_reply():
    body = ask(thinking={"type": "enabled", "budget_tokens": 8000})
    to = target("claude-sonnet-4-5")

    assert found(body, to) == [("ANT-PARAM-09", "/max_tokens")]
    assert found(body, to, headers={"anthropic-beta": "interleaved-thinking-2025-05-14"}) == []


@pytest.mark.parametrize("spoken", [True, False])
def test_what_the_user_says_beside_results_begins_another_run_of_calls(spoken):
    answer = said("user", result("toolu_a"), *([text("And Bergen?")] if spoken else []))
    body = ask(TURN[0], answer, said("assistant", use("b")), said("user", result("b")))
    body["thinking"] = {"type": "enabled", "budget_tokens": 2000}

    assert found(body) == ([("ANT-THINK-05", "/messages/3/content/0")] if spoken else [])


def test_a_run_of_calls_that_was_given_with_its_thought_behind_its_start_is_as_it_came():
    blocks = (text("Look:"), thought("Hm.", "sig"), use("a"))
    body = ask(
        said("assistant", *blocks), said("user", result("a")), thinking={"type": "enabled", "budget_tokens": 2000}
    )

    assert found(body, given=(reply(*blocks),)) == []
    assert found(body) == [("ANT-THINK-05", "/messages/1/content/0")]


def test_rules_of_claude_are_not_asked_of_others():
    """Unsigned thoughts, sampling, strange keys: whoever else speaks the dialect has rules of its own."""
    body = ask(said("assistant", {"type": "thinking", "thinking": "Hm."}, text("Yes.")), MORE, seed=1)

    assert found(body, target("deepseek-v4-pro", "deepseek")) == []
    assert {rule for rule, _ in found(body)} == {"ANT-THINK-01", "ANT-PARAM-13"}
    plain = ask(said("assistant", text("Yes.")), MORE)
    assert found(plain, target("deepseek-v4-pro", "deepseek")) == [("ANT-THINK-19", "/messages/1/content")]
    assert found({**plain, "thinking": {"type": "disabled"}}, target("deepseek-v4-pro", "deepseek")) == []


def test_claude_is_claude_wherever_it_is_served():
    body = ask(said("assistant", {"type": "thinking", "thinking": "Hm."}, text("Yes.")), MORE)

    for row, model in (("vertex", "claude-opus-4-6@20260101"), ("bedrock", "us.anthropic.claude-opus-4-6-v1:0")):
        assert found(body, target(model, row)) == [("ANT-THINK-01", "/messages/1/content/0/signature")]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\2\0\0\3\4", ("image/png", 0x102, 0x304)),
        (b"\xff\xd8\xff\xe0\0\4ab\xff\xff\xc4\0\2\xff\xc2\0\x0b\x08\3\4\5\6\0", ("image/jpeg", 0x506, 0x304)),
        (b"\xff\xd8\xff\xe0\0\4ab", ("image/jpeg", 0, 0)),
        (b"GIF89a\5\6\7\x08", ("image/gif", 0x605, 0x807)),
        (b"RIFF....WEBPVP8X....\0\0\0\0\1\2\0\3\4\0", ("image/webp", 0x202, 0x404)),
        (b"RIFF....WEBPVP8L....\x2f\1\x80\0\0", ("image/webp", 2, 3)),
        (b"RIFF....WEBPVP8 ....\0\0\0\x9d\1\x2a\5\6\7\x08", ("image/webp", 0x605, 0x807)),
        (b"RIFF....WEBP????", ("image/webp", 0, 0)),
        (b"%PDF", ("", 0, 0)),
    ],
)  # fmt: skip
def test_a_picture_is_known_by_its_first_bytes(data, told):
    assert seen(data) == told


# --- whatever comes ---------------------------------------------------------------------------------------------------

WORDS = (
    "type", "text", "thinking", "signature", "redacted_thinking", "data", "tool_use", "tool_result", "id", "tool_use_id", "input",
    "content", "role", "user", "assistant", "system", "messages", "tools", "name", "input_schema", "strict", "cache_control",
    "ttl", "1h", "image", "source", "base64", "media_type", "server_tool_use", "web_search_tool_result", "compaction", "enabled",
    "budget_tokens", "block_binding", "tool_choice", "container", "output_config", "effort", "properties", "required", "items",
    "tool_search_tool_result", "tool_references", "tool_reference", "citations", "thread", "anthropic_beta", "max_tokens", "fast",
)  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5000)
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=3)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
EVERYTHING = ask(
    said("assistant", *TWO, HIDDEN), said("user", result("toolu_b", [text("x"), picture()]), picture()),
    said("assistant", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
         {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u", "encrypted_content": "e"}]},
         {**text("Yes."), "citations": [{"type": "web_search_result_location", "encrypted_index": "i"}]}),
    said("system", text("Now.")), MORE,
    system=[text("Be brief.")], thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}},
    tool_choice={"type": "auto"}, output_config={"effort": "high"}, container="c", tools=[{**TOOL, "strict": True}],
)  # fmt: skip
GIVEN = (reply(*TWO, HIDDEN, model=BOUND, prefix="0" * 32), reply(text("Yes."), model=BOUND))
TARGETS = [target(BOUND), target(OPEN), target("deepseek-v4-pro", "deepseek")]


def places(value, path=()):
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from places(value[key], (*path, key))


PLACES = list(places(EVERYTHING))


@settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(WORDS), JSON, max_size=5), st.sampled_from(PLACES), JSON, st.sampled_from(TARGETS)
)
def test_any_json_is_looked_at_without_a_fault(body, place, value, to):
    """A body may be anything; and any value of a good one may be anything. What is told can be told."""
    odd = copy.deepcopy(EVERYTHING)
    holder = odd
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    for sent in (body, odd):
        for finding in audit_body(sent, to, given=GIVEN):
            assert "{" not in finding.pointer
