"""Folds over the journal, and the stored form of its entries."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import (
    assistant_messages_of,
    broken_words,
    json_values,
    losses_of,
    messages_of,
    names,
    numbers,
    results_of,
    tokens,
    unreads,
    usages_of,
    words,
)
from tenuto.core import journal, jsonio, stored
from tenuto.core.blocks import Reasoning, Text, ToolUse
from tenuto.core.journal import (
    VERSION,
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    Compacted,
    Configured,
    Entry,
    EntryDraft,
    HandedOver,
    LossRecorded,
    MessageAdded,
    MetadataChanged,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SessionMeta,
    SessionState,
    SteeringAdded,
    SubSessionLinked,
    TranscriptFold,
    UnknownPayload,
    payload_kind,
    session_meta_of,
    sha256_hex,
    transcript_of,
    unknown_payloads_in,
)
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Location
from tenuto.core.messages import (
    AssistantMessage,
    SystemMessage,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from tenuto.core.stored import dump_payload, load_payload, make_draft
from tenuto.core.transcript import Transcript

# --- random payloads --------------------------------------------------------------------------------------------------

_OUTCOMES = ("done", "failed", "denied", "interrupted", "cancelled", "unknown")


def payloads_of(text):
    """Payloads of every kind, unrelated to each other."""
    unknown_fields = st.just("") | unreads if text is broken_words else st.just("")

    def build(kind, **fields):
        return st.builds(kind, **fields, unknown_fields=unknown_fields)

    call_index = st.integers(0, 3)
    return st.one_of(
        build(
            Configured, model=text, system=text, parameters=text, tools=text, agent=text, allow_unverified=st.booleans()
        ),
        build(MessageAdded, message=messages_of(text)),
        build(RequestStarted, model=text, digest=tokens, encoder_version=st.integers(0, 9), attempt=st.integers(1, 9)),
        build(
            ReplyReceived,
            message=assistant_messages_of(text),
            usage=st.none() | usages_of(text),
            losses=st.lists(losses_of(text), max_size=2).map(tuple),
            response_id=text,
            request_id=text,
            cost=text,
        ),
        build(RequestFailed, error=names, message=text, retryable=st.booleans(), usage=st.none() | usages_of(text)),
        build(
            CallStarted,
            call_id=text,
            call_index=call_index,
            name=text,
            idempotency_key=text,
            effect=names,
            pid=numbers,
            host=text,
        ),
        build(CallFinished, result=results_of(text), call_index=call_index, outcome=st.sampled_from(_OUTCOMES)),
        build(ApprovalRequested, call_id=text, call_index=call_index, name=text),
        build(ApprovalDecided, call_id=text, call_index=call_index, allowed=st.booleans(), reason=text),
        build(SteeringAdded, message=messages_of(text)),
        build(
            Compacted,
            up_to_seq=st.integers(0, 12),
            messages=st.lists(messages_of(text), max_size=2).map(tuple),
            reason=text,
        ),
        build(HandedOver, model=text, previous_model=text, losses=st.lists(losses_of(text), max_size=1).map(tuple)),
        build(LossRecorded, loss=losses_of(text)),
        build(SubSessionLinked, session=text, call_id=text, call_index=call_index),
        build(MetadataChanged, metadata=st.dictionaries(text, text, max_size=2)),
        build(RunEnded, reason=text, detail=text),
    )


unknown_payloads = st.tuples(names, json_values).map(
    lambda pair: UnknownPayload(f"later_{pair[0]}", json.dumps({"entry": f"later_{pair[0]}", "holds": pair[1]}))
)

_calls = st.lists(st.sampled_from("abc"), max_size=3).map(
    lambda ids: ReplyReceived(AssistantMessage(tuple(ToolUse(id, "t", "{}") for id in ids)), Usage(input_tokens=1))
)
_results = st.builds(
    CallFinished,
    result=st.builds(ToolResult, st.sampled_from("abc"), st.integers(0, 99).map(str)),
    call_index=st.integers(-1, 3),
)
_compactions = st.builds(
    Compacted, up_to_seq=st.integers(0, 14), messages=st.lists(st.builds(UserMessage, words), max_size=2).map(tuple)
)
_added_messages = st.builds(MessageAdded, st.builds(UserMessage, words) | st.builds(SystemMessage, words))
turns = st.lists(
    st.one_of(
        _calls,
        _results,
        _results,
        _added_messages,
        st.builds(SteeringAdded, st.builds(UserMessage, words)),
        payloads_of(words),
        unknown_payloads,
    ),
    max_size=14,
)
"""Any payloads in any order: results before, after and without their calls, repeated ids."""
compacted_turns = st.lists(st.one_of(_calls, _results, _added_messages, _compactions), max_size=14)


def entries_of(payloads, *, version=VERSION):
    drafts = [
        make_draft(payload, id=f"e{seq}", time_ms=1000 * seq, version=version)
        for seq, payload in enumerate(payloads, 1)
    ]
    return [
        Entry(seq, draft.id, draft.time_ms, 1, draft.kind, draft.body, draft.digest, draft.payload, draft.version)
        for seq, draft in enumerate(drafts, 1)
    ]


# --- the transcript ---------------------------------------------------------------------------------------------------

QUESTION = MessageAdded(UserMessage("Weather in Oslo?"))
TWO_CALLS = ReplyReceived(
    AssistantMessage((Reasoning("Hm."), ToolUse("a", "weather", "{}"), Text("So."), ToolUse("b", "weather", "{}")))
)
RESULT_A, RESULT_B = ToolResult("a", "rain"), ToolResult("b", "snow")
ANSWER = ReplyReceived(AssistantMessage((Text("Stay in."),)), Usage(input_tokens=9, output_tokens=2))


def messages_after(*payloads):
    return list(transcript_of(entries_of(payloads)))


def test_results_follow_the_order_of_calls():
    payloads = [QUESTION, RequestStarted("m"), TWO_CALLS, CallStarted("a", 0), CallStarted("b", 1)]
    expected = [QUESTION.message, TWO_CALLS.message, ToolResults((RESULT_A, RESULT_B)), ANSWER.message]

    assert messages_after(*payloads, CallFinished(RESULT_B, 1), CallFinished(RESULT_A, 0), ANSWER) == expected
    assert messages_after(*payloads, CallFinished(RESULT_A, 0), CallFinished(RESULT_B, 1), ANSWER) == expected
    assert messages_after(*payloads, CallFinished(RESULT_B, 1)) == [*expected[:2], ToolResults((RESULT_B,))]


def test_repeated_call_ids_are_separate_calls():
    twice = ReplyReceived(AssistantMessage((ToolUse("x", "t", "1"), ToolUse("x", "t", "2"))))
    first, second = ToolResult("x", "one"), ToolResult("x", "two")
    payloads = [QUESTION, twice, CallFinished(second, 1)]

    assert [call.args for call in TranscriptFold(entries_of(payloads)).open_calls()] == ["1"]
    assert messages_after(*payloads, CallFinished(first, 0))[-1] == ToolResults((first, second))


def test_last_result_of_call_wins():
    again = ToolResult("a", "sun")

    assert messages_after(TWO_CALLS, CallFinished(RESULT_A, 0), CallFinished(again, 0, attempt=2))[-1] == ToolResults(
        (again,)
    )


@pytest.mark.parametrize("call_index", [-1, 2, 99])
def test_result_without_call_is_ignored(call_index):
    stray = CallFinished(RESULT_A, call_index)

    assert messages_after(QUESTION, stray, TWO_CALLS, stray) == [QUESTION.message, TWO_CALLS.message]
    assert session_meta_of("s", entries_of([QUESTION, stray, TWO_CALLS, stray])).message_count == 2


def test_later_message_closes_open_calls():
    payloads = [TWO_CALLS, CallFinished(RESULT_A, 0)]

    assert [call.id for call in TranscriptFold(entries_of(payloads)).open_calls()] == ["b"]
    for closing in (QUESTION, SteeringAdded(UserMessage("Hurry.")), ANSWER):
        entries = entries_of([*payloads, closing, CallFinished(RESULT_B, 1)])
        assert TranscriptFold(entries).open_calls() == ()
        assert transcript_of(entries)[1] == ToolResults((RESULT_A,))
    for other in (
        RequestStarted("m"),
        RequestFailed("TimedOut"),
        RunEnded("cancelled"),
        Configured("m"),
        MetadataChanged({"customer": "42"}),
        LossRecorded(journal.Loss("r", Location(path="p"), "w")),
    ):
        assert [call.id for call in TranscriptFold(entries_of([*payloads, other])).open_calls()] == ["b"]


@settings(max_examples=25)
@given(turns)
def test_transcript_equals_simple_implementation(payloads):
    """The same result as a short implementation that reads all entries at once."""
    payloads = [payload for payload in payloads if not isinstance(payload, Compacted)]
    starts = [
        at for at, payload in enumerate(payloads) if isinstance(payload, MessageAdded | SteeringAdded | ReplyReceived)
    ]
    expected = []
    for at, end in pairwise([*starts, len(payloads)]):
        expected.append(payloads[at].message)
        calls = list(payloads[at].message.tool_calls()) if isinstance(payloads[at], ReplyReceived) else []
        results = {
            payload.call_index: payload.result for payload in payloads[at:end] if isinstance(payload, CallFinished)
        }
        answered = [results[call_index] for call_index in range(len(calls)) if call_index in results]
        expected += [ToolResults(tuple(answered))] if answered else []

    assert messages_after(*payloads) == expected


@settings(max_examples=25)
@given(turns)
def test_open_calls_have_no_result(payloads):
    payloads = [payload for payload in payloads if not isinstance(payload, Compacted)]
    starts = [
        index
        for index, payload in enumerate(payloads)
        if isinstance(payload, MessageAdded | SteeringAdded | ReplyReceived)
    ]
    turn = payloads[starts[-1] :] if starts else []
    calls = list(turn[0].message.tool_calls()) if turn and isinstance(turn[0], ReplyReceived) else []
    results = {payload.call_index for payload in turn if isinstance(payload, CallFinished)}

    assert list(TranscriptFold(entries_of(payloads)).open_calls()) == [
        call for index, call in enumerate(calls) if index not in results
    ]


@settings(max_examples=25)
@given(turns, st.data())
def test_fold_of_prefix_can_continue(payloads, data):
    entries = entries_of(payloads)
    cut = data.draw(st.integers(0, len(entries)))
    fold = journal.TranscriptFold(entries[:cut])
    for entry in entries[cut:]:
        fold.apply(entry)

    assert fold.transcript() == transcript_of(entries)
    assert fold.open_calls() == TranscriptFold(entries).open_calls()
    assert [*unknown_payloads_in(entries)] == [*unknown_payloads_in(entries[:cut]), *unknown_payloads_in(entries[cut:])]


@settings(max_examples=25)
@given(turns)
def test_fold_leaves_entries_unchanged(payloads):
    entries = entries_of(payloads)
    before = list(entries)

    assert transcript_of(iter(entries)) == transcript_of(entries) == transcript_of(tuple(entries))
    assert entries == before


# --- compaction -------------------------------------------------------------------------------------------------------

SUMMARY = UserMessage("It rained.")


def view_after(*payloads, in_scope=None):
    return list(TranscriptFold(entries_of(payloads)).view(in_scope))


TURN = [QUESTION, TWO_CALLS, CallFinished(RESULT_B, 1), CallFinished(RESULT_A, 0), ANSWER]
TURN_MESSAGES = [QUESTION.message, TWO_CALLS.message, ToolResults((RESULT_A, RESULT_B)), ANSWER.message]


@pytest.mark.parametrize("up_to_seq, replaced", [(0, 0), (1, 1), (2, 1), (3, 1), (4, 3), (5, 4), (6, 4), (99, 4)])
def test_compaction_replaces_complete_turns(up_to_seq, replaced):
    """A cut between a call and its result would leave a result that no provider takes."""
    compacted = Compacted(up_to_seq, (SUMMARY,))
    more = MessageAdded(UserMessage("And now?"))

    assert view_after(*TURN, compacted) == [SUMMARY, *TURN_MESSAGES[replaced:]]
    assert view_after(*TURN, compacted, more) == [SUMMARY, *TURN_MESSAGES[replaced:], more.message]


def test_open_calls_survive_compaction():
    payloads = [QUESTION, TWO_CALLS, CallFinished(RESULT_B, 1), Compacted(3, (SUMMARY,))]

    assert view_after(*payloads) == [SUMMARY, TWO_CALLS.message, ToolResults((RESULT_B,))]
    assert [call.id for call in TranscriptFold(entries_of(payloads)).open_calls()] == ["a"]
    assert view_after(*payloads, CallFinished(RESULT_A, 0)) == [
        SUMMARY,
        TWO_CALLS.message,
        ToolResults((RESULT_A, RESULT_B)),
    ]


def test_compaction_replaces_earlier_compaction():
    first, second = Compacted(5, (SUMMARY,)), Compacted(7, (UserMessage("Still raining."),))
    more = MessageAdded(UserMessage("And now?"))

    assert view_after(*TURN, first, more, second) == [UserMessage("Still raining.")]
    assert view_after(*TURN, first, more, Compacted(5, second.messages)) == [*second.messages, more.message]
    assert view_after(*TURN, Compacted(99, (SUMMARY,)), more, Compacted(6)) == [*TURN_MESSAGES, more.message]


def test_compaction_leaves_journal_unchanged():
    entries = entries_of([*TURN, Compacted(5, (SUMMARY,))])

    assert session_meta_of("s", entries).usage == ANSWER.usage
    assert session_meta_of("s", entries).message_count == 4


@settings(max_examples=25)
@given(compacted_turns)
def test_result_always_follows_its_call(payloads):
    """Directly after the reply with the call, for every compaction."""
    messages = view_after(*payloads)
    for before, message in zip([None, *messages], messages, strict=False):
        if isinstance(message, ToolResults):
            assert isinstance(before, AssistantMessage)
            assert len(message.results) <= len(list(before.tool_calls()))


# --- the summary ------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(turns, st.data())
def test_incremental_summary_equals_full_summary(payloads, data):
    entries = entries_of(payloads)
    cut = data.draw(st.integers(0, len(entries)))
    meta = session_meta_of("s", entries[:cut])
    meta = msgspec.json.decode(jsonio.encode(meta), type=SessionMeta) if _is_plain(meta) else meta
    for entry in entries[cut:]:
        meta = meta.after(entry.payload, entry.time_ms)

    assert meta == session_meta_of("s", entries)
    assert meta.usage == sum(
        (payload.usage for payload in payloads if isinstance(payload, ReplyReceived | RequestFailed) and payload.usage),
        Usage(),
    )
    if not any(isinstance(payload, Compacted) for payload in payloads):
        assert meta.message_count == len(transcript_of(entries))


def _is_plain(meta):
    return not jsonio.lone_surrogates(meta.model + meta.agent + meta.status)


def test_session_summary():
    configured, handed = Configured("some/model", agent="scout"), HandedOver("other/model")
    payloads = [
        configured,
        MessageAdded(SystemMessage("Be kind.")),
        MessageAdded(UserMessage("  What\n of\tthe rain?  ")),
        *TURN[1:],
        handed,
    ]
    meta = session_meta_of("s", entries_of(payloads))

    assert meta == SessionMeta(
        id="s",
        created_at=1000,
        updated_at=8000,
        message_count=5,
        usage=ANSWER.usage,
        model="other/model",
        agent="scout",
        title="What of the rain?",
        status="interrupted",
    )
    assert session_meta_of("s", entries_of([*payloads, Configured("third/model")])).agent == "scout"
    assert session_meta_of("s", []) == SessionMeta(id="s")


def test_title_is_short_and_printable():
    for text, title in (("x" * 200, "x" * 80), (" \n", ""), ("a\ud800b", "a�b"), ("y " * 10**6, "y " * 40)):
        meta = SessionMeta().after(MessageAdded(UserMessage(text)), 1)
        assert meta.title == title
    assert SessionMeta().after(MessageAdded(UserMessage(" ")), 1).after(QUESTION, 2).title == "Weather in Oslo?"


def test_status_is_interrupted_when_session_continues():
    stopped = session_meta_of("s", entries_of([QUESTION, ANSWER, RunEnded("completed")]))

    assert stopped.status == "completed"
    for payload in (QUESTION, SteeringAdded(UserMessage("Hm.")), RequestStarted("m"), ANSWER, CallStarted("a", 0)):
        assert stopped.after(payload, 9).status == "interrupted"
    for payload in (
        Configured("m"),
        SubSessionLinked("t"),
        MetadataChanged({"customer": "42"}),
        LossRecorded(journal.Loss("r", Location(path="p"), "w")),
        Compacted(1),
        UnknownPayload("x", "{}"),
    ):
        assert stopped.after(payload, 9).status == "completed"
    assert stopped.after(RunEnded("failed"), 9).status == "failed"


def test_updated_at_never_decreases():
    meta = SessionMeta().after(QUESTION, 500).after(ANSWER, 300)

    assert (meta.created_at, meta.updated_at) == (500, 500)


def test_usage_includes_failed_requests():
    paid, free = RequestFailed("TimedOut", usage=Usage(input_tokens=4)), RequestFailed("RateLimited")

    assert session_meta_of("s", entries_of([QUESTION, paid, free, ANSWER])).usage == Usage(
        input_tokens=13, output_tokens=2
    )
    assert session_meta_of("s", []).usage == Usage()


def test_session_state_is_a_value():
    empty = SessionState("s")
    used = Usage(input_tokens=5, cache_read_tokens=2, cache_write_tokens=1, output_tokens=3, reasoning_tokens=4)
    session = empty.push(UserMessage("Hi.")).push(ANSWER.message).record_usage(used).record_usage(used)

    assert (empty.messages, empty.total_usage(), empty.total_tokens()) == ((), Usage(), 0)
    assert session.messages == (UserMessage("Hi."), ANSWER.message)
    assert session.total_usage() == used + used == session.usage
    assert session.total_tokens() == 30


# --- the stored form --------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(payloads_of(broken_words))
def test_payload_round_trip(payload):
    written = dump_payload(payload)

    assert load_payload(written) == payload
    assert stored._payload(jsonio.check(written)) == payload, "reading member by member gives the same value"
    assert dump_payload(load_payload(written)) == written
    assert json.loads(written)["entry"] == payload_kind(payload) == payload.__struct_config__.tag
    assert b'"unknown_fields":' not in written


@settings(max_examples=30)
@given(payloads_of(words), names, json_values)
def test_unknown_payload_fields_round_trip(payload, name, value):
    document = {**json.loads(dump_payload(payload)), f"later_{name}": value}
    read = load_payload(json.dumps(document))

    assert type(read) is type(payload)
    assert json.loads(dump_payload(read)) == document


@given(unknown_payloads)
def test_unknown_payload_kinds_round_trip(unknown):
    written = dump_payload(unknown)

    assert load_payload(written) == unknown
    assert written == unknown.raw.encode()
    assert payload_kind(unknown) == unknown.kind
    assert make_draft(unknown, id="x", time_ms=1).kind == unknown.kind


def test_unknown_payloads_are_ignored_and_reported():
    unknown = UnknownPayload("dreamt", '{"entry":"dreamt"}')
    entries = entries_of([QUESTION, unknown, ANSWER])

    assert messages_after(QUESTION, unknown, ANSWER) == [QUESTION.message, ANSWER.message]
    assert [entry.seq for entry in unknown_payloads_in(entries)] == [2]
    assert [entry.seq for entry in unknown_payloads_in(entries_of([QUESTION], version=VERSION + 1))] == [1]
    assert list(unknown_payloads_in(entries_of([QUESTION, ANSWER]))) == []


@pytest.mark.parametrize(
    "body",
    [
        '{"entry":"message_added","message":{"role":"oracle","content":"?"}}',
        '{"entry":"message_added"}',
        '{"entry":"call_started","call_id":5,"call_index":"first"}',
        '{"entry":"","message":5}',
        "{}",
    ],
)
def test_invalid_payload_becomes_unknown_payload(body):
    payload = load_payload(body)

    assert payload == UnknownPayload(json.loads(body).get("entry", ""), body)
    assert dump_payload(payload) == body.encode()


def test_unknown_optional_values_are_preserved():
    payload = load_payload(
        '{"entry":"call_finished","result":{"tool_use_id":"a"},"call_index":0,"outcome":"timed_out"}'
    )

    assert payload == CallFinished(ToolResult("a"), 0, unknown_fields='{"outcome":"timed_out"}')
    assert json.loads(dump_payload(payload))["outcome"] == "timed_out"


@pytest.mark.parametrize("body", ["", "[]", "{", '{"entry":5}', b'{"entry":"x","s":"\xff"}', "[" * 500])
def test_invalid_payload_text_is_refused(body):
    with pytest.raises(JsonError):
        load_payload(body)


@pytest.mark.parametrize(
    "payload",
    [
        UnknownPayload("x", "no JSON"),
        UnknownPayload("x", '{"entry":"y"}'),
        UnknownPayload("run_ended", '{"entry":"run_ended","reason":"completed"}'),
        UnknownPayload("x", ' {"entry":"x"} '),
        RunEnded("completed", unknown_fields='{"reason":"failed"}'),
        RunEnded("completed", unknown_fields='{"entry":"dreamt"}'),
    ],
)
def test_payload_that_reads_back_differently_is_refused(payload):
    with pytest.raises(JsonError):
        dump_payload(payload)


def test_draft_has_bytes_and_digest():
    draft = make_draft(ANSWER, id="e1", time_ms=5)

    assert draft == EntryDraft("e1", 5, "reply_received", dump_payload(ANSWER), ANSWER, VERSION)
    assert draft.digest == sha256_hex(draft.body) == sha256_hex(dump_payload(ANSWER))
    assert len(draft.digest) == 64


def test_transcript_from_entries_equals_conversation():
    """As after a restart: all payloads are read from bytes."""
    entries = entries_of(TURN)
    read = [msgspec.structs.replace(entry, payload=load_payload(entry.body)) for entry in entries]

    assert transcript_of(read) == transcript_of(entries) == Transcript(tuple(TURN_MESSAGES))
