"""Decode a stream: the reply equals the body without streaming, whatever the chunks and missing events."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import Audio, Opaque, OpenAiMeta, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CitationDelta,
    CodeDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageDelta,
    MessageDone,
    MessageStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.wire.decoder import decode_body, decode_stream
from wire.responses.cases import (
    CUSTOM,
    PAGE,
    RESULTS,
    SERVER_CALLS,
    STREAMS,
    added,
    call,
    completed,
    created,
    delta,
    done,
    message,
    part_added,
    reasoning,
    sse,
    text,
    text_delta,
)
from wire.responses.replies import decode_events, decode_items, decoder, loss_kinds, stream, write_items


@pytest.mark.parametrize("name", sorted(STREAMS))
@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_reply_does_not_depend_on_chunk_sizes(name, size):
    for data in (STREAMS[name], STREAMS[name].replace(b"\n", b"\r\n"), STREAMS[name].replace(b"\n", b"\r")):
        assert decode_stream(decoder(), [data[at : at + size] for at in range(0, len(data), size)]) == decode_stream(
            decoder(), [STREAMS[name]]
        )


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_stream_and_body_give_same_reply(name):
    last = json.loads(STREAMS[name].decode().strip().splitlines()[-1].removeprefix("data: "))
    unstreamed = decode_body(decoder(), json.dumps(last["response"]).encode())

    assert decode_stream(decoder(), [STREAMS[name]]) == unstreamed
    assert write_items(unstreamed) == last["response"]["output"]


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_joined_deltas_equal_block(name):
    events = decode_events(STREAMS[name])
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ContentDelta):
            kinds = {TextDelta: "text", ThinkingDelta: "thinking", ArgumentsDelta: "arguments", CodeDelta: "code"}
            field = kinds.get(type(event.delta))
            texts[event.part_index] = texts.get(event.part_index, "") + (getattr(event.delta, field) if field else "")
    parts = {event.part_index: event.part for event in events if isinstance(event, ContentDone)}
    sized = (Text, Reasoning, Refusal, ToolUse, ServerToolUse)

    assert isinstance(events[0], MessageStart)
    assert [event.part_index for event in events if isinstance(event, ContentStart)] == list(range(len(parts)))
    assert tuple(parts[at] for at in sorted(parts)) == events[-1].response.message.blocks
    for at, block in parts.items():
        if isinstance(block, sized):
            assert texts.get(at, "") == (block.args if isinstance(block, ToolUse | ServerToolUse) else block.text)


def test_event_order():
    kinds = [type(event) for event in decode_events(STREAMS["text"])]

    assert kinds == [
        MessageStart,
        ContentStart,
        *[ContentDelta] * 3,
        ContentDone,
        MessageDelta,
        UsageUpdate,
        MessageDone,
    ]


# --- state by index ---------------------------------------------------------------------------------------------------


def test_item_ids_may_change_between_events():
    reply = stream(
        created(),
        added(0, call("", id="a")),
        delta("function_call_arguments", 0, '{"city": "Oslo",', item_id="b"),
        delta("function_call_arguments", 0, ' "n": 1.10}', item_id="c"),
        done(0, call(id="d")),
        completed(call(id="e")),
    )

    assert write_items(reply) == [call(id="d")]
    assert reply.losses == ()


def test_output_indices_may_skip():
    reply = stream(
        created(),
        done(0, reasoning("Hm.")),
        added(2, message()),
        text_delta(2, "Hi."),
        done(2, message(text("Hi."))),
        completed(reasoning("Hm."), message(text("Hi."))),
    )

    assert write_items(reply) == [reasoning("Hm."), message(text("Hi."))]


def test_content_index_may_be_wrong():
    """One server counts the reasoning before the message."""
    reply = stream(
        created(),
        added(0, message()),
        part_added(0, 1),
        text_delta(0, "Hi.", 1),
        done(0, message(text("Hi."))),
        completed(message(text("Hi."))),
    )

    assert (reply.text, len(reply.message.blocks), reply.losses) == ("Hi.", 1, ())


def test_items_may_finish_in_any_order():
    reply = stream(
        created(),
        added(0, reasoning(token=None)),
        added(1, message()),
        text_delta(1, "4"),
        delta("reasoning_summary_text", 0, "Hm.", summary_index=0),
        done(1, message(text("4"))),
        done(0, reasoning("Hm.")),
        completed(reasoning("Hm."), message(text("4"))),
    )

    assert write_items(reply) == [reasoning("Hm."), message(text("4"))]


def test_late_item_is_ordered_by_index():
    reply = stream(
        created(),
        done(1, message(text("4"))),
        done(0, reasoning("Hm.")),
        completed(),
    )

    assert write_items(reply) == [reasoning("Hm."), message(text("4"))]


def test_delta_without_index_extends_item_by_id_or_last():
    bare = {"type": "response.function_call_arguments.delta", "delta": "{}"}
    reply = stream(
        created(),
        added(0, call("", id="fc_1")),
        added(1, call("", id="fc_2", call_id="call_2")),
        {**bare, "item_id": "fc_1"},
        bare,
        completed(),
    )

    assert [block.args for block in reply.message.blocks] == ["{}", "{}"]


def test_items_without_index_are_appended():
    first, second = ({"type": "response.output_item.added", "item": call("", id=id)} for id in ("fc_1", "fc_2"))
    finish = {"type": "response.output_item.done", "item": call(id="fc_1")}
    reply = stream(created(), first, second, finish, completed())

    assert [block.meta.id for block in reply.message.blocks] == ["fc_1", "fc_2"]
    assert [block.args for block in reply.message.blocks] == [call()["arguments"], ""]


def test_reused_index_starts_new_item():
    reply = stream(
        created(),
        done(0, message(text("One."), id="msg_1")),
        done(0, message(text("Two."), id="msg_2")),
        completed(),
    )

    assert write_items(reply) == [message(text("One."), id="msg_1"), message(text("Two."), id="msg_2")]


@pytest.mark.parametrize(
    "first, block",
    [
        (text_delta(0, "x"), Text),
        (delta("refusal", 0, "x", content_index=0), Refusal),
        (delta("reasoning_summary_text", 0, "x", summary_index=0), Reasoning),
        (delta("reasoning_text", 0, "x", content_index=0), Reasoning),
        (delta("function_call_arguments", 0, "{}"), ToolUse),
        (delta("custom_tool_call_input", 0, "x"), ToolUse),
        (delta("mcp_call_arguments", 0, "{}"), ServerToolUse),
        (delta("code_interpreter_call_code", 0, "x"), ServerToolUse),
    ],
)
def test_unannounced_delta_starts_its_item(first, block):
    reply = stream(first, completed())

    assert [type(item) for item in reply.message.blocks] == [block]
    assert "unfinished-item" in loss_kinds(reply)


# --- the finished item ------------------------------------------------------------------------------------------------


def test_encrypted_content_comes_from_finished_item():
    """Not from the announcement, nor from the last event."""
    reply = stream(
        created(),
        added(0, reasoning(token="gAAA-added")),
        done(0, reasoning("Hm.", token="gAAA-done")),
        done(1, message(text("4"))),
        completed(reasoning("Hm.", token="gAAA-completed"), message(text("4"))),
    )

    assert reply.message.blocks[0].meta == OpenAiMeta(id="rs_1", encrypted_content="gAAA-done")


def test_encrypted_content_is_emitted_as_signature():
    tokens = [
        event.delta.signature
        for event in decode_events(STREAMS["reasoning, text, call"])
        if isinstance(event, ContentDelta) and isinstance(event.delta, SignatureDelta)
    ]

    assert tokens == ["gAAA-done"]


def test_call_id_comes_from_finished_item():
    search = {"type": "tool_search_call", "id": "t", "execution": "client", "arguments": {}, "status": "completed"}
    reply = stream(
        created(), added(0, search | {"call_id": "call_1"}), done(0, search | {"call_id": "call_2"}), completed()
    )

    assert [block.id for block in reply.message.blocks] == ["call_2"]


def test_missing_text_is_emitted_as_last_delta():
    events = decode_events(
        sse(created(), added(0, message()), text_delta(0, "Hel"), done(0, message(text("Hello"))), completed())
    )
    deltas = [event.delta.text for event in events if isinstance(event, ContentDelta)]

    assert deltas == ["Hel", "lo"]


def test_finished_item_wins_over_deltas_with_loss():
    reply = stream(created(), added(0, message()), text_delta(0, "Nay"), done(0, message(text("Yea"))), completed())

    assert reply.text == "Yea"
    assert loss_kinds(reply) == ["stream-differs"]


def test_parts_missing_in_finished_item_are_loss():
    reply = stream(
        created(),
        added(0, message()),
        text_delta(0, "a"),
        text_delta(0, "b", 1),
        done(0, message(text("a"))),
        completed(),
    )

    assert write_items(reply) == [message(text("a"))]
    assert loss_kinds(reply) == ["stream-differs"]


def test_deltas_after_finished_item_are_one_loss():
    events = decode_events(
        sse(
            created(),
            added(0, message()),
            text_delta(0, "a"),
            done(0, message(text("a"))),
            text_delta(0, "b"),
            text_delta(0, "c"),
            completed(),
        )
    )

    assert [event.delta.text for event in events if isinstance(event, ContentDelta)] == ["a"]
    assert events[-1].response.text == "a"
    assert loss_kinds(events[-1].response) == ["late-piece"]


def test_item_announced_as_unknown_can_finish_as_a_call():
    unknown = {**call(), "type": "new_kind"}
    reply = stream(created(), added(0, unknown), done(0, call()), completed())

    assert [block.args for block in reply.message.blocks] == [call()["arguments"]]


@pytest.mark.parametrize(
    "kind, field, item",
    [
        ("output_text", "text", message(text("all"))),
        ("refusal", "refusal", message({"type": "refusal", "refusal": "all"})),
        ("function_call_arguments", "arguments", call("all")),
        ("custom_tool_call_input", "input", CUSTOM | {"input": "all"}),
        ("mcp_call_arguments", "arguments", SERVER_CALLS["mcp_call"] | {"arguments": "all"}),
        ("code_interpreter_call_code", "code", SERVER_CALLS["code_interpreter_call"] | {"code": "all"}),
    ],
)
def test_text_done_event_replaces_missing_deltas(kind, field, item):
    """Some servers send no deltas."""
    reader = decoder()
    repeat = {"type": f"response.{kind}.done", "output_index": 0, "item_id": "x", "content_index": 0, field: "all"}
    empty = {key: value for key, value in item.items() if key not in (field, "content")} | {"content": []}
    events = reader.feed(sse(created(), added(0, empty), repeat, repeat))
    deltas = [event.delta for event in events if isinstance(event, ContentDelta)]

    assert len(deltas) == 1
    assert reader.feed(sse(done(0, item), repeat, completed(item)))[-2:] != []
    assert write_items(reader.finish()[-1].response) == [item]


# --- the last event ---------------------------------------------------------------------------------------------------


def test_open_item_is_read_from_last_event():
    item = RESULTS["mcp_list_tools"]
    reply = stream(
        created(),
        added(0, item | {"tools": []}),
        done(1, message(text("Hi."))),
        completed(item, message(text("Hi."))),
    )

    assert write_items(reply) == [item, message(text("Hi."))]
    assert reply.losses == ()


def test_new_item_of_last_event_has_its_output_position():
    search = SERVER_CALLS["web_search_call"]
    reply = stream(
        created(),
        done(0, reasoning("Hm.")),
        done(2, message(text("Hi."))),
        completed(reasoning("Hm."), search, message(text("Hi.")), call()),
    )

    assert write_items(reply) == [reasoning("Hm."), search, message(text("Hi.")), call()]


def test_last_event_alone_is_complete_reply():
    assert stream(completed(reasoning("Hm."), call())).message == decode_items(reasoning("Hm."), call()).message


@pytest.mark.parametrize("output", [[], None, "absent"])
def test_empty_output_of_last_event_removes_nothing(output):
    last = completed()
    last["response"]["output"] = output
    if output == "absent":
        del last["response"]["output"]

    assert write_items(stream(created(), done(0, reasoning("Hm.")), done(1, call()), last)) == [
        reasoning("Hm."),
        call(),
    ]


def test_repeated_item_is_not_counted_twice():
    """Items are matched by id, by call id, by index, or by type."""
    again = [reasoning("Hm.", id="rs_9"), message(text("Hi."), id="msg_9"), call(id="fc_9")]
    reply = stream(
        created(),
        done(0, reasoning("Hm.")),
        done(2, message(text("Hi."))),
        done(3, call()),
        done(3, call()),
        completed(*again),
        completed(*again),
    )

    assert write_items(reply) == [reasoning("Hm."), message(text("Hi.")), call()]


def test_repeated_item_is_matched_by_index():
    """The ids changed, and no event announced the first item."""
    reply = stream(
        created(),
        done(1, message(text("Two."), id="msg_2")),
        completed(message(text("One."), id="msg_8"), message(text("Two."), id="msg_9")),
    )

    assert write_items(reply) == [message(text("One."), id="msg_8"), message(text("Two."), id="msg_2")]


def test_announced_encrypted_content_is_not_emitted():
    events = decode_events(STREAMS["image and compaction"])
    first_parts = [event.part for event in events if isinstance(event, ContentStart)]

    assert [part.meta for part in first_parts] == [None, None]


def test_unfinished_item_keeps_received_content():
    reply = stream(
        created(),
        added(0, reasoning(token="gAAA-added")),
        delta("reasoning_summary_text", 0, "Hm.", summary_index=0),
        added(1, message(status="in_progress")),
        text_delta(1, "Hi"),
        delta("refusal", 1, "No", content_index=1),
        added(2, call("", status="in_progress")),
        delta("function_call_arguments", 2, "{}"),
        completed(),
    )
    reasoning_block, text_block, refusal, call_block = reply.message.blocks

    assert (reasoning_block.text, reasoning_block.meta) == ("Hm.", OpenAiMeta(id="rs_1"))
    assert (text_block.text, refusal.text, call_block.args) == ("Hi", "No", "{}")
    assert loss_kinds(reply) == ["unfinished-item"] * 3


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_summary_parts_are_streamed_as_lines():
    """Empty parts, too."""
    events = decode_events(
        sse(
            created(),
            added(0, reasoning(token=None)),
            delta("reasoning_summary_text", 0, "One.", summary_index=0),
            delta("reasoning_summary_text", 0, "Three", summary_index=2),
            delta("reasoning_summary_text", 0, ".", summary_index=2),
            done(0, reasoning("One.", "", "Three.", "")),
            completed(),
        )
    )
    thoughts = [e.delta.thinking for e in events if isinstance(e, ContentDelta) and isinstance(e.delta, ThinkingDelta)]

    assert thoughts == ["One.", "\n\nThree", ".", "\n"]
    assert events[-1].response.choices[0].thinking == "One.\n\nThree.\n"


def test_reply_may_contain_only_reasoning():
    reply = stream(created(), done(0, reasoning()), completed(reasoning()))

    assert (reply.message.stop_reason, write_items(reply)) == ("stop", [reasoning()])


# --- citations, speech ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["output_text.annotation", "output_text_annotation"])
def test_annotation_event_emits_citation(kind):
    note = {"type": f"response.{kind}.added", "output_index": 0, "content_index": 0, "annotation": PAGE}
    events = decode_events(
        sse(
            created(),
            note,
            added(0, message()),
            text_delta(0, "Rain"),
            note,
            done(0, message(text("Rain", annotations=[PAGE]))),
            completed(),
        )
    )
    citations = [e.delta.citation for e in events if isinstance(e, ContentDelta) and isinstance(e.delta, CitationDelta)]

    assert [citation.url for citation in citations] == ["https://example.com"]
    assert events[-1].response.choices[0].citations == citations


def test_speech_is_block_without_item():
    events = decode_events(
        sse(
            created(),
            {"type": "response.audio.delta", "delta": "AAAA", "sequence_number": 1},
            {"type": "response.audio.transcript.delta", "delta": "Hi", "sequence_number": 2},
            {"type": "response.audio.delta", "delta": "BBBB", "sequence_number": 3},
            {"type": "response.audio.transcript.done", "sequence_number": 4},
            {"type": "response.audio.done", "sequence_number": 5},
            done(0, message(text("Hi"))),
            completed(message(text("Hi"))),
        )
    )
    reply = events[-1].response
    kinds = [type(e.delta) for e in events if isinstance(e, ContentDelta)]

    assert kinds == [AudioDelta, TranscriptDelta, AudioDelta, TextDelta]
    assert reply.choices[0].audio == Audio(data="AAAABBBB", transcript="Hi")
    assert write_items(reply) == [message(text("Hi"))]


SPEECH = {"type": "response.audio.delta", "delta": "AAAA", "sequence_number": 1}


def test_speech_is_not_matched_with_repeated_item():
    unknown = {"type": "audio", "id": "x"}
    reply = stream(created(), SPEECH, completed(unknown))

    assert [type(block) for block in reply.message.blocks] == [Opaque, Audio]
    assert write_items(reply) == [unknown]


def test_delta_without_index_does_not_extend_speech():
    events = (added(0, message()), SPEECH, {"type": "response.output_text.delta", "delta": "Hi"})
    reply = stream(created(), *events, completed(message(text("Hi"))))

    assert (reply.text, reply.choices[0].audio) == ("Hi", Audio(data="AAAA"))
    assert reply.losses == ()
