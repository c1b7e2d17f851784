"""What a message becomes, what a reply contains, what middleware receives, how a call ends."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings

import pytest

from scripted import ROW, chat, frames
from tenuto import (
    AsyncClient,
    ChatRequest,
    LLMError,
    TenutoError,
    Timeouts,
    ToolDefinition,
    Transcript,
    UserMessage,
    user,
)
from tenuto.core.events import ContentDelta, ErrorEvent, MessageDone, MessageStart
from tenuto.errors import (
    AuthenticationFailed,
    ClosedError,
    ConnectionFailed,
    IncompleteResponse,
    ProtocolError,
    RateLimited,
    TimedOut,
    TranscriptError,
    UnknownProvider,
)
from tenuto.testing import ScriptedResponse, ScriptedTransport


def run(act, *script, **options):
    """Run a coroutine function with a client of a scripted transport; return its result and the transport."""
    transport = ScriptedTransport(*script)

    async def main():
        options.setdefault("providers", [ROW])
        options.setdefault("middleware", [])
        async with AsyncClient(transport=transport, **options) as ai:
            return await act(ai)

    found = asyncio.run(main())
    assert 0 == transport.open
    return found, transport


def test_chat_sends_one_request():
    reply, transport = run(lambda ai: ai.chat("mine/m", "Hi", temperature=0.5), chat())

    assert ("hello", "stop", "mine", "m-1") == (reply.text, reply.stop_reason, reply.provider, reply.model)
    assert (3, 2) == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert "https://mine.test/v1/chat/completions" == transport.requests[0].url
    sent = json.loads(transport.requests[0].body)
    assert [{"role": "user", "content": "Hi"}] == sent["messages"]
    assert ("m", 0.5, None) == (sent["model"], sent["temperature"], sent.get("stream") or None)
    assert "identity" == transport.requests[0].headers["accept-encoding"]


def test_transcript_of_reply_continues_the_conversation():
    async def talk(ai):
        reply = await ai.chat("mine/m", "Hi", system="Be brief.")
        return await ai.chat("mine/m", reply.transcript + "And you?")

    reply, transport = run(talk, chat("hello"), chat("fine"))

    roles = [message["role"] for message in json.loads(transport.requests[1].body)["messages"]]
    assert ["system", "user", "assistant", "user"] == roles
    assert isinstance(reply.transcript, Transcript)
    assert 5 == len(reply.transcript)


def test_chat_takes_a_request_or_a_dictionary():
    async def talk(ai):
        await ai.chat(ChatRequest(model="mine/m", messages=(user("Hi"),), stream=True))
        await ai.chat({"model": "mine/m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 7})
        with pytest.raises(TypeError):
            await ai.chat(ChatRequest(model="mine/m", messages=(user("Hi"),)), temperature=1)
        with pytest.raises(TypeError, match="max_tokens"):
            await ai.chat("mine/m", "Hi", max_token=7)

    _, transport = run(talk, chat(), chat())

    first, second = transport.bodies()
    assert not first.get("stream")
    assert 7 == second["max_tokens"]


def test_request_is_logged_at_debug_level(caplog):
    with caplog.at_level("DEBUG", "tenuto"):
        run(lambda ai: ai.chat("mine/m", "Hi"), chat())

    assert ["POST https://mine.test/v1/chat/completions: HTTP 200"] == caplog.messages


def test_model_without_provider_uses_the_default_provider():
    reply, _ = run(lambda ai: ai.chat("m", "Hi"), chat(), default_provider="mine")

    assert "mine" == reply.provider
    with pytest.raises(UnknownProvider, match="provider/model"):
        run(lambda ai: ai.chat("m", "Hi"))


def test_bare_model_name_goes_to_its_owner():
    """The request is sent to the vendor, with the vendor's key."""
    reply, transport = run(lambda ai: ai.chat("deepseek-v4-pro", "Hi"), chat(), keys={"mine": "k", "deepseek": "d"})

    assert "deepseek" == reply.provider
    assert "https://api.deepseek.com/chat/completions" == transport.requests[0].url
    assert "Bearer d" == transport.requests[0].headers["authorization"]


def test_open_calls_are_refused_before_sending():
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}

    async def talk(ai):
        reply = await ai.chat("mine/m", "Weather?", tools=[ToolDefinition("weather")])
        with pytest.raises(TranscriptError, match="weather"):
            await ai.chat("mine/m", reply.transcript + "And?")
        answers = [call.answer("12") for call in reply.tool_calls]
        return await ai.chat("mine/m", reply.transcript + answers)

    reply, transport = run(talk, chat(None, tool_calls=[call]), chat("12 degrees"))

    assert "12 degrees" == reply.text
    assert 2 == len(transport.requests)


def test_stream_yields_events_and_then_has_the_reply():
    async def talk(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            with pytest.raises(TenutoError, match="not ended"):
                _ = stream.reply
            events = [event async for event in stream]
        return events, stream.reply

    (events, reply), transport = run(talk, ScriptedResponse.stream(*frames("a", "b")))

    assert isinstance(events[0], MessageStart)
    assert isinstance(events[-1], MessageDone)
    assert ["a", "b"] == [event.delta.text for event in events if isinstance(event, ContentDelta)]
    assert "ab" == reply.text == events[-1].response.text
    sent = json.loads(transport.requests[0].body)
    assert (True, {"include_usage": True}) == (sent["stream"], sent["stream_options"])


def test_stream_yields_text_only_or_the_reply_only():
    async def talk(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            pieces = [piece async for piece in stream.text_deltas()]
        return pieces, await ai.stream("mine/m", "Hi").drain()

    (pieces, reply), _ = run(talk, ScriptedResponse.stream(*frames("a", "b")), ScriptedResponse.stream(*frames("c")))

    assert ["a", "b"] == pieces
    assert "c" == reply.text


def test_leaving_a_stream_closes_the_connection():
    async def talk(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            async for _ in stream:
                break
        with pytest.raises(TenutoError, match="closed"):
            async for _ in stream:
                pass

    run(talk, ScriptedResponse.stream(*frames("a", "b"), hang=True))


def test_cancelled_partial_reply_has_no_signature():
    async def talk(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            async for event in stream:
                if isinstance(event, ContentDelta):
                    return await stream.cancel()

    reply, _ = run(talk, ScriptedResponse.stream(*frames("a", "b", done=False), hang=True))

    assert "a" == reply.text
    assert reply.message.incomplete
    assert reply.transcript[-1] == reply.message


def test_stream_is_cancelled_by_another_task():
    async def talk(ai):
        stream, begun = ai.stream("mine/m", "Hi"), asyncio.Event()

        async def read():
            found = []
            async for event in stream:
                found.append(event)
                if isinstance(event, ContentDelta):
                    begun.set()
            return found

        reader = asyncio.create_task(read())
        await begun.wait()
        reply = await stream.cancel()
        return await reader, reply

    (events, reply), _ = run(talk, ScriptedResponse.stream(*frames("a", done=False), hang=True))

    assert isinstance(events[-1], ContentDelta)
    assert "a" == reply.text


def test_reader_of_cancelled_stream_gets_incomplete_reply():
    read = []

    async def ask(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            reader = asyncio.create_task(consume(stream))
            while not read:
                await asyncio.sleep(0)
            cancelled = await stream.cancel()
            return cancelled, await reader

    async def consume(stream):
        async for event in stream:
            if isinstance(event, ContentDelta):
                read.append(event)
        return stream.reply

    (cancelled, seen), _ = run(ask, ScriptedResponse.stream(*frames("a", done=False), hang=True))

    assert (seen.text, seen.message.incomplete) == ("a", True)
    assert seen == cancelled
    assert seen.transcript.messages == (UserMessage("Hi"), seen.message)


def test_unread_stream_can_be_cancelled():
    reply, transport = run(lambda ai: ai.stream("mine/m", "Hi").cancel())

    assert reply.message.incomplete
    assert [] == transport.requests


def test_cancelled_task_stays_cancelled_and_closes_the_stream():
    async def talk(ai):
        task = asyncio.create_task(ai.chat("mine/m", "Hi"))
        while not ai._transport.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(talk, ScriptedResponse(hang=True))


def test_http_error_becomes_its_typed_error():
    headers = {"x-request-id": "req_1", "retry-after": "7", "content-type": "application/json"}
    answer = ScriptedResponse({"error": {"message": "slow down", "type": "x"}}, 429, headers)

    with pytest.raises(RateLimited, match="slow down") as caught:
        run(lambda ai: ai.chat("mine/m", "Hi"), answer)

    error = caught.value
    assert ("mine", 429, "req_1", True, 7.0) == (
        error.provider, error.status, error.request_id, error.retryable, error.retry_after,
    )  # fmt: skip
    assert {"error": {"message": "slow down", "type": "x"}} == json.loads(error.raw)


def test_retry_after_date_uses_the_clock_of_the_client():
    headers = {"retry-after": "Sun, 15 Nov 2026 00:01:00 GMT"}
    midnight = 1_794_700_800.0

    for now, expected in ((midnight, 60.0), (midnight + 600, 0.0)):
        with pytest.raises(RateLimited) as caught:
            run(lambda ai: ai.chat("mine/m", "Hi"), ScriptedResponse({}, 429, headers), now=lambda now=now: now)
        assert expected == caught.value.retry_after


def test_error_in_stream_is_an_event_and_is_raised():
    bad = b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'

    async def talk(ai):
        events = []
        with pytest.raises(LLMError, match="overloaded") as caught:
            async for event in ai.stream("mine/m", "Hi"):
                events.append(event)
        return events, caught.value

    (events, error), _ = run(talk, ScriptedResponse.stream(*frames("a", done=False), bad))

    assert isinstance(events[-1], ErrorEvent)
    assert ("mine", "a") == (error.provider, error.partial.text)
    assert error.transcript.messages == (UserMessage("Hi"), error.partial.message)


def test_lost_connection_is_incomplete_response_with_partial():
    with pytest.raises(IncompleteResponse, match="interrupted") as caught:
        run(
            lambda ai: ai.stream("mine/m", "Hi").drain(),
            ScriptedResponse.stream(*frames("a", done=False), error=ConnectionFailed("reset")),
        )

    assert "a" == caught.value.partial.text
    assert caught.value.partial.message.incomplete
    assert isinstance(caught.value.__cause__, ConnectionFailed)


def test_connection_lost_after_last_event_is_ignored():
    reply, _ = run(
        lambda ai: ai.stream("mine/m", "Hi").drain(),
        ScriptedResponse.stream(*frames("a")[:-1], error=ConnectionFailed("reset")),
    )

    assert "a" == reply.text


@pytest.mark.parametrize("waits", [Timeouts(read=0.05), Timeouts(event=0.05), Timeouts(total=0.05), 0.05])
def test_silent_stream_ends_at_its_deadline(waits):
    with pytest.raises(TimedOut) as caught:
        run(
            lambda ai: ai.stream("mine/m", "Hi", timeout=waits).drain(),
            ScriptedResponse.stream(*frames("a", done=False), hang=True),
        )

    assert "a" == caught.value.partial.text


def test_wait_after_the_last_event_is_short(monkeypatch):
    monkeypatch.setattr("tenuto.client.stream.USAGE_WAIT", 0.02)

    reply, _ = run(lambda ai: ai.stream("mine/m", "Hi").drain(), ScriptedResponse.stream(*frames("a")[:-1], hang=True))

    assert "a" == reply.text


def test_last_event_ends_the_reply_while_the_connection_is_open():
    async def talk(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            async for event in stream:
                if isinstance(event, MessageDone):
                    return stream.reply

    reply, _ = run(talk, ScriptedResponse.stream(*frames("a"), hang=True))

    assert "a" == reply.text


def test_web_page_is_a_protocol_error():
    with pytest.raises(ProtocolError, match="web page"):
        run(lambda ai: ai.chat("mine/m", "Hi"), ScriptedResponse(b"<html>", 200, {"content-type": "text/html"}))


def test_empty_response_is_an_error():
    with pytest.raises(ProtocolError, match="without a body"):
        run(lambda ai: ai.chat("mine/m", "Hi"), ScriptedResponse(b"", 200))


def test_losses_of_the_request_are_on_the_reply():
    reply, _ = run(
        lambda ai: ai.chat("groq/llama-3.3-70b-versatile", "Hi", logit_bias={"1": 1.0}), chat(), keys={"groq": "k"}
    )

    assert ["logit_bias"] == [str(loss.location) for loss in reply.losses]


def test_middleware_runs_in_order_and_use_adds_innermost():
    seen = []

    def layer(name):
        async def middleware(request, following):
            seen.append(f"{name} {request.model} {request.stream}")
            async for event in following(request):
                yield event
            seen.append(f"{name} ends")

        return middleware

    async def talk(ai):
        ai.use(layer("inner"))
        return await ai.chat("m", "Hi")

    run(talk, chat(), middleware=[layer("outer")], default_provider="mine")

    assert ["outer mine/m False", "inner mine/m False", "inner ends", "outer ends"] == seen


def test_middleware_without_message_done_is_an_error():
    async def middleware(request, following):
        async for event in following(request):
            if not isinstance(event, MessageDone):
                yield event

    with pytest.raises(TenutoError, match="MessageDone"):
        run(lambda ai: ai.chat("mine/m", "Hi"), chat(), middleware=[middleware])


def test_client_retries_by_default(monkeypatch):
    async def at_once(seconds):
        return None

    monkeypatch.setattr(asyncio, "sleep", at_once)

    reply, transport = run(
        lambda ai: ai.chat("mine/m", "Hi"),
        ScriptedResponse({}, 503),
        ScriptedResponse({}, 503),
        chat(),
        middleware=None,
    )

    assert "hello" == reply.text
    assert 3 == len(transport.requests)
    with pytest.raises(LLMError):
        run(lambda ai: ai.chat("mine/m", "Hi"), ScriptedResponse({}, 503))


def test_other_operations_are_retried_by_default(monkeypatch):
    async def at_once(seconds):
        return None

    monkeypatch.setattr(asyncio, "sleep", at_once)
    vectors = {
        "model": "m",
        "data": [{"index": 0, "embedding": [0.5]}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }

    reply, _ = run(lambda ai: ai.embed("mine/e", "text"), ScriptedResponse({}, 503), vectors, middleware=None)

    assert [0.5] == list(reply.embeddings[0])
    with pytest.raises(AuthenticationFailed):
        run(lambda ai: ai.embed("mine/e", "text"), ScriptedResponse({}, 401), middleware=None)


def test_closed_client_refuses_requests():
    async def main():
        ai = AsyncClient(providers=[ROW], transport=ScriptedTransport())
        await ai.close()
        await ai.close()
        with pytest.raises(ClosedError, match="closed"):
            await ai.chat("mine/m", "Hi")

    asyncio.run(main())


def test_unclosed_client_is_a_warning():
    async def main():
        ai = AsyncClient(providers=[ROW], transport=ScriptedTransport(chat()))
        await ai.chat("mine/m", "Hi")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()

    assert ["ResourceWarning"] == [warning.category.__name__ for warning in caught]


def test_audio_is_decoded_in_the_requested_format():
    audio = {"id": "a1", "data": "AAAA", "transcript": "hi", "expires_at": 1}
    reply, _ = run(
        lambda ai: ai.chat("mine/m", "Hi", modalities=["text", "audio"], audio={"voice": "x", "format": "mp3"}),
        chat(None, audio=audio),
    )

    assert "audio/mp3" == reply.audio.mime


def test_fallback_request_is_written_for_its_provider():
    """The second attempt uses another URL and another dialect, without the tokens of the first model."""
    from tenuto.middleware import fallback

    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    claude = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [thought, {"type": "text", "text": "one"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip

    async def talk(ai):
        reply = await ai.chat("anthropic/claude-sonnet-4-5", "Hi")
        ai.use(fallback(["anthropic/claude-sonnet-4-5", "mine/m"]))
        return await ai.chat("anthropic/claude-sonnet-4-5", reply.transcript + "And?")

    reply, transport = run(talk, claude, ScriptedResponse({}, 529), chat("two"), keys={"anthropic": "k"})

    assert ("two", "mine") == (reply.text, reply.provider)
    assert [".anthropic.com", ".anthropic.com", "//mine.test/"] == [
        next(part for part in (".anthropic.com", "//mine.test/") if part in request.url)
        for request in transport.requests
    ]
    assert b"c2ln" in transport.requests[1].body
    assert b"c2ln" not in transport.requests[2].body
    assert "x-api-key" not in transport.requests[2].headers
    assert any("reasoning" in loss.kind or "signature" in loss.kind or "foreign" in loss.kind for loss in reply.losses)


def test_reply_can_be_sent_back_as_a_dictionary():
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"a": 1.10}'}}

    async def talk(ai):
        reply = await ai.chat("mine/m", "Hi")
        messages = [{"role": "user", "content": "Hi"}, reply.to_message()]
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "12"})
        return reply, await ai.chat("mine/m", messages)

    (first, second), transport = run(talk, chat(None, tool_calls=[call]), chat("12"))

    assert first.message == second.transcript[1]
    assert b'{\\"a\\": 1.10}' in transport.requests[1].body


@pytest.mark.parametrize("model, native", [("groq/openai/gpt-oss-120b", True), ("deepseek/deepseek-chat", False)])
def test_schema_is_sent_natively_or_in_the_instructions(model, native):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    async def talk(ai):
        return await ai.chat_structured(model, "Largest city of Norway?", schema)

    found, transport = run(talk, chat('{"city": "Oslo"}'), keys={"groq": "k", "deepseek": "k"})

    sent = next(iter(transport.bodies()))
    assert {"city": "Oslo"} == found.data
    assert native == ("json_schema" in str(sent.get("response_format")))
    assert native != ("Respond ONLY with valid JSON matching this schema" in str(sent["messages"]))


def test_unclosed_middleware_leaves_no_connection_open():
    async def careless(request, following):
        async for event in following(request):
            yield event

    async def talk(ai):
        async with ai.stream("mine/m", "Hi") as stream:
            async for _ in stream:
                break
        assert 0 == ai._transport.open

    run(talk, ScriptedResponse.stream(*frames("a", "b"), hang=True), middleware=[careless, careless])


def test_chat_takes_keyword_arguments():
    reply, _ = run(lambda ai: ai.chat(model="mine/m", messages="Hi", tools=None, timeout=None), chat())

    assert "hello" == reply.text
