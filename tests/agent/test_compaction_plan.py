"""The size of a conversation, when it is compacted, and which part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import journals as j
from tenuto.agent.compaction_plan import Compaction, ContextSize, native_threshold, plan
from tenuto.catalog import resolve
from tenuto.core.blocks import Image, Text, ToolUse
from tenuto.core.journal import (
    Compacted,
    Configured,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    TranscriptFold,
)
from tenuto.core.messages import AssistantMessage, Usage, UserMessage
from tenuto.core.summary import MEDIA_TOKENS

MODEL = "sim/openai/gpt-5.2"
TARGET = resolve(MODEL)


def message_added(text: str = "Hi") -> MessageAdded:
    return MessageAdded(UserMessage(text))


def reply_received(prompt: int | None, completion: int = 10, *calls: str) -> ReplyReceived:
    usage = None if prompt is None else Usage(input_tokens=prompt, output_tokens=completion)
    return ReplyReceived(AssistantMessage((Text("Hello"), *(ToolUse(call, "act", "{}") for call in calls))), usage)


def turns(count: int, size: int = 1000) -> list:
    """Return a conversation in which each turn has `size` tokens."""
    acts: list = [Configured(MODEL)]
    for number in range(count):
        acts += [message_added(), RequestStarted(MODEL), reply_received(size * (number + 1))]
    return acts


def size_of(acts) -> ContextSize:
    size = ContextSize()
    for entry in j.entries_of(acts):
        size.apply(entry)
    return size


def test_size_is_counted_by_usage():
    assert size_of([]).total() == 0
    assert size_of(turns(3)).total() == 3010
    assert size_of([*turns(3), message_added("word " * 400)]).total() == 3010 + 501
    assert [size_of(turns(3)).segment_tokens(index) for index in range(3)] == [1000, 1000, 10]


def test_size_is_estimated_without_counts():
    acts = [message_added("word " * 400), RequestStarted(MODEL), reply_received(None)]

    assert 500 < size_of(acts).total() < 520


def test_usage_with_a_summary_in_it_is_not_the_size():
    from tenuto.core.blocks import Marker

    reply = AssistantMessage((Marker("compaction", "It rained."), Text("Hello")))
    acts = [*turns(3), message_added(), RequestStarted(MODEL), Compacted(8, summary="It rained.", inline=True)]

    assert size_of([*acts, ReplyReceived(reply, Usage(input_tokens=150_000, output_tokens=10))]).total() < 2000


def test_image_has_a_fixed_estimate():
    """Its Base64 characters are not counted."""
    acts = [*turns(1), MessageAdded(UserMessage((Image("A" * 4_000_000, "image/png"),)))]

    assert 1010 + MEDIA_TOKENS <= size_of(acts).total() <= 1020 + MEDIA_TOKENS


def test_size_after_a_compaction_is_that_of_the_rest():
    acts = [*turns(10), Compacted(24, summary="word " * 80)]

    assert size_of(turns(10)).total() == 10_010
    assert 2000 < size_of(acts).total() < 2300
    assert size_of([*acts, Compacted(0)]).total() >= 10_000


def test_due_at_a_share_of_the_window():
    size = size_of(turns(3))

    assert size.due_at(Compaction(), 10_000) == 8000
    assert size.due_at(Compaction(at=0.5), 1_000_000) == 500_000
    assert size.due_at(Compaction(), None) is None


def test_failed_attempt_waits_for_growth():
    failed = RequestFailed("NoSummary", purpose="compaction")

    assert size_of([*turns(9), failed]).due_at(Compaction(), 10_000) == 9011 + 500
    assert size_of([*turns(9), failed, Compacted(20, summary="x")]).due_at(Compaction(), 10_000) == 8000
    assert size_of([*turns(9), Compacted(5, summary="x"), Compacted(0)]).due_at(Compaction(), 10_000) > 8000


def test_compaction_that_saves_little_waits_for_growth():
    size = size_of([*turns(9), Compacted(5, summary="word " * 2000)])

    assert size.total() > 8000
    assert size.due_at(Compaction(), 10_000) == size.total() + 501


@pytest.mark.parametrize("keep, covered", [(0, 9), (1010, 8), (2500, 7), (9000, 1), (99_000, 1)])
def test_cut_keeps_the_tokens_at_the_end(keep, covered):
    """It is directly before a request, so the remaining part begins with its reply."""
    cut, kept = size_of(turns(10)).find_cut(keep, 1)

    assert cut == 2 + 3 * covered - 0
    assert kept <= max(keep, 10)


def test_no_cut_if_too_little_is_covered():
    assert size_of(turns(1)).find_cut(0, 1) is None
    assert size_of(turns(10)).find_cut(20_000, 5000) is None


def test_paused_turn_is_not_cut():
    paused = ReplyReceived(AssistantMessage((Text("Wait"),), raw_stop_reason="pause_turn"), Usage(input_tokens=2000))
    acts = [*turns(1), message_added(), RequestStarted(MODEL), paused, RequestStarted(MODEL), reply_received(3000)]

    assert size_of(acts).find_cut(0, 1)[0] == 5


@given(st.integers(2, 12), st.integers(0, 14), st.integers(0, 6), st.booleans())
def test_cut_leaves_no_call_open(count, calls_at, keep, has_usage):
    acts: list = [Configured(MODEL)]
    for number in range(count):
        names = tuple(f"call_{at}" for at in range(number % 3))
        acts += [
            message_added(),
            RequestStarted(MODEL),
            reply_received(1000 * (number + 1) if has_usage else None, 10, *names),
        ]
        if number != calls_at:
            acts += [j.call_finished(at) for at in range(number % 3)]
    entries = j.entries_of(acts)
    made = plan(entries, TARGET, Compaction(keep_tokens=keep * 1000), full=True)

    assert made is not None
    covered = TranscriptFold(entries[: made.up_to_seq])
    after = TranscriptFold([*entries, *j.entries_of([*acts, Compacted(made.up_to_seq, summary="It rained.")])[-1:]])
    assert isinstance(entries[made.up_to_seq].payload, RequestStarted)
    kept = after.view()[1:]
    assert isinstance(kept[0], AssistantMessage)
    assert (*covered.transcript().messages, *kept) == TranscriptFold(entries).transcript().messages
    assert len(kept) == made.kept


def test_plan_is_none_without_a_second_request():
    assert plan(j.entries_of(turns(1)), TARGET, full=True) is None
    assert plan([], TARGET) is None


@pytest.mark.parametrize(
    ("model", "by", "steps"),
    [
        ("anthropic/claude-opus-5-5", "provider", ("provider", "model")),
        ("anthropic/claude-opus-4", "provider", ("model",)),
        ("openai/gpt-5.2", "endpoint", ("endpoint", "model")),
        ("openai/gpt-5.2", "model", ("model",)),
        ("openai/gpt-5.2", "anthropic/claude-opus-5-5", ("model",)),
        ("google/gemini-3.8-flash", "provider", ("model",)),
        ("xai/grok-4.7", "provider", ("model",)),
        ("deepseek/deepseek-chat", lambda transcript, focus: "", ("function",)),
    ],
)
def test_plan_names_the_ways_in_order(model, by, steps):
    assert plan(j.entries_of(turns(5)), resolve(model), Compaction(by=by), full=True).steps == steps


@pytest.mark.parametrize("fields", [{"at": 0}, {"at": 1.5}, {"keep_tokens": -1}, {"keep_results": -1}, {"by": "magic"}])
def test_invalid_settings_are_refused(fields):
    with pytest.raises(ValueError, match="invalid"):
        Compaction(**fields)


def test_threshold_is_a_parameter_of_the_provider():
    assert native_threshold(Compaction(by="threshold", at=0.5), TARGET).threshold == 200_000
    assert native_threshold(Compaction(), TARGET) is None
    assert native_threshold(None, TARGET) is None
    assert native_threshold(Compaction(by="threshold"), resolve("google/gemini-3.8-flash")) is None
