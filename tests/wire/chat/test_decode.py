"""Reading the chat dialect: text, the frames around it, and what else a message may hold."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import (
    Audio,
    Image,
    Opaque,
    Refusal,
    Text,
    ToolUse,
    UrlCitation,
)
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
    back,
    body,
    chunk,
    said,
    sse,
    stream,
    target,
    text,
    whole,
)

# --- text and the frames around it ------------------------------------------------------------------------------------


def test_text_grows_piece_by_piece_and_the_rest_stands_beside():
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


def test_events_tell_of_each_part_in_turn():
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
def test_deltas_of_a_part_joined_are_the_part(name):
    decoder = ChatDecoder(target())
    events = [*decoder.feed(STREAMS[name]), *decoder.finish()]
    grown: dict[tuple[int, int], str] = {}
    for event in events:
        if isinstance(event, ContentDelta) and not isinstance(event.delta, TranscriptDelta | CitationDelta):
            key = (event.choice_index, event.part_index)
            grown[key] = grown.get(key, "") + getattr(event.delta, event.delta.__struct_fields__[0])
    done = {(e.choice_index, e.part_index): e.part for e in events if isinstance(e, ContentDone)}
    response = events[-1].response

    assert done == {(c.index, at): part for c in response.choices for at, part in enumerate(c.message.blocks)}
    for key, part in done.items():
        held = part.args if isinstance(part, ToolUse) else part.data if isinstance(part, Audio) else part.text
        assert grown.get(key, "") == held


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_where_the_bytes_are_cut_changes_nothing(name, size, ends):
    data = STREAMS[name].replace(b"\n", ends)

    cut = decode_stream(ChatDecoder(target()), [data[at : at + size] for at in range(0, len(data), size)])

    assert cut == stream(STREAMS[name])


@pytest.mark.parametrize("name", STREAMS)
def test_rare_spellings_of_a_frame_are_read_as_the_common_ones(name):
    """An unknown field sends every frame the long way round; it says the same."""
    frames = [json.loads(line[6:]) for line in STREAMS[name].split(b"\n\n") if line and b"[DONE]" not in line]
    odd = stream(sse(*({**frame, "brand_new": 1.10} for frame in frames)))
    plain = stream(STREAMS[name])

    assert [c.message for c in odd.choices] == [c.message for c in plain.choices]
    assert [c.extra for c in odd.choices] == [c.extra for c in plain.choices]
    assert json.loads(odd.extra) == {**json.loads(plain.extra), "brand_new": 1.10}


def test_padding_is_not_kept():
    assert "obfuscation" not in stream(STREAMS["padded"]).extra


def test_empty_frames_say_nothing():
    assert stream(sse(FIRST, "", text("Hi"), " ", chunk({}, "stop"))).text == "Hi"


def test_the_first_frame_may_be_empty_of_everything():
    azure = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{"index": 0}]}
    data = sse(azure, chunk(None), FIRST, text("Hi"), chunk({}, "stop"))
    decoder = ChatDecoder(target())
    events = decoder.feed(data)
    response = decoder.finish()[-1].response

    assert events[0] == MessageStart("chatcmpl-1", "gpt-x")
    assert response.message.blocks == (Text("Hi"),)
    assert json.loads(response.extra)["prompt_filter_results"] == [{"index": 0}]


def test_later_values_of_unknown_fields_count_and_null_never_replaces_one():
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


def test_the_last_frame_counts_even_if_it_is_like_all_others():
    frames = ({**FIRST, "created": 1}, {**text("a"), "created": 2}, {**text("b"), "created": 3})

    assert stream(sse(*frames)).field("created") == 3


def test_a_null_beside_the_delta_is_kept_whenever_it_first_comes():
    bare = {**HEAD, "system_fingerprint": "fp_1", "choices": [{"index": 0, "delta": {"content": "a"}}]}

    assert stream(sse(bare, bare)).choices[0].extra == ""
    assert stream(sse(bare, text("b"))).choices[0].extra == '{"logprobs":null}'


def test_an_id_for_every_frame_is_taken_once():
    frames = [
        {**FIRST, "id": "a"},
        *({**text(piece), "id": piece} for piece in "xyz"),
        {**chunk({}, "stop"), "id": "b"},
    ]

    assert (stream(sse(*frames)).id, stream(sse(*frames)).text) == ("a", "xyz")


def test_unknown_delta_fields_stay_on_the_message_and_choice_fields_on_the_choice():
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


def test_log_probabilities_go_on_from_frame_to_frame():
    extra = stream(STREAMS["log probabilities"]).choices[0].extra

    assert json.loads(extra)["logprobs"] == {
        "content": [
            {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []},
            {"token": "b", "logprob": -1, "bytes": [98], "top_logprobs": []},
        ],
        "refusal": None,
    }


def test_several_choices_are_kept_apart():
    response = stream(STREAMS["several choices"])

    assert [(c.index, c.text, c.finish_reason) for c in response.choices] == [(0, "one", "length"), (1, "two", "stop")]


def test_a_choice_may_name_its_place_as_text_or_not_at_all():
    places = ("1", None, -1, 0)
    response = stream(sse(*(chunk({"content": text}, index=at) for text, at in zip("abcd", places, strict=True))))

    assert [(c.index, c.text) for c in response.choices] == [(0, "bcd"), (1, "a")]


def test_a_message_that_repeats_the_delta_is_not_read_twice():
    deltas = ({"role": "assistant"}, {"content": "Hel"}, {"content": "lo"}, {})
    frames = []
    for delta, so_far in zip(deltas, ("", "Hel", "Hello", "Hello"), strict=True):
        repeated = {"role": "assistant", "content": so_far, "graph_data": {"sources": [so_far]}}
        choice = {"index": 0, "delta": delta, "message": repeated, "text": so_far, "logprobs": None}
        frames.append({**HEAD, "choices": [{**choice, "finish_reason": None if delta else "stop"}]})
    response = stream(sse(*frames))

    assert response.message.blocks == (Text("Hello"),)
    assert json.loads(response.message.extra)["graph_data"] == {"sources": ["Hello"]}
    assert json.loads(response.choices[0].extra) == {"logprobs": None}


def test_a_frame_with_a_message_only_is_read_as_a_delta():
    frame = {**HEAD, "choices": [{"index": 0, "message": said("Hi"), "finish_reason": "stop"}]}

    assert stream(sse(frame)).message.blocks == (Text("Hi"),)


# --- refusals, speech, pictures, citations ----------------------------------------------------------------------------


@pytest.mark.parametrize("response", [stream(STREAMS["refusal"]), whole(WHOLE["refusal"])], ids=["sse", "json"])
def test_a_refusal_is_a_block_and_counts_as_filtered(response):
    assert response.message.blocks == (Refusal("I will not."),)
    assert (response.message.stop_reason, response.message.raw_stop_reason) == ("content_filter", "stop")
    assert back(response) == said(None, refusal="I will not.")


def test_speech_has_an_id_words_and_an_expiry():
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
def test_odd_speech_goes_back_as_it_came(audio):
    assert back(whole(body(said("Hi", audio=audio)))) == said("Hi", audio=audio)


def test_pictures_are_blocks():
    images = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}, "index": 0},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
        {"type": "hologram", "data": 1},
    ]
    response = whole(body(said("Hi", images=images)))

    assert [type(b) for b in response.message.blocks] == [Text, Image, Image, Opaque]
    assert response.choices[0].images[0].data == "AAAA"
    assert response.choices[0].images[1].url == "https://a.example/b.png"
    assert back(response) == said("Hi", images=images)
    assert back(stream(sse(FIRST, chunk({"images": images}), chunk({}, "stop"))))["images"] == images


def test_annotations_become_citations_and_stay_on_the_message():
    other = {"type": "file", "file": {"hash": "x"}}
    message = said("Hello.", annotations=[ANNOTATION, other])
    response = whole(body(message))

    assert response.choices[0].citations == [UrlCitation("https://a.example", "A", None, 0, 5)]
    assert back(response) == message


def test_streamed_annotations_are_collected_before_and_after_the_text():
    later = {"type": "url_citation", "url_citation": {"url": "https://b.example", "content": "It rains."}}
    data = sse(
        FIRST, chunk({"annotations": [ANNOTATION]}), text("Hello."), chunk({"annotations": [later]}), chunk({}, "stop")
    )
    response = stream(data)

    assert [c.url for c in response.choices[0].citations] == ["https://a.example", "https://b.example"]
    assert response.choices[0].citations[1].cited_text == "It rains."
    assert back(response)["annotations"] == [ANNOTATION, later]


def test_annotations_beside_calls_are_citations_of_the_text():
    """What ends the text in the same message does not cut them off, and no text is given another's."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    response = whole(body(said("Hello.", annotations=[ANNOTATION], tool_calls=[call])))

    assert [c.url for c in response.choices[0].content[0].citations] == ["https://a.example"]


def test_a_reply_that_changes_its_name_is_told_once():
    """The first id and model count; the change is a loss, however often it is repeated."""
    other = {"id": "other", "model": "other"}
    response = stream(sse(FIRST, text("a", **other), text("b", **other), chunk({}, "stop", **other)))

    assert [(loss.kind, loss.place) for loss in response.losses] == [
        ("changed-field", "id"),
        ("changed-field", "model"),
    ]
    assert response.id != "other"


def test_annotations_after_their_text_are_a_loss():
    """The text is done and told; they stay beside it, and it is said."""
    response = stream(sse(FIRST, text("Hello."), chunk({}, "stop"), chunk({"annotations": [ANNOTATION]})))

    assert response.choices[0].citations == []
    assert [loss.kind for loss in response.losses] == ["late-citations"]
    assert back(response)["annotations"] == [ANNOTATION]


def test_sources_beside_the_choices_become_citations_and_stay_beside():
    sources = {
        "citations": ["https://a.example", "https://b.example"],
        "search_results": [
            {"url": "https://b.example", "title": "B", "snippet": "It rains."},
            {"url": "https://c.example", "title": "C"},
            {"title": "no address"},
        ],
    }
    streamed = stream(sse(FIRST, text("Hi [1]", citations=["old"]), chunk({}, "stop", **sources)))

    for response in (whole(body(said("Hi [1]"), **sources)), streamed):
        assert response.choices[0].citations == [
            UrlCitation("https://a.example"),
            UrlCitation("https://b.example", "B", "It rains."),
            UrlCitation("https://c.example", "C"),
        ]
        assert response.field("citations") == sources["citations"]
        assert response.field("search_results") == sources["search_results"]
