"""Reading a Responses stream: what is streamed equals what is sent whole, however it is cut and whatever is missing."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import Audio, OpenAiMeta, Reasoning, Refusal, ServerToolUse, Text, ToolUse
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
    HOSTED,
    PAGE,
    RESULTS,
    STREAMS,
    added,
    begun,
    call,
    completed,
    created,
    done,
    message,
    piece,
    reasoning,
    said,
    sse,
    text,
)
from wire.responses.reading import decoder, events_of, rules, stream, whole, written


@pytest.mark.parametrize("name", sorted(STREAMS))
@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_the_way_bytes_are_cut_changes_nothing(name, size):
    for data in (STREAMS[name], STREAMS[name].replace(b"\n", b"\r\n"), STREAMS[name].replace(b"\n", b"\r")):
        assert decode_stream(decoder(), [data[at : at + size] for at in range(0, len(data), size)]) == decode_stream(
            decoder(), [STREAMS[name]]
        )


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_a_stream_gives_what_the_whole_body_gives(name):
    last = json.loads(STREAMS[name].decode().strip().splitlines()[-1].removeprefix("data: "))
    unstreamed = decode_body(decoder(), json.dumps(last["response"]).encode())

    assert decode_stream(decoder(), [STREAMS[name]]) == unstreamed
    assert written(unstreamed) == last["response"]["output"]


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_deltas_joined_are_the_block(name):
    """Each part starts, grows and is done; the last event is the reply."""
    events = events_of(STREAMS[name])
    grown: dict[int, str] = {}
    for event in events:
        if isinstance(event, ContentDelta):
            kinds = {TextDelta: "text", ThinkingDelta: "thinking", ArgumentsDelta: "arguments", CodeDelta: "code"}
            field = kinds.get(type(event.delta))
            grown[event.part_index] = grown.get(event.part_index, "") + (getattr(event.delta, field) if field else "")
    parts = {event.part_index: event.part for event in events if isinstance(event, ContentDone)}
    sized = (Text, Reasoning, Refusal, ToolUse, ServerToolUse)

    assert isinstance(events[0], MessageStart)
    assert [event.part_index for event in events if isinstance(event, ContentStart)] == list(range(len(parts)))
    assert tuple(parts[at] for at in sorted(parts)) == events[-1].response.message.blocks
    for at, block in parts.items():
        if isinstance(block, sized):
            assert grown.get(at, "") == (block.args if isinstance(block, ToolUse | ServerToolUse) else block.text)


def test_events_come_in_order():
    """Start, parts, why it ended, what it used."""
    kinds = [type(event) for event in events_of(STREAMS["text"])]

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


def test_ids_that_change_in_every_event_do_not_matter():
    reply = stream(
        created(),
        added(0, call("", id="a")),
        piece("function_call_arguments", 0, '{"city": "Oslo",', item_id="b"),
        piece("function_call_arguments", 0, ' "n": 1.10}', item_id="c"),
        done(0, call(id="d")),
        completed(call(id="e")),
    )

    assert written(reply) == [call(id="d")]
    assert reply.losses == ()


def test_indices_may_skip():
    reply = stream(
        created(),
        done(0, reasoning("Hm.")),
        added(2, message()),
        said(2, "Hi."),
        done(2, message(text("Hi."))),
        completed(reasoning("Hm."), message(text("Hi."))),
    )

    assert written(reply) == [reasoning("Hm."), message(text("Hi."))]


def test_an_index_within_a_message_may_be_off():
    """One host counts the reasoning before it."""
    reply = stream(
        created(),
        added(0, message()),
        begun(0, 1),
        said(0, "Hi.", 1),
        done(0, message(text("Hi."))),
        completed(message(text("Hi."))),
    )

    assert (reply.text, len(reply.message.blocks), reply.losses) == ("Hi.", 1, ())


def test_items_may_finish_in_another_order():
    """The order of the output is the order of the indices."""
    reply = stream(
        created(),
        added(0, reasoning(token=None)),
        added(1, message()),
        said(1, "4"),
        piece("reasoning_summary_text", 0, "Hm.", summary_index=0),
        done(1, message(text("4"))),
        done(0, reasoning("Hm.")),
        completed(reasoning("Hm."), message(text("4"))),
    )

    assert written(reply) == [reasoning("Hm."), message(text("4"))]


def test_an_item_that_begins_late_stands_in_its_place():
    reply = stream(
        created(),
        done(1, message(text("4"))),
        done(0, reasoning("Hm.")),
        completed(),
    )

    assert written(reply) == [reasoning("Hm."), message(text("4"))]


def test_pieces_without_an_index_go_to_the_item_of_that_id_or_the_last_one():
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


def test_items_without_an_index_follow_one_another():
    first, second = ({"type": "response.output_item.added", "item": call("", id=id)} for id in ("fc_1", "fc_2"))
    finish = {"type": "response.output_item.done", "item": call(id="fc_1")}
    reply = stream(created(), first, second, finish, completed())

    assert [block.meta.id for block in reply.message.blocks] == ["fc_1", "fc_2"]
    assert [block.args for block in reply.message.blocks] == [call()["arguments"], ""]


def test_an_index_that_is_used_again_names_another_item():
    reply = stream(
        created(),
        done(0, message(text("One."), id="msg_1")),
        done(0, message(text("Two."), id="msg_2")),
        completed(),
    )

    assert written(reply) == [message(text("One."), id="msg_1"), message(text("Two."), id="msg_2")]


@pytest.mark.parametrize(
    "first, block",
    [
        (said(0, "x"), Text),
        (piece("refusal", 0, "x", content_index=0), Refusal),
        (piece("reasoning_summary_text", 0, "x", summary_index=0), Reasoning),
        (piece("reasoning_text", 0, "x", content_index=0), Reasoning),
        (piece("function_call_arguments", 0, "{}"), ToolUse),
        (piece("custom_tool_call_input", 0, "x"), ToolUse),
        (piece("mcp_call_arguments", 0, "{}"), ServerToolUse),
        (piece("code_interpreter_call_code", 0, "x"), ServerToolUse),
    ],
)
def test_a_piece_that_nothing_announced_begins_its_item(first, block):
    reply = stream(first, completed())

    assert [type(found) for found in reply.message.blocks] == [block]
    assert "unfinished-item" in rules(reply)


# --- the finished item ------------------------------------------------------------------------------------------------


def test_ciphertext_comes_from_the_finished_item():
    """Never from the announcement, and not from the repetition at the end where that differs."""
    reply = stream(
        created(),
        added(0, reasoning(token="gAAA-added")),
        done(0, reasoning("Hm.", token="gAAA-done")),
        done(1, message(text("4"))),
        completed(reasoning("Hm.", token="gAAA-completed"), message(text("4"))),
    )

    assert reply.message.blocks[0].meta == OpenAiMeta(id="rs_1", encrypted_content="gAAA-done")


def test_the_token_of_reasoning_is_told():
    tokens = [
        event.delta.signature
        for event in events_of(STREAMS["reasoning, text, call"])
        if isinstance(event, ContentDelta) and isinstance(event.delta, SignatureDelta)
    ]

    assert tokens == ["gAAA-done"]


def test_ids_that_change_when_an_item_finishes_are_those_of_the_finished_item():
    search = {"type": "tool_search_call", "id": "t", "execution": "client", "arguments": {}, "status": "completed"}
    reply = stream(
        created(), added(0, search | {"call_id": "call_1"}), done(0, search | {"call_id": "call_2"}), completed()
    )

    assert [block.id for block in reply.message.blocks] == ["call_2"]


def test_what_pieces_left_out_is_told_as_one_more():
    events = events_of(
        sse(created(), added(0, message()), said(0, "Hel"), done(0, message(text("Hello"))), completed())
    )
    deltas = [event.delta.text for event in events if isinstance(event, ContentDelta)]

    assert deltas == ["Hel", "lo"]


def test_a_finished_item_that_contradicts_its_pieces_wins_with_a_loss():
    reply = stream(created(), added(0, message()), said(0, "Nay"), done(0, message(text("Yea"))), completed())

    assert reply.text == "Yea"
    assert rules(reply) == ["stream-differs"]


def test_parts_that_the_finished_item_does_not_have_are_a_loss():
    reply = stream(
        created(), added(0, message()), said(0, "a"), said(0, "b", 1), done(0, message(text("a"))), completed()
    )

    assert written(reply) == [message(text("a"))]
    assert rules(reply) == ["stream-differs"]


def test_pieces_after_the_end_of_their_item_are_a_loss_once():
    events = events_of(
        sse(
            created(),
            added(0, message()),
            said(0, "a"),
            done(0, message(text("a"))),
            said(0, "b"),
            said(0, "c"),
            completed(),
        )
    )

    assert [event.delta.text for event in events if isinstance(event, ContentDelta)] == ["a"]
    assert events[-1].response.text == "a"
    assert rules(events[-1].response) == ["late-piece"]


@pytest.mark.parametrize(
    "kind, field, item",
    [
        ("output_text", "text", message(text("all"))),
        ("refusal", "refusal", message({"type": "refusal", "refusal": "all"})),
        ("function_call_arguments", "arguments", call("all")),
        ("custom_tool_call_input", "input", CUSTOM | {"input": "all"}),
        ("mcp_call_arguments", "arguments", HOSTED["mcp_call"] | {"arguments": "all"}),
        ("code_interpreter_call_code", "code", HOSTED["code_interpreter_call"] | {"code": "all"}),
    ],
)
def test_a_repetition_stands_in_for_missing_pieces(kind, field, item):
    """Some hosts send no deltas; what was said counts even if the stream then breaks."""
    reader = decoder()
    repeat = {"type": f"response.{kind}.done", "output_index": 0, "item_id": "x", "content_index": 0, field: "all"}
    empty = {key: value for key, value in item.items() if key not in (field, "content")} | {"content": []}
    events = reader.feed(sse(created(), added(0, empty), repeat, repeat))
    deltas = [event.delta for event in events if isinstance(event, ContentDelta)]

    assert len(deltas) == 1
    assert reader.feed(sse(done(0, item), repeat, completed(item)))[-2:] != []
    assert written(reader.finish()[-1].response) == [item]


# --- backfilling ------------------------------------------------------------------------------------------------------


def test_an_item_that_never_finished_is_taken_from_the_last_event():
    listed = RESULTS["mcp_list_tools"]
    reply = stream(
        created(),
        added(0, listed | {"tools": []}),
        done(1, message(text("Hi."))),
        completed(listed, message(text("Hi."))),
    )

    assert written(reply) == [listed, message(text("Hi."))]
    assert reply.losses == ()


def test_an_item_that_was_never_seen_stands_where_the_output_has_it():
    search = HOSTED["web_search_call"]
    reply = stream(
        created(),
        done(0, reasoning("Hm.")),
        done(2, message(text("Hi."))),
        completed(reasoning("Hm."), search, message(text("Hi.")), call()),
    )

    assert written(reply) == [reasoning("Hm."), search, message(text("Hi.")), call()]


def test_a_reply_that_comes_with_its_last_event_alone_is_whole():
    assert stream(completed(reasoning("Hm."), call())).message == whole(reasoning("Hm."), call()).message


@pytest.mark.parametrize("output", [[], None, "absent"])
def test_an_empty_last_list_takes_nothing_away(output):
    last = completed()
    last["response"]["output"] = output
    if output == "absent":
        del last["response"]["output"]

    assert written(stream(created(), done(0, reasoning("Hm.")), done(1, call()), last)) == [reasoning("Hm."), call()]


def test_a_repeated_item_is_not_counted_twice():
    """By id, by call id, by place, or by type: one item stays one."""
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

    assert written(reply) == [reasoning("Hm."), message(text("Hi.")), call()]


def test_a_repeated_item_is_known_by_its_place():
    """Ids changed, and the first of two was never seen."""
    reply = stream(
        created(),
        done(1, message(text("Two."), id="msg_2")),
        completed(message(text("One."), id="msg_8"), message(text("Two."), id="msg_9")),
    )

    assert written(reply) == [message(text("One."), id="msg_8"), message(text("Two."), id="msg_2")]


def test_an_announced_ciphertext_is_never_shown():
    events = events_of(STREAMS["image and compaction"])
    begun_parts = [event.part for event in events if isinstance(event, ContentStart)]

    assert [part.meta for part in begun_parts] == [None, None]


def test_an_item_that_nobody_finished_is_taken_as_far_as_it_came():
    reply = stream(
        created(),
        added(0, reasoning(token="gAAA-added")),
        piece("reasoning_summary_text", 0, "Hm.", summary_index=0),
        added(1, message(status="in_progress")),
        said(1, "Hi"),
        piece("refusal", 1, "No", content_index=1),
        added(2, call("", status="in_progress")),
        piece("function_call_arguments", 2, "{}"),
        completed(),
    )
    thought, words, no, wanted = reply.message.blocks

    assert (thought.text, thought.meta) == ("Hm.", OpenAiMeta(id="rs_1"))
    assert (words.text, no.text, wanted.args) == ("Hi", "No", "{}")
    assert rules(reply) == ["unfinished-item"] * 3


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_summaries_are_lines_while_they_stream():
    """Empty ones, too."""
    events = events_of(
        sse(
            created(),
            added(0, reasoning(token=None)),
            piece("reasoning_summary_text", 0, "One.", summary_index=0),
            piece("reasoning_summary_text", 0, "Three", summary_index=2),
            piece("reasoning_summary_text", 0, ".", summary_index=2),
            done(0, reasoning("One.", "", "Three.", "")),
            completed(),
        )
    )
    thoughts = [e.delta.thinking for e in events if isinstance(e, ContentDelta) and isinstance(e.delta, ThinkingDelta)]

    assert thoughts == ["One.", "\n\nThree", ".", "\n"]
    assert events[-1].response.choices[0].thinking == "One.\n\nThree.\n"


def test_a_reply_of_reasoning_alone_is_a_reply():
    reply = stream(created(), done(0, reasoning()), completed(reasoning()))

    assert (reply.message.stop_reason, written(reply)) == ("stop", [reasoning()])


# --- citations, speech ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["output_text.annotation", "output_text_annotation"])
def test_annotations_are_told_when_they_come(kind):
    note = {"type": f"response.{kind}.added", "output_index": 0, "content_index": 0, "annotation": PAGE}
    events = events_of(
        sse(
            created(),
            note,
            added(0, message()),
            said(0, "Rain"),
            note,
            done(0, message(text("Rain", annotations=[PAGE]))),
            completed(),
        )
    )
    told = [e.delta.citation for e in events if isinstance(e, ContentDelta) and isinstance(e.delta, CitationDelta)]

    assert [citation.url for citation in told] == ["https://example.com"]
    assert events[-1].response.choices[0].citations == told


def test_speech_is_a_block_and_no_item():
    events = events_of(
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
    assert written(reply) == [message(text("Hi"))]
