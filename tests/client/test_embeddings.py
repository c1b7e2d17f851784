"""Several requests for one call: batches of embeddings at once, pages of models one after the other."""

from __future__ import annotations

import asyncio
import json

import pytest

from tenuto import catalog
from tenuto.client import operations
from tenuto.core.embeddings import EmbedRequest, EmbedUsage
from tenuto.core.provider import EmbeddingSwitches, Provider, Target
from tenuto.errors import ProtocolError, RateLimited, UnsupportedModel

MINE = Provider("mine", "openai-chat", "http://localhost/v1", embeddings=EmbeddingSwitches(batch=2))
TARGET = Target(MINE, "m", "openai-chat")


def run_without_middleware(send, target):
    async def run(call, perform):
        return await perform(call, target, send)

    return run


def embed(send, target, request, **options):
    return operations.embed(run_without_middleware(send, target), target, request, **options)


def models(send, target):
    return operations.models(run_without_middleware(send, target), target.provider.name)


def answer(wire, usage=None):
    """Embed each text as the number it is."""
    texts = json.loads(wire.body)["input"]
    texts = [texts] if isinstance(texts, str) else texts
    data = [{"index": at, "embedding": [float(text)]} for at, text in enumerate(texts)]
    usage = usage or {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return json.dumps({"data": data[::-1], "model": "m-1", "usage": usage}).encode()


def request(count, **more):
    return EmbedRequest(model="mine/m", input=[str(at) for at in range(count)], **more)


class Server:
    """Answers when it is told to, in whatever order; counts what is under way."""

    def __init__(self) -> None:
        self.waiting: list[tuple[object, asyncio.Future[bytes]]] = []
        self.cancelled = self.most = self.sent = 0
        self.arrived = asyncio.Condition()

    async def send(self, target, wire):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((wire, future))
        self.sent += 1
        self.most = max(self.most, len(self.waiting))
        async with self.arrived:
            self.arrived.notify_all()
        try:
            return await future
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting = [pair for pair in self.waiting if pair[1] is not future]

    async def until(self, count):
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.waiting) >= count)


def test_a_long_list_goes_out_in_batches_and_comes_back_in_order():
    """Whichever answer comes first; never more at once than allowed; usage summed."""

    async def run():
        server = Server()
        call = asyncio.ensure_future(embed(server.send, TARGET, request(11), concurrent=3))
        answered = 0
        while answered < 6:
            await server.until(min(3, 6 - answered))
            wire, future = server.waiting[-1]  # the latest first
            future.set_result(answer(wire))
            answered += 1
            await asyncio.sleep(0)
            server.waiting = [pair for pair in server.waiting if not pair[1].done()]
        return await call, server.most

    found, most = asyncio.run(run())

    assert found.embeddings == tuple((float(at),) for at in range(11))
    assert (found.usage, found.model, found.provider) == (EmbedUsage(11, 11), "m-1", "mine")
    assert most == 3


def test_one_failure_cancels_the_others_and_is_raised():
    """Nothing is left under way, and no new request goes out."""

    async def run():
        server = Server()
        call = asyncio.ensure_future(embed(server.send, TARGET, request(20), concurrent=3))
        await server.until(3)
        server.waiting[1][1].set_exception(RateLimited("slow down", provider="mine"))
        server.waiting[2][1].set_result(answer(server.waiting[2][0]))  # which would make room for another
        with pytest.raises(RateLimited, match="slow down"):
            await call
        return server, [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    server, left = asyncio.run(run())

    assert (server.cancelled, server.waiting, server.sent, left) == (1, [], 3, [])


def test_two_failures_at_once_are_one_error():
    """And no warning that nobody looked at the other."""

    async def run():
        server = Server()
        call = asyncio.ensure_future(embed(server.send, TARGET, request(4)))
        await server.until(2)
        for _, future in server.waiting:
            future.set_exception(RateLimited("slow down", provider="mine"))
        await call

    with pytest.raises(RateLimited):
        asyncio.run(run())


def test_being_cancelled_cancels_everything():
    """The caller hears of it when all is over."""

    async def run():
        server = Server()
        call = asyncio.ensure_future(embed(server.send, TARGET, request(20), concurrent=4))
        await server.until(4)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return server

    server = asyncio.run(run())

    assert (server.cancelled, server.waiting) == (4, [])


def asking(answers):
    """A `send` that notes what goes out, and answers with what the function gives."""
    sent = []

    async def send(target, wire):
        sent.append((target, wire))
        return answers(wire)

    return send, sent


def test_no_texts_are_no_request():
    """And nothing used; where there are no embeddings, one is told even so."""
    send, sent = asking(answer)
    found = asyncio.run(embed(send, TARGET, request(0)))

    assert (found.embeddings, found.usage, found.provider, found.model) == ((), EmbedUsage(0, 0), "mine", "m")
    with pytest.raises(UnsupportedModel):
        asyncio.run(embed(send, catalog.resolve("anthropic/claude-opus-4-6"), request(0)))
    assert sent == []


def test_one_text_is_one_embedding():
    """It goes out as it was given; an empty one too, for the provider to refuse."""
    send, sent = asking(answer)
    found = asyncio.run(embed(send, TARGET, EmbedRequest(model="mine/m", input="7")))

    assert found.embeddings == ((7.0,),)
    assert json.loads(sent[0][1].body)["input"] == "7"
    send, sent = asking(lambda wire: b'{"data": [{"embedding": [0.5]}]}')
    assert asyncio.run(embed(send, TARGET, EmbedRequest(model="mine/m", input=""))).embeddings == ((0.5,),)
    assert json.loads(sent[0][1].body)["input"] == ""


def test_a_sum_with_an_unknown_part_is_unknown():
    """Half a bill is no bill."""
    send, _ = asking(lambda wire: answer(wire, {"prompt_tokens": 1} if b'"0"' in wire.body else {"other": 1}))

    assert asyncio.run(embed(send, TARGET, request(3))).usage == EmbedUsage(None, None)


def test_losses_of_both_ways_are_told_once():
    """What had no word in any batch is one loss."""
    send, _ = asking(answer)
    found = asyncio.run(embed(send, TARGET, request(5, task="query")))

    assert [(loss.kind, str(loss.location)) for loss in found.losses] == [("unsupported-parameter", "task")]

    send, _ = asking(lambda wire: answer(wire).replace(b'"index": 1', b'"index": 0'))
    found = asyncio.run(embed(send, TARGET, request(4, task="query")))
    assert [str(loss.location) for loss in found.losses] == ["task", "input[0]", "input[2]"]


def test_embeddings_are_at_the_rows_own_address():
    """Whatever dialect the model's questions are asked in."""
    target = catalog.resolve("perplexity/openai/text-embedding-3-small")
    send, sent = asking(lambda wire: b'{"data": [{"embedding": [0.5]}]}')
    asyncio.run(embed(send, target, EmbedRequest(model="perplexity/x", input="a")))

    assert target.dialect == "openai-responses"
    assert catalog.base_url(sent[0][0]) + sent[0][1].path == "https://api.perplexity.ai/v1/embeddings"


def test_a_lost_vector_is_an_error_of_the_whole():
    """Rather than vectors that belong to other texts."""
    send, _ = asking(lambda wire: b'{"data": [{"index": 0, "embedding": [0.5]}]}')

    with pytest.raises(ProtocolError, match="2 texts went out, 1 embeddings came back"):
        asyncio.run(embed(send, TARGET, request(3)))


# --- models -----------------------------------------------------------------------------------------------------------


def pages(*answers):
    send, sent = asking(lambda wire: json.dumps(answers[len(sent) - 1]).encode())
    return send, sent


def test_all_pages_are_read():
    """In order, each asked for by what the one before named."""
    send, sent = pages(
        {"data": [{"id": "a"}, {"id": "b"}], "has_more": True, "last_id": "b"},
        {"data": [{"id": "c"}], "has_more": False, "last_id": "c"},
    )
    found = asyncio.run(models(send, catalog.resolve("anthropic/any")))

    assert [info.id for info in found] == ["a", "b", "c"]
    assert [wire.path for _, wire in sent] == ["/models?limit=1000", "/models?limit=1000&after_id=b"]


def test_one_page_is_one_request():
    """At the row's own address."""
    send, sent = pages({"data": [{"id": "a"}]})
    target = catalog.resolve("perplexity/openai/gpt-5.2")

    assert [info.id for info in asyncio.run(models(send, target))] == ["a"]
    assert catalog.base_url(sent[0][0]) + sent[0][1].path == "https://api.perplexity.ai/v1/models"


@pytest.mark.parametrize("fresh, requests", [(False, 2), (True, operations.MAX_PAGES)])
def test_a_list_that_never_ends_is_an_error(fresh, requests):
    """Whether it goes in a circle or names ever new pages."""
    send, sent = asking(lambda wire: json.dumps({"nextPageToken": f"p{len(sent) if fresh else 0}"}).encode())

    with pytest.raises(ProtocolError, match="does not end") as caught:
        asyncio.run(models(send, catalog.resolve("google/any")))
    assert len(sent) == requests
    assert caught.value.provider == "google"


def test_no_list_is_no_request():
    """The reason is told."""
    send, sent = pages()

    with pytest.raises(UnsupportedModel, match="no list"):
        asyncio.run(models(send, catalog.resolve("zai/glm-5.3")))
    assert sent == []
