"""Decode chat replies: text, frames, refusals, audio, images, citations."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import Audio, Image, Opaque, Refusal, Text, ToolUse, UrlCitation
from tenuto.core.events import (
    AudioDelta,
    CitationDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageDelta,
    MessageDone,
    MessageStart,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.messages import Origin
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.decoder import decode_stream
from wire.chat.cases import (
    ANNOTATION,
    FIRST,
    HEAD,
    STREAMS,
    USAGE,
    WHOLE,
    assistant,
    back,
    body,
    chunk,
    sse,
    stream,
    target,
    text,
    whole,
)

# --- text and frames --------------------------------------------------------------------------------------------------


def test_streamed_text_and_envelope_fields():
    response = stream(STREAMS["text"])

    assert response.message.blocks == (Text("Hello, wörld ☃"),)
    assert (response.id, response.model, response.provider) == ("chatcmpl-1", "gpt-x", "here")
    assert (response.message.stop_reason, response.message.raw_stop_reason) == ("stop", "stop")
    assert response.message.origin == Origin("here", "openai-chat", "gpt-x")
    assert json.loads(response.extra) == {
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "system_fingerprint": "fp_1",
    }
    assert json.loads(response.message.extra) == {"refusal": None}
    assert json.loads(response.choices[0].extra) == {"logprobs": None}
    assert json.loads(response.raw_usage) == USAGE


def test_events_of_a_text_reply():
    decoder = ChatDecoder(target())
    events = [*decoder.feed(STREAMS["text"]), *decoder.finish()]

    assert [type(event) for event in events] == [
        MessageStart,
        ContentStart,
        *[ContentDelta] * 3,
        ContentDone,
        MessageDelta,
        UsageUpdate,
        MessageDone,
    ]
    assert events[0] == MessageStart("chatcmpl-1", "gpt-x")
    assert events[6] == MessageDelta(0, "stop", "stop")


@pytest.mark.parametrize("name", STREAMS)
def test_joined_deltas_equal_the_part(name):
    decoder = ChatDecoder(target())
    events = [*decoder.feed(STREAMS[name]), *decoder.finish()]
    texts: dict[tuple[int, int], str] = {}
    for event in events:
        if isinstance(event, ContentDelta) and not isinstance(event.delta, TranscriptDelta | CitationDelta):
            key = (event.choice_index, event.part_index)
            texts[key] = texts.get(key, "") + getattr(event.delta, event.delta.__struct_fields__[0])
    done = {(e.choice_index, e.part_index): e.part for e in events if isinstance(e, ContentDone)}
    response = events[-1].response

    assert done == {(c.index, at): part for c in response.choices for at, part in enumerate(c.message.blocks)}
    for key, part in done.items():
        content = part.args if isinstance(part, ToolUse) else part.data if isinstance(part, Audio) else part.text
        assert texts.get(key, "") == content


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_chunk_boundaries_do_not_change_the_result(name, size, ends):
    data = STREAMS[name].replace(b"\n", ends)

    response = decode_stream(ChatDecoder(target()), [data[at : at + size] for at in range(0, len(data), size)])

    assert response == stream(STREAMS[name])


@pytest.mark.parametrize("name", STREAMS)
def test_unknown_frame_field_does_not_change_the_message(name):
    """A frame with an unknown field is read field by field, with the same result."""
    frames = [json.loads(line[6:]) for line in STREAMS[name].split(b"\n\n") if line and b"[DONE]" not in line]
    odd = stream(sse(*({**frame, "brand_new": 1.10} for frame in frames)))
    plain = stream(STREAMS[name])

    assert [c.message for c in odd.choices] == [c.message for c in plain.choices]
    assert [c.extra for c in odd.choices] == [c.extra for c in plain.choices]
    assert json.loads(odd.extra) == {**json.loads(plain.extra), "brand_new": 1.10}


def test_padding_is_dropped():
    assert "obfuscation" not in stream(STREAMS["padded"]).extra


def test_empty_frames_are_ignored():
    assert stream(sse(FIRST, "", text("Hi"), " ", chunk({}, "stop"))).text == "Hi"


def test_first_frame_may_be_empty():
    azure = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{"index": 0}]}
    data = sse(azure, chunk(None), FIRST, text("Hi"), chunk({}, "stop"))
    decoder = ChatDecoder(target())
    events = decoder.feed(data)
    response = decoder.finish()[-1].response

    assert events[0] == MessageStart("chatcmpl-1", "gpt-x")
    assert response.message.blocks == (Text("Hi"),)
    assert json.loads(response.extra)["prompt_filter_results"] == [{"index": 0}]


def test_unknown_fields_keep_last_value_that_is_not_null():
    frames = (
        {**FIRST, "system_fingerprint": None, "service_tier": "auto"},
        {**text("a"), "service_tier": None, "created": 1},
        {**text("b"), "service_tier": "default", "created": 2},
        {**text("c"), "service_tier": "default", "created": 3},
        {**text("d"), "service_tier": None, "created": 4, "novel": {"a": 1}},
        {**chunk({}, "stop"), "novel": {"b": 2}, "created": 5},
    )
    extra = json.loads(stream(sse(*frames)).extra)

    assert extra["service_tier"] == "default"
    assert extra["system_fingerprint"] == "fp_1"
    assert extra["novel"] == {"a": 1, "b": 2}
    assert extra["created"] == 5


def test_created_of_last_frame_counts():
    frames = ({**FIRST, "created": 1}, {**text("a"), "created": 2}, {**text("b"), "created": 3})

    assert stream(sse(*frames)).field("created") == 3


def test_null_logprobs_are_stored_from_any_frame():
    bare = {**HEAD, "system_fingerprint": "fp_1", "choices": [{"index": 0, "delta": {"content": "a"}}]}

    assert stream(sse(bare, bare)).choices[0].extra == ""
    assert stream(sse(bare, text("b"))).choices[0].extra == '{"logprobs":null}'


def test_first_id_counts_when_each_frame_has_one():
    frames = [
        {**FIRST, "id": "a"},
        *({**text(piece), "id": piece} for piece in "xyz"),
        {**chunk({}, "stop"), "id": "b"},
    ]

    assert (stream(sse(*frames)).id, stream(sse(*frames)).text) == ("a", "xyz")


def test_unknown_fields_stay_on_message_and_choice():
    data = sse(
        FIRST,
        chunk({"content": "a", "channel": "final", "executed_tools": [{"index": 0, "arguments": "q"}]}),
        chunk({"content": "b", "executed_tools": [{"index": 0, "output": 1.10}, {"index": 1, "type": "search"}]}),
        {
            **chunk({}, "stop"),
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "native_finish_reason": "end"}],
        },
    )
    response = stream(data.replace(b'"output": 1.1}', b'"output": 1.10}'))

    assert '"output":1.10' in response.message.extra
    assert json.loads(response.message.extra)["executed_tools"] == [
        {"index": 0, "arguments": "q", "output": 1.1},
        {"index": 1, "type": "search"},
    ]
    assert json.loads(response.message.extra)["channel"] == "final"
    assert json.loads(response.choices[0].extra)["native_finish_reason"] == "end"


def test_logprobs_of_all_frames_are_joined():
    extra = stream(STREAMS["log probabilities"]).choices[0].extra

    assert json.loads(extra)["logprobs"] == {
        "content": [
            {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []},
            {"token": "b", "logprob": -1, "bytes": [98], "top_logprobs": []},
        ],
        "refusal": None,
    }


def test_choices_are_separate():
    response = stream(STREAMS["several choices"])

    assert [(c.index, c.text, c.finish_reason) for c in response.choices] == [(0, "one", "length"), (1, "two", "stop")]


def test_choice_index_may_be_string_or_missing():
    indexes = ("1", None, -1, 0)
    response = stream(sse(*(chunk({"content": text}, index=at) for text, at in zip("abcd", indexes, strict=True))))

    assert [(c.index, c.text) for c in response.choices] == [(0, "bcd"), (1, "a")]


def test_message_that_repeats_the_delta_is_ignored():
    deltas = ({"role": "assistant"}, {"content": "Hel"}, {"content": "lo"}, {})
    frames = []
    for delta, so_far in zip(deltas, ("", "Hel", "Hello", "Hello"), strict=True):
        copy = {"role": "assistant", "content": so_far, "graph_data": {"sources": [so_far]}}
        choice = {"index": 0, "delta": delta, "message": copy, "text": so_far, "logprobs": None}
        frames.append({**HEAD, "choices": [{**choice, "finish_reason": None if delta else "stop"}]})
    response = stream(sse(*frames))

    assert response.message.blocks == (Text("Hello"),)
    assert json.loads(response.message.extra)["graph_data"] == {"sources": ["Hello"]}
    assert json.loads(response.choices[0].extra) == {"logprobs": None}


def test_frame_with_message_is_read_as_delta():
    frame = {**HEAD, "choices": [{"index": 0, "message": assistant("Hi"), "finish_reason": "stop"}]}

    assert stream(sse(frame)).message.blocks == (Text("Hi"),)


# --- refusals, audio, images, citations --- ----------------------------------------------------------------------------


@pytest.mark.parametrize("response", [stream(STREAMS["refusal"]), whole(WHOLE["refusal"])], ids=["sse", "json"])
def test_refusal_is_a_block_and_content_filter(response):
    assert response.message.blocks == (Refusal("I will not."),)
    assert (response.message.stop_reason, response.message.raw_stop_reason) == ("content_filter", "stop")
    assert back(response) == assistant(None, refusal="I will not.")


def test_audio_has_id_transcript_and_expiry():
    decoder = ChatDecoder(target(), audio_format="pcm16")
    events = [*decoder.feed(STREAMS["speech"]), *decoder.finish()]
    response = events[-1].response
    deltas = [e.delta for e in events if isinstance(e, ContentDelta)]

    assert response.message.blocks == (
        Audio(data="AAAABBBB", mime="audio/pcm16", transcript="Hello", id="audio_1", expires_at=1700003600),
    )
    assert deltas == [TranscriptDelta("Hel"), TranscriptDelta("lo"), AudioDelta("AAAA"), AudioDelta("BBBB")]
    assert back(response)["audio"] == {
        "id": "audio_1",
        "data": "AAAABBBB",
        "transcript": "Hello",
        "expires_at": 1700003600,
    }


@pytest.mark.parametrize(
    "audio", [None, {"id": "a", "data": "", "transcript": None, "speed": 1.5}, {"id": "", "expires_at": 0}]
)
def test_unusual_audio_is_written_back(audio):
    assert back(whole(body(assistant("Hi", audio=audio)))) == assistant("Hi", audio=audio)


def test_image_url_with_parameters_is_written_back():
    url = "data:image/png;charset=x;base64,AAAA"
    reply = whole(body(assistant(content="", images=[{"type": "image_url", "image_url": {"url": url}}])))

    assert reply.message.blocks == (Image(url=url),)
    assert back(reply)["images"][0]["image_url"]["url"] == url


def test_images_are_blocks():
    images = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}, "index": 0},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
        {"type": "hologram", "data": 1},
    ]
    response = whole(body(assistant("Hi", images=images)))

    assert [type(b) for b in response.message.blocks] == [Text, Image, Image, Opaque]
    assert response.choices[0].images[0].data == "AAAA"
    assert response.choices[0].images[1].url == "https://a.example/b.png"
    assert back(response) == assistant("Hi", images=images)
    assert back(stream(sse(FIRST, chunk({"images": images}), chunk({}, "stop"))))["images"] == images


def test_annotations_become_citations_and_stay_on_message():
    other = {"type": "file", "file": {"hash": "x"}}
    message = assistant("Hello.", annotations=[ANNOTATION, other])
    response = whole(body(message))

    assert response.choices[0].citations == [UrlCitation("https://a.example", "A", None, 0, 5)]
    assert back(response) == message


def test_streamed_annotations_around_text_become_citations():
    later = {"type": "url_citation", "url_citation": {"url": "https://b.example", "content": "It rains."}}
    data = sse(
        FIRST, chunk({"annotations": [ANNOTATION]}), text("Hello."), chunk({"annotations": [later]}), chunk({}, "stop")
    )
    response = stream(data)

    assert [c.url for c in response.choices[0].citations] == ["https://a.example", "https://b.example"]
    assert response.choices[0].citations[1].cited_text == "It rains."
    assert back(response)["annotations"] == [ANNOTATION, later]


def test_annotations_with_calls_are_citations_of_the_text():
    """The calls of the same message end the text, but the text keeps its citations."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    response = whole(body(assistant("Hello.", annotations=[ANNOTATION], tool_calls=[call])))

    assert [c.url for c in response.choices[0].content[0].citations] == ["https://a.example"]


def test_changed_id_and_model_are_one_loss_each():
    """The first id and model count; the change is a loss, however often it is repeated."""
    other = {"id": "other", "model": "other"}
    response = stream(sse(FIRST, text("a", **other), text("b", **other), chunk({}, "stop", **other)))

    assert [(loss.kind, str(loss.location)) for loss in response.losses] == [
        ("changed-field", "id"),
        ("changed-field", "model"),
    ]
    assert response.id != "other"


def test_late_annotations_are_a_loss():
    """Their text has ended, so they stay in the extra fields of the message."""
    response = stream(sse(FIRST, text("Hello."), chunk({}, "stop"), chunk({"annotations": [ANNOTATION]})))

    assert response.choices[0].citations == []
    assert [loss.kind for loss in response.losses] == ["late-citations"]
    assert back(response)["annotations"] == [ANNOTATION]


def test_sources_next_to_choices_become_citations():
    sources = {
        "citations": ["https://a.example", "https://b.example"],
        "search_results": [
            {"url": "https://b.example", "title": "B", "snippet": "It rains."},
            {"url": "https://c.example", "title": "C"},
            {"title": "no address"},
        ],
    }
    from_stream = stream(sse(FIRST, text("Hi [1]", citations=["old"]), chunk({}, "stop", **sources)))

    for response in (whole(body(assistant("Hi [1]"), **sources)), from_stream):
        assert response.choices[0].citations == [
            UrlCitation("https://a.example"),
            UrlCitation("https://b.example", "B", "It rains."),
            UrlCitation("https://c.example", "C"),
        ]
        assert response.field("citations") == sources["citations"]
        assert response.field("search_results") == sources["search_results"]
