"""Each field of a reply or a request is in the result or in its losses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

import tenuto
from tenuto import catalog
from tenuto.core.blocks import Document, Image, Text, ToolUse
from tenuto.core.events import MessageDelta, MessageDone
from tenuto.core.messages import AssistantMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Dialect, Target, WireRequest
from tenuto.core.request import ChatRequest, Thinking
from tenuto.core.response import ChatResponse
from tenuto.core.stored import dump_response
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import Decoder
from tenuto.wire.write import write_request

Frame = dict[str, Any]
START: Frame = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []},
}
TEXT: Frame = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
CALL: Frame = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {"here": "already"}},
}
STOP: Frame = {"type": "content_block_stop", "index": 0}
ENDED: Frame = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
END: Frame = {"type": "message_stop"}
CREATED: Frame = {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress"}}


def sse(*frames: Frame) -> bytes:
    return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode()


def stream(dialect: Dialect, *frames: Frame) -> ChatResponse:
    return tenuto.decode(dialect, sse(*frames), stream=True)


def decoder_of(dialect: Dialect) -> Decoder:
    return codec_for(dialect).decoder(Target(catalog.provider_or_default(None, dialect), "m", dialect))


def delta(index: int = 0, **fields: Any) -> Frame:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def item(text: str, **more: Any) -> Frame:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "i", "role": "assistant", "content": [part], **more}


def done(of: Frame) -> Frame:
    return {"type": "response.output_item.done", "output_index": 0, "item": of}


def completed(*output: Frame) -> Frame:
    reply = {"id": "r", "model": "m", "status": "completed", "output": list(output)}
    return {"type": "response.completed", "response": reply}


def chat(delta_fields: Frame, finish: str | None = None, **more: Any) -> Frame:
    choice = {"index": 0, "delta": delta_fields, "finish_reason": finish}
    return {"id": "c", "model": "m", "choices": [choice], **more}


def candidate(text: str, reason: str) -> Frame:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason}]}


def rules(found: ChatResponse | WireRequest) -> list[str]:
    return [loss.kind for loss in found.losses]


# --- replies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(6))
def test_unknown_field_of_messages_frame_is_reported(at: int) -> None:
    """Frames have fields next to the block or message that they carry."""
    frames = [START, TEXT, delta(type="text_delta", text="a"), STOP, ENDED, END]
    frames[at] = {**frames[at], "glow": "amber"}
    assert "amber" in dump_response(stream("anthropic-messages", *frames)).decode()


def test_unknown_field_of_ping_is_a_loss() -> None:
    reply = stream("anthropic-messages", START, {"type": "ping", "glow": "amber"}, {"type": "ping", "glow": "x"}, END)
    assert [(str(loss.location), loss.detail) for loss in reply.losses] == [("ping", 'glow: "amber"')]


LATE_BLOCK = ({**TEXT, "index": 1}, delta(1, type="text_delta", text="late"), {**STOP, "index": 1})
LATE_USAGE: Frame = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 9}}


@pytest.mark.parametrize(
    ("late", "lost"),
    [(LATE_BLOCK, 3), ((LATE_USAGE,), 1), ((START, *LATE_BLOCK), 4), ((END,), 0), (({"type": "ping"},), 0)],
    ids=["block", "usage", "message", "stop", "ping"],
)
def test_messages_frame_after_the_end_is_a_loss(late: tuple[Frame, ...], lost: int) -> None:
    frames = (START, TEXT, delta(type="text_delta", text="a"), STOP, ENDED, END)
    decoder = decoder_of("anthropic-messages")
    before = [event for frame in frames for event in decoder.feed(sse(frame))]
    after = [event for frame in late for event in decoder.feed(sse(frame))]
    (done,) = decoder.finish()

    assert (after, type(before[-1])) == ([], MessageDelta)
    assert isinstance(done, MessageDone)
    assert done.response.message.blocks == (Text("a"),)
    assert done.response.message.stop_reason == "stop"
    assert rules(done.response) == ["after-the-end"] * lost


LATE_ITEM = (
    {"type": "response.output_item.added", "output_index": 1, "item": {**item(""), "content": []}},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "late"},
    {"type": "response.output_item.done", "output_index": 1, "item": item("late")},
)
LATE_AUDIO: Frame = {"type": "response.audio.delta", "delta": "UklG"}


@pytest.mark.parametrize(
    ("late", "lost"),
    [(LATE_ITEM, 3), (LATE_ITEM[1:2], 1), ((LATE_AUDIO,), 1), ((completed(),), 1), (({"type": "keepalive"},), 0)],
    ids=["item", "delta", "audio", "completed", "keepalive"],
)
def test_responses_event_after_the_end_is_a_loss(late: tuple[Frame, ...], lost: int) -> None:
    decoder = decoder_of("openai-responses")
    before = [event for frame in (CREATED, done(item("a")), completed()) for event in decoder.feed(sse(frame))]
    after = [event for frame in late for event in decoder.feed(sse(frame))]
    (end,) = decoder.finish()

    assert (after, type(before[-1])) == ([], MessageDelta)
    assert isinstance(end, MessageDone)
    assert str(end.response.message) == "a"
    assert rules(end.response) == ["after-the-end"] * lost


def test_input_that_deltas_replace_is_a_loss() -> None:
    piece = delta(type="input_json_delta", partial_json='{"a":1}')
    reply = stream("anthropic-messages", START, CALL, piece, STOP, ENDED, END)
    (call,) = reply.message.blocks
    assert isinstance(call, ToolUse)
    assert call.args == '{"a":1}'
    assert rules(reply) == ["replaced-input"]
    assert "already" in reply.losses[0].detail


def test_delta_without_type_does_not_overwrite_text() -> None:
    """As an extra field it would win over the text when the block is sent back."""
    reply = stream(
        "anthropic-messages", START, TEXT, delta(type="text_delta", text="all"), delta(text="bit"), STOP, ENDED, END
    )
    assert reply.message.blocks == (Text("all"),)
    assert rules(reply) == ["unknown-delta", "misplaced-delta"]


def test_field_that_a_later_delta_replaces_is_a_loss() -> None:
    pieces = (delta(type="glow_delta", thinking="first"), delta(type="glow_delta", thinking="second"))
    reply = stream("anthropic-messages", START, TEXT, *pieces, STOP, ENDED, END)
    assert reply.message.blocks == (Text("", extra='{"thinking":"second"}'),)
    assert ("replaced-field", 'thinking: "first"') in [(loss.kind, loss.detail) for loss in reply.losses]


def test_changed_stop_reason_is_a_loss() -> None:
    again: Frame = {"type": "message_delta", "delta": {"stop_reason": "refusal"}}
    messages = stream("anthropic-messages", START, ENDED, again, END)
    chats = stream("openai-chat", chat({"content": "a"}, "stop"), chat({"content": ""}, "length"))
    geminis = stream("gemini", candidate("a", "STOP"), candidate("b", "SAFETY"))
    assert [rules(reply) for reply in (messages, chats, geminis)] == [["changed-field"]] * 3


@pytest.mark.parametrize("at", range(3))
def test_unknown_field_of_responses_event_is_reported(at: int) -> None:
    frames = [CREATED, done(item("a")), completed()]
    frames[at] = {**frames[at], "glow": "amber"}
    assert "amber" in dump_response(stream("openai-responses", *frames)).decode()


def test_item_that_differs_from_finished_one_is_a_loss() -> None:
    again = stream("openai-responses", CREATED, done(item("a")), completed(item("b", glow="amber")))
    assert again.text == "a"
    assert rules(again) == ["repeat-differs"] * 2
    assert '"b"' in again.losses[0].detail
    twice = stream("openai-responses", CREATED, done(item("a")), done(item("b")), completed())
    assert rules(twice) == ["repeat-differs"]


def test_field_only_in_added_item_is_a_loss() -> None:
    added = {"type": "response.output_item.added", "output_index": 0, "item": item("", glow="amber")}
    reply = stream("openai-responses", CREATED, added, done(item("a")), completed())
    assert [(loss.kind, loss.detail) for loss in reply.losses] == [("stream-differs", "the finished item lacks glow")]


def test_annotation_missing_in_finished_item_is_a_loss() -> None:
    position = {"output_index": 0, "content_index": 0}
    cited = {"type": "url_citation", "url": "http://a.example"}
    noted = {"type": "response.output_text.annotation.added", **position, "annotation": cited}
    piece = {"type": "response.output_text.delta", **position, "delta": "a"}
    assert rules(stream("openai-responses", CREATED, piece, noted, done(item("a")), completed())) == ["stream-differs"]
    assert rules(stream("openai-responses", CREATED, noted, completed())) == ["orphan-annotation"]


def test_second_completed_event_is_a_loss() -> None:
    assert rules(stream("openai-responses", CREATED, completed(), completed(item("late")))) == ["after-the-end"]


def test_count_missing_in_later_usage_is_a_loss() -> None:
    first = chat({"content": "a"}, usage={"prompt_tokens": 1, "cost": 3})
    assert rules(stream("openai-chat", first, chat({}, "stop", usage={"prompt_tokens": 1}))) == ["superseded-usage"]
    junk = chat({"content": "a"}, usage="junk")
    assert rules(stream("openai-chat", junk, chat({}, "stop", usage={"prompt_tokens": 1}))) == ["unreadable-usage"]


# --- requests ---------------------------------------------------------------------------------------------------------


def ask(dialect: Dialect, *messages: Any, provider: str | None = None, **more: Any) -> WireRequest:
    return tenuto.encode(dialect, ChatRequest(model="m", messages=messages, **more), provider=provider)


def test_name_and_detail_are_losses_in_messages() -> None:
    image = Image(url="http://a.example/a.png", detail="high")
    assert rules(ask("anthropic-messages", UserMessage((image,), name="ann"))) == ["unsupported-field"] * 2


def test_document_fields_are_losses_in_chat() -> None:
    document = Document(text="a", title="t", context="c", citations=True, cache="5m")
    wire = ask("openai-chat", UserMessage((document,)))
    assert rules(wire) == ["cache-hint"] + ["unsupported-field"] * 3
    named = ask("openai-chat", UserMessage((Document(data="AAAA", mime="application/pdf", title="t"),)))
    assert b'"t"' in named.body
    assert not named.losses


def test_title_of_file_id_is_a_loss_in_responses() -> None:
    found = ask("openai-responses", UserMessage((Document(file_id="f", title="t"),)))
    assert rules(found) == ["unsupported-field"]


def test_cache_hint_in_text_result_is_a_loss_in_chat() -> None:
    turn = AssistantMessage((ToolUse("c", "f", "{}"),))
    result = ToolResults((ToolResult("c", (Text("a", cache="5m"),)),))
    assert rules(ask("openai-chat", UserMessage("q"), turn, result)) == ["cache-hint"]


def test_error_flag_of_image_result_is_a_loss_in_chat() -> None:
    turn = AssistantMessage((ToolUse("c", "f", "{}"),))
    image = (Image(data="AAAA", mime="image/png"),)
    row = catalog.provider_or_default(None, "openai-chat")
    takes = replace(row, chat=replace(row.chat, images_in_results=True))

    def losses_of(*, is_error: bool) -> list[str]:
        transcript = (UserMessage("q"), turn, ToolResults((ToolResult("c", image, is_error=is_error),)))
        return rules(write_request(ChatRequest(model="m", messages=transcript), Target(takes, "m", "openai-chat")))

    assert losses_of(is_error=True) == [*losses_of(is_error=False), "unsupported-field"]


def test_raised_budget_is_a_loss() -> None:
    wire = ask("anthropic-messages", UserMessage("q"), thinking=Thinking(budget=100), max_tokens=9000)
    assert rules(wire) == ["clamped"]
    assert b'"budget_tokens":1024' in wire.body


def test_top_logprobs_without_logprobs_is_a_loss() -> None:
    assert rules(ask("openai-chat", UserMessage("q"), provider="together", top_logprobs=3)) == ["unsupported-parameter"]


def test_changed_response_id_is_a_loss() -> None:
    """The id of the last event is used, because it is the stored one."""
    renamed = {**CREATED, "response": {**CREATED["response"], "id": "other"}}
    reply = stream("openai-responses", renamed, CREATED, done(item("x")), completed(item("x")))

    assert reply.id == "r"
    assert [(loss.kind, str(loss.location)) for loss in reply.losses] == [("changed-field", "id")]


def test_unknown_field_of_progress_event_is_a_loss() -> None:
    """The finished item has all known fields of such an event."""
    progress = {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "i", "found": "gold"}
    reply = stream("openai-responses", CREATED, progress, done(item("x")), completed(item("x")))

    assert [(loss.kind, loss.detail) for loss in reply.losses] == [("unknown-field", '"gold"')]


USAGES: dict[Dialect, tuple[Frame, ...]] = {
    "anthropic-messages": (START, {**TEXT, "content_block": {"type": "text", "text": "kept"}}, STOP, {**ENDED, "usage": {"output_tokens": "N"}}, END),
    "openai-responses": (CREATED, done(item("kept")), {**completed(), "response": {"status": "completed", "usage": {"input_tokens": "N"}}}),
    "openai-chat": (chat({"content": "kept"}), chat({}, "stop", usage={"prompt_tokens": "N"})),
    "gemini": ({**candidate("kept", "STOP"), "usageMetadata": {"promptTokenCount": "N", "totalTokenCount": 5}},),
}  # fmt: skip


@pytest.mark.parametrize("odd", ['"many"', "1e999", "-1", "1.5", "[]", "true", "{}"])
@pytest.mark.parametrize("dialect", USAGES)
def test_unreadable_usage_does_not_fail_the_reply(dialect: Dialect, odd: str) -> None:
    """The count is unknown, and `raw_usage` has the provider's object."""
    body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in USAGES[dialect]).replace('"N"', odd)
    reply = tenuto.decode(dialect, body, stream=True)

    assert reply.text == "kept"
    assert odd in reply.raw_usage or "unreadable-usage" in rules(reply)


def test_items_missing_in_last_event_are_losses() -> None:
    """The items of the last event are used."""
    early = {**CREATED, "response": {**CREATED["response"], "output": [item("x"), item("gone")]}}
    reply = stream("openai-responses", early, done(item("x")), completed(item("x")))

    assert reply.text == "x"
    assert [loss.kind for loss in reply.losses] == ["stream-differs"]
