from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from decimal import Decimal

import pytest

from client.handlers import ORIGIN, USAGE, Script, played, question, reply, response
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


def test_a_budget_in_money_is_kept():
    """The call that goes over it is the last."""
    purse, handler = limited(usd=0.009), Script(reply())

    assert [played(purse, question(), handler).error for _ in range(2)] == [None, None]
    error = played(purse, question(), handler).error

    assert (type(error), error.limit) == (LimitReached, "usd")
    assert "0.009 USD is spent" in str(error)
    assert len(handler.asked) == 2
    assert (purse.spent, purse.tokens, purse.remaining_usd) == (2 * EACH, 2200, 0)


def test_a_budget_in_tokens_is_kept():
    purse, handler = limited(tokens=1100), Script(reply())

    assert played(purse, question("nobody/knows"), handler).error is None
    error = played(purse, question("nobody/knows"), handler).error

    assert (type(error), error.limit) == (LimitReached, "tokens")
    assert (purse.tokens, purse.remaining_tokens, purse.remaining_usd) == (1100, 0, None)
    assert "1100 so far" in str(error)


def test_what_is_left_is_told():
    purse = limited(usd="1", tokens=5000)
    played(purse, question(), Script(reply()))

    assert (purse.remaining_usd, purse.remaining_tokens, purse.unknown) == (1 - EACH, 3900, 0)
    assert repr(purse) == "budget(usd=1, tokens=5000, spent=0.0045, used=1100)"


def test_money_is_counted_exactly():
    assert limited(usd=0.1).remaining_usd == Decimal("0.1")


# --- what cannot be counted -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["anthropic/claude-unheard-of", "nobody/m", "bare"])
def test_a_model_without_a_price_is_refused(model):
    handler = Script(reply())
    error = played(limited(usd=1), question(model), handler).error

    assert (type(error), error.model) == (UnsupportedModel, model)
    assert "price is unknown" in error.reason
    assert handler.asked == []


def test_an_alias_is_priced_as_its_row():
    handler = Script(reply(origin=Origin("google", "gemini", "gemini-4-carbon")))
    purse = limited(usd=1)

    assert played(purse, question("gemini/gemini-4-carbon"), handler).error is None
    assert purse.spent == Decimal("0.003")


def test_an_unpriced_model_may_be_allowed():
    purse, stranger = limited(usd=1, unpriced="allow"), Origin("nobody", "openai-chat", "m")
    handler = Script(reply(origin=stranger))
    for _ in range(2):
        assert played(purse, question("nobody/m"), handler).error is None

    assert (purse.spent, purse.tokens, purse.unknown) == (0, 2200, 2)


@pytest.mark.parametrize(
    "limit, fields, words",
    [
        ({"usd": 1}, {"usage": None}, "reported no usage"),
        ({"tokens": 9999}, {"usage": None}, "reported no usage"),
        ({"usd": 1}, {"usage": Usage(input_tokens=5)}, "unknown cost"),
        ({"usd": 1}, {"origin": Origin("nobody", "openai-chat", "m")}, "nobody/m sent a reply of unknown cost"),
    ],
    ids=["no usage", "no tokens", "half a usage", "another model answered"],
)
def test_after_a_reply_of_unknown_cost_nothing_is_asked(limit, fields, words):
    """The reply is handed out: it was paid for."""
    purse, handler = limited(**limit), Script(reply(**fields))

    assert played(purse, question(), handler).text == "Hi"
    error = played(purse, question(), handler).error

    assert (type(error), error.limit) == (LimitReached, next(iter(limit)))
    assert words in str(error)
    assert 'unpriced="allow"' in str(error)
    assert purse.unknown == 1


def test_unknown_money_is_no_matter_where_only_tokens_are_limited():
    purse = limited(tokens=9999)
    for _ in range(2):
        stranger = Script(reply(origin=Origin("nobody", "openai-chat", "m")))
        assert played(purse, question("nobody/m"), stranger).error is None

    assert (purse.tokens, purse.unknown) == (2200, 0)


# --- who is counted ---------------------------------------------------------------------------------------------------


def test_the_reply_says_who_answered():
    """A fallback inside may have asked another model than the request names."""
    purse = limited(usd=1)
    dear = Origin("anthropic", "anthropic-messages", "claude-opus-4-6")
    played(purse, question(), Script(reply(origin=dear)))

    assert purse.spent == Decimal("0.0075")


def test_a_failed_attempt_counts():
    purse, error = limited(usd=1), ConnectionFailed("cut")
    error.partial = response(usage=Usage(input_tokens=1000), origin=ORIGIN)
    handler = Script([START, UsageUpdate(Usage(input_tokens=10)), error], reply())

    async def run():
        stack = compose([retry(sleep=_at_once), purse], handler)
        return [event async for event in stack(question())]

    asyncio.run(run())

    assert len(handler.asked) == 2
    assert (purse.spent, purse.tokens, purse.unknown) == (EACH + Decimal("0.003"), 2100, 0)


async def _at_once(seconds):
    pass


def test_usage_that_is_told_twice_counts_once():
    purse, (start, done) = limited(usd=1), reply()
    played(purse, question(), Script([start, UsageUpdate(Usage(input_tokens=10)), UsageUpdate(USAGE), done]))

    assert (purse.spent, purse.tokens) == (EACH, 1100)


def test_an_attempt_that_never_got_anywhere_costs_nothing():
    purse = limited(usd=1)
    assert isinstance(played(purse, question(), Script([Unavailable("x")])).error, Unavailable)

    assert (purse.spent, purse.unknown) == (0, 0)
    assert played(purse, question(), Script(reply())).error is None


def test_a_stream_that_is_left_counts_what_it_told():
    purse = limited(usd=1)
    handler = Script([START, UsageUpdate(Usage(input_tokens=2000)), ContentDelta(0, 0, TextDelta("Hi"))])

    async def run():
        async with aclosing(purse(question(stream=True), handler)) as events:
            for _ in range(3):
                await anext(events)

    asyncio.run(run())

    assert (purse.spent, handler.closed) == (Decimal("0.006"), 1)


def test_a_reply_counts_before_it_is_handed_out():
    """Its reader need not read on after the last event."""
    purse = limited(usd=1)

    async def run():
        async with aclosing(purse(question(), Script(reply()))) as events:
            await anext(events)
            await anext(events)
            assert purse.spent == EACH

    asyncio.run(run())
    assert purse.spent == EACH


@pytest.mark.parametrize("options", [{}, {"usd": 1, "unpriced": "maybe"}])
def test_a_budget_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match=r"takes usd, tokens or both|got 'maybe'"):
        budget(**options)
