"""One pipeline carries chat, embed, count_tokens and models."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from client.handlers import FakeClock, make_request
from scripted import ROW, chat
from tenuto import AsyncClient, Provider
from tenuto.core.events import ContentDelta, TextDelta
from tenuto.core.messages import Usage
from tenuto.errors import BadRequest, ConnectionFailed, LimitReached, TenutoError, TimedOut, UnsupportedModel
from tenuto.middleware import (
    OperationCall,
    OperationDone,
    budget,
    cache,
    compose,
    fallback,
    handles,
    logger,
    rate_limit,
    retry,
    timeout,
)
from tenuto.testing import ScriptedResponse, ScriptedTransport

COUNTER = Provider("counter", "anthropic-messages", "https://counter.test/v1")
VECTORS = {
    "data": [{"index": 0, "embedding": [0.5]}],
    "model": "e-1",
    "usage": {"prompt_tokens": 2, "total_tokens": 2},
}
OPERATIONS = {
    "chat": (lambda ai: ai.chat("mine/m", "Hi"), chat()),
    "embed": (lambda ai: ai.embed("mine/e", "Hi"), VECTORS),
    "count_tokens": (lambda ai: ai.count_tokens("counter/c", "Hi"), {"input_tokens": 7}),
    "models": (lambda ai: ai.models("mine"), {"data": [{"id": "a"}, {"id": "b"}]}),
}
EVERY_OPERATION = pytest.mark.parametrize("operation", OPERATIONS)


def run(act, *script, middleware):
    """Return the result or the error of a call, and the number of HTTP requests."""
    transport = ScriptedTransport(*script)

    async def main():
        keys = {"mine": "k", "counter": "k", "openai": "k"}
        async with AsyncClient(providers=[ROW, COUNTER], keys=keys, transport=transport, middleware=middleware) as ai:
            return await act(ai)

    try:
        return asyncio.run(main()), len(transport.requests)
    except TenutoError as error:
        return error, len(transport.requests)


@EVERY_OPERATION
def test_logger_logs_every_operation(operation):
    entries = []
    act, body = OPERATIONS[operation]
    run(act, body, middleware=[logger(entries.append)])

    provider, model = {"count_tokens": ("counter", "c"), "models": ("mine", ""), "embed": ("mine", "e")}.get(
        operation, ("mine", "m")
    )
    usage = {
        "chat": Usage(input_tokens=3, output_tokens=2, reported_total=5),
        "embed": Usage(input_tokens=2, output_tokens=0),
    }
    [entry] = entries
    assert (entry.operation, entry.provider, entry.model, entry.status) == (operation, provider, model, "ok")
    assert entry.usage == usage.get(operation)


@EVERY_OPERATION
def test_logger_logs_error_of_every_operation(operation):
    entries = []
    error, _ = run(OPERATIONS[operation][0], ScriptedResponse({}, 400), middleware=[logger(entries.append)])

    assert isinstance(error, BadRequest)
    assert [(entry.operation, entry.status) for entry in entries] == [(operation, "error")]


@EVERY_OPERATION
def test_retry_repeats_every_operation(operation):
    clock = FakeClock()
    act, body = OPERATIONS[operation]
    middleware = [retry(2, sleep=clock.sleep, random=lambda: 1.0)]

    result, requests = run(act, ScriptedResponse({}, 503), ScriptedResponse({}, 503), body, middleware=middleware)

    assert not isinstance(result, TenutoError)
    assert (requests, clock.slept) == (3, [1.0, 2.0])


@EVERY_OPERATION
def test_last_error_of_retry_has_a_note(operation):
    middleware = [retry(1, sleep=FakeClock().sleep)]
    error, requests = run(
        OPERATIONS[operation][0], ScriptedResponse({}, 503), ScriptedResponse({}, 400), middleware=middleware
    )

    assert (requests, error.__notes__) == (2, ["gave up after 2 attempts"])


@EVERY_OPERATION
def test_spent_budget_refuses_every_operation(operation):
    limit = budget(tokens=5)
    run(OPERATIONS["chat"][0], chat(), middleware=[limit])
    error, requests = run(OPERATIONS[operation][0], middleware=[limit])

    assert (type(error), requests, limit.remaining_tokens) == (LimitReached, 0, 0)


def test_budget_counts_the_tokens_of_embeddings():
    limit = budget(tokens=100)
    for operation in ("embed", "count_tokens", "models"):
        act, body = OPERATIONS[operation]
        run(act, body, middleware=[limit])

    assert (limit.tokens, limit.unknown) == (2, 0)


def test_budget_in_usd_refuses_embeddings_without_price():
    error, requests = run(OPERATIONS["embed"][0], middleware=[budget(usd=1)])
    result, _ = run(OPERATIONS["embed"][0], VECTORS, middleware=[budget(usd=1, unpriced="allow")])

    assert (type(error), requests, result.model) == (UnsupportedModel, 0, "e-1")


@pytest.mark.parametrize("operation", ["count_tokens", "models"])
def test_budget_in_usd_allows_free_operations(operation):
    limit = budget(usd=1)
    act, body = OPERATIONS[operation]
    result, _ = run(act, body, middleware=[limit])

    assert not isinstance(result, TenutoError)
    assert (limit.spent, limit.unknown) == (Decimal(0), 0)


@EVERY_OPERATION
def test_rate_limit_counts_every_operation(operation):
    clock = FakeClock()
    limit = rate_limit(1, per=10.0, clock=clock, sleep=clock.sleep)
    act, body = OPERATIONS[operation]
    for _ in range(2):
        run(act, body, middleware=[limit])

    assert clock.now == 10


@EVERY_OPERATION
def test_timeout_ends_every_operation(operation):
    @handles(operation)
    async def wait(request, next):
        await asyncio.get_running_loop().create_future()
        yield

    error, requests = run(OPERATIONS[operation][0], middleware=[timeout(1e-6), wait])

    assert (type(error), error.provider, requests) == (
        TimedOut,
        "counter" if operation == "count_tokens" else "mine",
        0,
    )


@pytest.mark.parametrize(("operation", "requests"), [("chat", 1), ("embed", 1), ("count_tokens", 2), ("models", 2)])
def test_cache_answers_chats_and_embeddings(operation, requests):
    stored = cache()
    act, body = OPERATIONS[operation]
    first, sent = run(act, body, middleware=[stored])
    second, sent_again = run(act, body, middleware=[stored])

    assert sent + sent_again == requests
    assert getattr(second, "response", second) == getattr(first, "response", first)


def test_cached_embedding_is_not_used_for_other_texts():
    stored = cache()
    run(OPERATIONS["embed"][0], VECTORS, middleware=[stored])

    for act in (lambda ai: ai.embed("mine/e", "Ho"), lambda ai: ai.embed("mine/e", "Hi", dimensions=1)):
        assert run(act, VECTORS, middleware=[stored])[1] == 1


@pytest.mark.parametrize("operation", ["embed", "count_tokens", "models"])
def test_chat_middleware_does_not_receive_other_operations(operation):
    """A function that was written for chats does not receive another kind of request."""

    async def chats_only(request, next):
        raise AssertionError(request)
        yield

    act, body = OPERATIONS[operation]
    result, _ = run(act, body, middleware=[chats_only, fallback(["openai/gpt-5"])])

    assert not isinstance(result, TenutoError)


@pytest.mark.parametrize("operation", ["embed", "count_tokens", "models"])
def test_middleware_sees_request_and_result(operation):
    seen = []

    @handles("embed", "count_tokens", "models")
    async def observe(request, next):
        async for event in next(request):
            seen.append((request, event))
            yield event

    act, body = OPERATIONS[operation]
    run(act, body, middleware=[observe])

    [(call, event)] = seen
    assert (type(call), type(event), call.operation) == (OperationCall, OperationDone, operation)


def test_middleware_may_change_the_model_of_a_call():
    @handles("embed")
    async def redirect(request, next):
        async for event in next(OperationCall("embed", "openai/text-embedding-3-small", request.request)):
            yield event

    result, _ = run(OPERATIONS["embed"][0], VECTORS, middleware=[redirect])

    assert result.provider == "openai"


def test_middleware_without_result_is_an_error():
    @handles("models")
    async def silent(request, next):
        return
        yield

    error, _ = run(OPERATIONS["models"][0], middleware=[silent])

    assert "must yield the last event, OperationDone" in str(error)


def test_each_batch_of_embeddings_is_one_call():
    entries = []
    small = Provider("small", "openai-chat", "https://small.test/v1", embeddings=ROW.embeddings.__class__(batch=1))

    async def main():
        transport = ScriptedTransport(VECTORS, VECTORS)
        async with AsyncClient(providers=[small], transport=transport, middleware=[logger(entries.append)]) as ai:
            return await ai.embed("small/e", ["a", "b"])

    assert len(asyncio.run(main()).embeddings) == 2
    assert [entry.usage for entry in entries] == [Usage(input_tokens=2, output_tokens=0)] * 2


def test_closing_the_outermost_closes_the_innermost():
    closed = []

    async def handler(_):
        try:
            yield ContentDelta(0, 0, TextDelta("a"))
            yield ContentDelta(0, 0, TextDelta("b"))
        finally:
            closed.append(True)

    async def main():
        events = compose([logger(lambda entry: None), retry(2), timeout(9)], handler)(make_request(stream=True))
        first = await anext(events)
        await events.aclose()
        return first

    assert asyncio.run(main()) == ContentDelta(0, 0, TextDelta("a"))
    assert closed == [True]


@EVERY_OPERATION
@pytest.mark.parametrize(("end", "kind"), [("close", ConnectionFailed), ("deadline", TimedOut)])
def test_error_of_a_stopped_call_names_its_provider(operation, end, kind):
    """The exchange ends while a middleware waits, so that no HTTP exchange has its own deadline."""

    @handles("chat", "embed", "count_tokens", "models")
    async def wait(request, next):
        await asyncio.Event().wait()
        yield

    async def main():
        total = 0.05 if end == "deadline" else None
        async with AsyncClient(providers=[ROW, COUNTER], middleware=[wait], timeout=total) as ai:
            call = asyncio.ensure_future(OPERATIONS[operation][0](ai))
            await asyncio.sleep(0.01)
            if end == "close":
                await ai.close()
            with pytest.raises(kind) as raised:
                await asyncio.wait_for(call, 5)
            return raised.value

    error = asyncio.run(main())

    assert (error.provider, error.retryable) == ("counter" if operation == "count_tokens" else "mine", False)
