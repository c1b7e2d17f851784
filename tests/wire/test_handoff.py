"""Adapting a transcript: tokens go to their issuer only, every call has its answer, and each loss is on the books."""

from __future__ import annotations

import pytest

from tenuto.core.blocks import (
    AnthropicMeta,
    ChatMeta,
    CodeExecution,
    CodeResult,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.target import ChatSwitches, ModelTraits, Provider, ResponsesSwitches, Target
from tenuto.wire.handoff import UNANSWERED, adapt, issued_by

HERE = Target(Provider("here", "anthropic-messages", ""), "claude-opus-4-6", "anthropic-messages")
HOME = Origin("here", "anthropic-messages", "claude-opus-4-6-20260101")
AWAY = Origin("there", "gemini", "gemini-3-pro")


def rules(adapted) -> list[str]:
    return [loss.rule for loss in adapted.losses]


def test_nothing_foreign_changes_nothing():
    """The very same messages come back."""
    messages = (
        SystemMessage("s"),
        UserMessage("?"),
        AssistantMessage(
            (Reasoning("h", meta=AnthropicMeta("s")), ToolUse("t1", "f", "{}")), origin=HOME, extra='{"a":1}'
        ),
        ToolResults((ToolResult("t1", "1"),)),
    )
    adapted = adapt(messages, HERE)

    assert adapted.messages is messages
    assert adapted.losses == ()


def test_foreign_turn_loses_what_only_its_issuer_reads():
    """Tokens, reasoning, fields and provider-run tools; text, calls and pictures stay. The books balance."""
    turn = AssistantMessage(
        (
            Reasoning("hm", meta=GeminiMeta("sig1")),
            Text("Hi", (UrlCitation("u", raw="{}"),), meta=GeminiMeta("sig2"), extra='{"mediaResolution":1}'),
            ToolUse("tnt_1", "f", "{}", meta=GeminiMeta("sig3"), minted=True, no_args=True),
            CodeExecution("1"),
            CodeResult("OK"),
            ServerToolUse("s", "search"),
            ServerToolResult("s"),
            Marker("compaction"),
            Opaque("gemini", "{}"),
            Image(data="x"),
            Refusal("no"),
        ),
        origin=AWAY,
        extra='{"groundingMetadata":{}}',
    )
    adapted = adapt((turn, ToolResults((ToolResult("tnt_1"),))), HERE)

    assert adapted.messages[0].blocks == (Text("Hi"), ToolUse("tnt_1", "f", "{}"), Image(data="x"), Refusal("no"))
    assert adapted.messages[0].extra == ""
    tokens = [loss for loss in adapted.losses if loss.rule == "foreign-token"]
    assert len(tokens) == 3
    assert [loss.place for loss in tokens] == [f"messages[0].blocks[{at}]" for at in range(3)]
    assert rules(adapted).count("foreign-block") == 6
    assert rules(adapted).count("foreign-fields") == 2
    assert {"foreign-reasoning", "foreign-citations"} <= set(rules(adapted))


def test_given_transcript_is_not_changed():
    """Going back to the first provider finds its signatures in place."""
    turn = AssistantMessage((Reasoning("hm", meta=GeminiMeta("sig")),), origin=AWAY)
    adapt((turn,), HERE)
    back = Target(Provider("there", "gemini", ""), "gemini-3-pro", "gemini")

    assert adapt((turn,), back).messages[0] is turn


def test_reasoning_may_be_kept_for_inlining():
    """On request its text comes along, without its token; a withheld thought has no text to bring."""
    turn = AssistantMessage((Reasoning("hm", meta=GeminiMeta("s")), Reasoning(meta=GeminiMeta("t"))), origin=AWAY)
    adapted = adapt((turn,), HERE, keep_reasoning=True)

    assert adapted.messages[0].blocks == (Reasoning("hm"),)


def test_custom_and_built_in_calls_become_plain_ones():
    """Free text is put under a name; a built-in keeps its arguments."""
    origin = Origin("there", "openai-responses", "gpt-5.2")
    turn = AssistantMessage(
        (ToolUse("a", "sh", "ls", kind="custom"), ToolUse("b", "shell", "{}", kind="shell_call")), origin=origin
    )
    adapted = adapt((turn, ToolResults((ToolResult("a"), ToolResult("b")))), HERE)

    assert adapted.messages[0].blocks == (ToolUse("a", "sh", '{"input":"ls"}'), ToolUse("b", "shell", "{}"))
    assert rules(adapted) == ["custom-tool", "foreign-call"]


@pytest.mark.parametrize("dialect, own", [
    ("anthropic-messages", AnthropicMeta("s")), ("openai-responses", OpenAiMeta("rs_1")),
    ("openai-chat", ChatMeta("reasoning")), ("gemini", GeminiMeta("s")),
])  # fmt: skip
def test_hand_made_messages_keep_tokens_of_the_target_s_kind(dialect, own):
    """Nobody says who issued them: the kind of token decides."""
    metas = (AnthropicMeta("s"), OpenAiMeta("rs_1"), ChatMeta("reasoning"), GeminiMeta("s"))
    turn = AssistantMessage(tuple(Reasoning("x", meta=meta) for meta in metas))
    adapted = adapt((turn,), Target(Provider("x", dialect, ""), "m", dialect))

    assert [block.meta for block in adapted.messages[0].blocks if block.meta] == [own]
    assert rules(adapted) == ["foreign-token"] * 3


@pytest.mark.parametrize("origin, target, same", [
    (Origin("a", "gemini", "m"), ("a", "gemini", "m", ""), True),
    (Origin("a", "gemini", "m"), ("b", "gemini", "m", ""), False),
    (Origin("a", "openai-chat", "m"), ("a", "openai-responses", "m", ""), False),
    (Origin("a", "gemini", "m", "1"), ("a", "gemini", "m", "2"), False),
    (Origin("a", "gemini", "m", "1"), ("a", "gemini", "m", ""), True),
    (Origin("a", "gemini", "m"), ("a", "gemini", "n", ""), False),
    (Origin("a", "gemini", ""), ("a", "gemini", "n", ""), True),
    (Origin("a", "gemini", "m-20260101"), ("a", "gemini", "m", ""), True),
    (Origin("a", "gemini", "m-2026-01-01"), ("a", "gemini", "m-latest", ""), True),
    (Origin("a", "gemini", "models/m"), ("a", "gemini", "m", ""), True),
])  # fmt: skip
def test_issuer(origin, target, same):
    """R6: provider, dialect, account and model family."""
    name, dialect, model, account = target

    assert issued_by(origin, Target(Provider(name, dialect, ""), model, dialect, account=account)) is same


def test_a_family_is_known_by_its_pattern():
    """What the table says of a model's ids decides where names differ."""
    family = ModelTraits(known=True, pattern=r"claude-(?:opus-4-6|opus-4\.6)")
    there = Target(Provider("r", "openai-chat", ""), "anthropic/claude-opus-4.6", "openai-chat", family)

    assert issued_by(Origin("r", "openai-chat", "anthropic/claude-opus-4-6"), there)
    assert not issued_by(Origin("r", "openai-chat", "anthropic/claude-opus-4-5"), there)


def test_call_ids_that_would_be_refused_are_mapped():
    """Calls and results through one map; the same transcript gives the same ids."""
    long = "call|" + "x" * 100
    messages = (
        AssistantMessage((ToolUse(long, "f", "{}"), ToolUse("ok", "f", "{}"))),
        ToolResults((ToolResult(long), ToolResult("ok"))),
    )
    adapted = adapt(messages, HERE)
    call, other = adapted.messages[0].blocks

    assert len(call.id) <= 64
    assert [r.tool_use_id for r in adapted.messages[1].results] == [call.id, "ok"]
    assert other.id == "ok"
    assert adapt(messages, HERE) == adapted
    assert rules(adapted) == ["call-id-mapped"]


def test_chat_rows_say_how_long_an_id_may_be():
    """The limit is the row's."""
    row = Provider("x", "openai-chat", "", chat=ChatSwitches(call_id_max=40))
    messages = (AssistantMessage((ToolUse("c" * 41, "f", "{}"),)), ToolResults((ToolResult("c" * 41),)))

    assert rules(adapt(messages, Target(row, "m", "openai-chat"))) == ["call-id-mapped"]
    any_length = Provider("x", "openai-responses", "", responses=ResponsesSwitches(call_id_max=0))
    assert adapt(messages, Target(any_length, "m", "openai-responses")).messages is messages


def test_ids_that_must_be_echoed_are_left_alone():
    """One dialect takes any id and wants it back as it was; an empty one is no id."""
    echo = Target(Provider("x", "gemini", ""), "m", "gemini")
    odd = (AssistantMessage((ToolUse("a.b:c" * 30, "f", "{}"),)), ToolResults((ToolResult("a.b:c" * 30),)))

    assert adapt(odd, echo).messages is odd
    assert rules(adapt((AssistantMessage((ToolUse("", "f", "{}"),)), ToolResults((ToolResult(""),))), echo)) == [
        "call-id-mapped"
    ]


def test_an_id_used_again_in_a_later_turn_is_renamed():
    """P51: some providers refuse the second one; its result follows, the first stays."""
    turn = (AssistantMessage((ToolUse("t", "f", "{}"),)), ToolResults((ToolResult("t", "1"),)))
    adapted = adapt(turn + turn, HERE)
    first, _, second, answer = adapted.messages

    assert first.blocks[0].id == "t"
    assert second.blocks[0].id == answer.results[0].tool_use_id != "t"


def test_an_id_used_twice_in_one_turn_is_told_apart():
    """The first call keeps it; the n-th answer goes to the n-th call."""
    turn = AssistantMessage((ToolUse("t", "f", "{}"), ToolUse("t", "g", "{}")))
    adapted = adapt((turn, ToolResults((ToolResult("t", "1"), ToolResult("t", "2")))), HERE)
    first, second = (block.id for block in adapted.messages[0].blocks)

    assert (first, rules(adapted)) == ("t", ["call-id-mapped"])
    assert [(r.tool_use_id, r.content) for r in adapted.messages[1].results] == [("t", "1"), (second, "2")]


def test_open_calls_are_answered():
    """R15: each call is closed before the next question, in call order, with an error the model can read."""
    turn = AssistantMessage((ToolUse("a", "f", "{}"), ToolUse("b", "f", "{}")))
    adapted = adapt((turn, ToolResults((ToolResult("b", "2"),)), UserMessage("?")), HERE)

    assert adapted.messages[1] == ToolResults((ToolResult("a", UNANSWERED, is_error=True), ToolResult("b", "2")))
    assert adapted.messages[2] == UserMessage("?")
    assert rules(adapted) == ["open-call"]
    assert rules(adapt((turn,), HERE)) == ["open-call"] * 2


def test_results_stand_right_behind_their_calls():
    """What stands in between moves behind the results."""
    turn = AssistantMessage((ToolUse("a", "f", "{}"),))
    adapted = adapt((turn, UserMessage("wait"), ToolResults((ToolResult("a", "1"),)), UserMessage("?")), HERE)

    assert adapted.messages[1:] == (ToolResults((ToolResult("a", "1"),)), UserMessage("wait"), UserMessage("?"))
    assert adapted.losses == ()


def test_results_that_answer_nothing_are_left_out():
    """An orphan or a second answer would be refused."""
    turn = AssistantMessage((ToolUse("a", "f", "{}"),))
    results = ToolResults((ToolResult("a", "1"), ToolResult("a", "2"), ToolResult("zzz")))
    adapted = adapt((ToolResults((ToolResult("early"),)), turn, results), HERE)

    assert adapted.messages == (turn, ToolResults((ToolResult("a", "1"),)))
    assert rules(adapted) == ["orphan-result"] * 3


def test_call_that_may_be_answered_later_stays_open():
    """The provider itself allows it: nothing is made up."""
    turn = AssistantMessage((ToolUse("a", "f", "{}", extra='{"async":true}'), ToolUse("b", "f", "{}", extra='{"x":1}')))
    adapted = adapt((turn,), HERE)

    assert adapted.messages[1].results[0].tool_use_id == "b"
    assert rules(adapted) == ["open-call"]


def test_late_answer_to_such_a_call_is_kept():
    """It stands where it came, whether or not that turn has calls of its own; a second one answers nothing."""
    turn = AssistantMessage((ToolUse("a", "f", "{}", extra='{"async":true}'),))
    other = AssistantMessage((ToolUse("b", "f", "{}"),))
    late, both = ToolResults((ToolResult("a"),)), ToolResults((ToolResult("b"), ToolResult("a")))

    plain = (turn, UserMessage("?"), AssistantMessage((Text("x"),)), late)
    assert adapt(plain, HERE).messages is plain
    mixed = (turn, UserMessage("?"), other, both)
    assert adapt(mixed, HERE).messages is mixed
    assert rules(adapt((*plain, AssistantMessage((Text("y"),)), late), HERE)) == ["orphan-result"]
