from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from decimal import Decimal

import pytest

from client.handlers import ORIGIN, USAGE, Script, make_request, make_response, reply_events, run_middleware
from tenuto.core.events import ContentDelta, MessageStart, TextDelta, UsageUpdate
from tenuto.core.messages import Origin, Usage
from tenuto.errors import ConnectionFailed, LimitReached, Unavailable, UnsupportedModel
from tenuto.middleware import budget, compose, retry

NOON = 1_794_744_000.0  # 2026-11-15
EACH = Decimal("0.0045")  # 1000 tokens in at 3, 100 out at 15 per million
START = MessageStart("msg_1", "m")


@pytest.fixture(autouse=True)
def _table(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def limited(*args, **options):
    return budget(*args, now=lambda: NOON, **options)


def test_budget_in_usd_refuses_the_next_call():
    purse, handler = limited(usd=0.009), Script(reply_events())

    assert [run_middleware(purse, make_request(), handler).error for _ in range(2)] == [None, None]
    error = run_middleware(purse, make_request(), handler).error

    assert (type(error), error.limit) == (LimitReached, "usd")
    assert "0.009 USD is spent" in str(error)
    assert len(handler.requests) == 2
    assert (purse.spent, purse.tokens, purse.remaining_usd) == (2 * EACH, 2200, 0)


def test_budget_in_tokens_refuses_the_next_call():
    purse, handler = limited(tokens=1100), Script(reply_events())

    assert run_middleware(purse, make_request("unknown/knows"), handler).error is None
    error = run_middleware(purse, make_request("unknown/knows"), handler).error

    assert (type(error), error.limit) == (LimitReached, "tokens")
    assert (purse.tokens, purse.remaining_tokens, purse.remaining_usd) == (1100, 0, None)
    assert "1100 so far" in str(error)


def test_budget_reports_spent_and_remaining():
    purse = limited(usd="1", tokens=5000)
    run_middleware(purse, make_request(), Script(reply_events()))

    assert (purse.remaining_usd, purse.remaining_tokens, purse.unknown) == (1 - EACH, 3900, 0)
    assert repr(purse) == "budget(usd=1, tokens=5000, spent=0.0045, used=1100)"


def test_budget_adds_costs_without_rounding():
    assert limited(usd=0.1).remaining_usd == Decimal("0.1")


# --- unknown costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["anthropic/claude-unheard-of", "unknown/m", "bare"])
def test_budget_in_usd_refuses_a_model_without_price(model):
    handler = Script(reply_events())
    error = run_middleware(limited(usd=1), make_request(model), handler).error

    assert (type(error), error.model) == (UnsupportedModel, model)
    assert "price is unknown" in error.reason
    assert handler.requests == []


def test_budget_uses_the_price_of_an_alias():
    handler = Script(reply_events(origin=Origin("google", "gemini", "gemini-4-carbon")))
    purse = limited(usd=1)

    assert run_middleware(purse, make_request("gemini/gemini-4-carbon"), handler).error is None
    assert purse.spent == Decimal("0.003")


def test_budget_may_allow_models_without_price():
    purse, stranger = limited(usd=1, unpriced="allow"), Origin("unknown", "openai-chat", "m")
    handler = Script(reply_events(origin=stranger))
    for _ in range(2):
        assert run_middleware(purse, make_request("unknown/m"), handler).error is None

    assert (purse.spent, purse.tokens, purse.unknown) == (0, 2200, 2)


@pytest.mark.parametrize(
    "limit, fields, message",
    [
        ({"usd": 1}, {"usage": None}, "reported no usage"),
        ({"tokens": 9999}, {"usage": None}, "reported no usage"),
        ({"usd": 1}, {"usage": Usage(input_tokens=5)}, "unknown cost"),
        ({"usd": 1}, {"origin": Origin("unknown", "openai-chat", "m")}, "unknown/m sent a reply of unknown cost"),
    ],
    ids=["no usage", "no tokens", "half a usage", "another model answered"],
)
def test_budget_refuses_calls_after_an_unknown_cost(limit, fields, message):
    """The reply of unknown cost is returned, because it is paid for."""
    purse, handler = limited(**limit), Script(reply_events(**fields))

    assert run_middleware(purse, make_request(), handler).text == "Hi"
    error = run_middleware(purse, make_request(), handler).error

    assert (type(error), error.limit) == (LimitReached, next(iter(limit)))
    assert message in str(error)
    assert 'unpriced="allow"' in str(error)
    assert purse.unknown == 1


def test_budget_in_tokens_ignores_unknown_cost():
    purse = limited(tokens=9999)
    for _ in range(2):
        stranger = Script(reply_events(origin=Origin("unknown", "openai-chat", "m")))
        assert run_middleware(purse, make_request("unknown/m"), stranger).error is None

    assert (purse.tokens, purse.unknown) == (2200, 0)


# --- which model and attempt -----------------------------------------------------------------------------------------


def test_budget_uses_the_model_that_answered():
    """An inner fallback can send the request to another model than the one it names."""
    purse = limited(usd=1)
    dear = Origin("anthropic", "anthropic-messages", "claude-opus-4-6")
    run_middleware(purse, make_request(), Script(reply_events(origin=dear)))

    assert purse.spent == Decimal("0.0075")


def test_budget_counts_a_failed_attempt():
    purse, error = limited(usd=1), ConnectionFailed("cut")
    error.partial = make_response(usage=Usage(input_tokens=1000), origin=ORIGIN)
    handler = Script([START, UsageUpdate(Usage(input_tokens=10)), error], reply_events())

    async def run():
        stack = compose([retry(sleep=skip_sleep), purse], handler)
        return [event async for event in stack(make_request())]

    asyncio.run(run())

    assert len(handler.requests) == 2
    assert (purse.spent, purse.tokens, purse.unknown) == (EACH + Decimal("0.003"), 2100, 0)


async def skip_sleep(seconds):
    pass


def test_budget_counts_repeated_usage_once():
    purse, (start, done) = limited(usd=1), reply_events()
    run_middleware(
        purse, make_request(), Script([start, UsageUpdate(Usage(input_tokens=10)), UsageUpdate(USAGE), done])
    )

    assert (purse.spent, purse.tokens) == (EACH, 1100)


def test_attempt_without_usage_costs_nothing():
    purse = limited(usd=1)
    assert isinstance(run_middleware(purse, make_request(), Script([Unavailable("x")])).error, Unavailable)

    assert (purse.spent, purse.unknown) == (0, 0)
    assert run_middleware(purse, make_request(), Script(reply_events())).error is None


def test_abandoned_stream_costs_its_reported_usage():
    purse = limited(usd=1)
    handler = Script([START, UsageUpdate(Usage(input_tokens=2000)), ContentDelta(0, 0, TextDelta("Hi"))])

    async def run():
        async with aclosing(purse(make_request(stream=True), handler)) as events:
            for _ in range(3):
                await anext(events)

    asyncio.run(run())

    assert (purse.spent, handler.closed) == (Decimal("0.006"), 1)


def test_reply_is_counted_before_its_last_event_is_returned():
    """A caller that stops at the last event does not resume the iterator."""
    purse = limited(usd=1)

    async def run():
        async with aclosing(purse(make_request(), Script(reply_events()))) as events:
            await anext(events)
            await anext(events)
            assert purse.spent == EACH

    asyncio.run(run())
    assert purse.spent == EACH


@pytest.mark.parametrize("options", [{}, {"usd": 1, "unpriced": "maybe"}])
def test_invalid_budget_is_refused(options):
    with pytest.raises(ValueError, match=r"takes usd, tokens or both|got 'maybe'"):
        budget(**options)
