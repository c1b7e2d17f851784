"""Middleware around a handler whose events come in lists: nobody can tell the difference."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from client.handlers import question
from tenuto.client.pipeline import compose, stacked
from tenuto.core.events import ContentDelta, TextDelta
from tenuto.middleware import retry


def delta(text):
    return ContentDelta(0, 0, TextDelta(text))


class Plain:
    """Writes its name behind every piece, one event after the other."""

    def __init__(self, name):
        self.name = name

    async def __call__(self, request, next):
        async for event in next(request):
            yield delta(event.delta.text + self.name)


class Listed(Plain):
    """The same, over lists."""

    async def listed(self, request, next):
        async for events in next(request):
            yield [delta(event.delta.text + self.name) for event in events]


def drained(handler):
    async def run():
        return [item async for item in handler(question())]

    return asyncio.run(run())


@given(
    st.lists(st.tuples(st.sampled_from([Plain, Listed]), st.sampled_from("abc")), max_size=6),
    st.lists(st.lists(st.sampled_from("xyz"), max_size=4), max_size=4),
)
def test_lists_and_single_events_come_to_the_same(layers, lists):
    layers = [kind(name) for kind, name in layers]

    async def in_lists(_):
        for texts in lists:
            yield [delta(text) for text in texts]

    async def one_by_one(_):
        for texts in lists:
            for text in texts:
                yield delta(text)

    told = drained(stacked(layers, in_lists))
    assert [event for events in told for event in events] == drained(compose(layers, one_by_one))


def test_what_came_in_one_list_stays_in_one_list():
    """Trying again hands lists on as they come: that is what they are for."""

    async def handler(_):
        yield [delta("a"), delta("b"), delta("c")]
        yield [delta("d")]

    told = drained(stacked([retry(2), Listed("!")], handler))
    assert [len(events) for events in told if events] == [3, 1]


def test_closing_the_outermost_closes_the_innermost():
    closed = []

    async def handler(_):
        try:
            yield [delta("a"), delta("b")]
        finally:
            closed.append(True)

    async def run():
        lists = stacked([retry(2), Plain("!"), Listed("?")], handler)(question(stream=True))
        first = await anext(lists)
        await lists.aclose()
        return first

    assert asyncio.run(run()) == [delta("a?!")]
    assert closed == [True]
