"""Operations of several requests: batches of embeddings in parallel, pages of models one after the other."""

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
    """Return a vector for each text: the number in the text."""
    texts = json.loads(wire.body)["input"]
    texts = [texts] if isinstance(texts, str) else texts
    data = [{"index": at, "embedding": [float(text)]} for at, text in enumerate(texts)]
    usage = usage or {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return json.dumps({"data": data[::-1], "model": "m-1", "usage": usage}).encode()


def request(count, **more):
    return EmbedRequest(model="mine/m", input=[str(at) for at in range(count)], **more)


class Server:
    """Answers in the order that the test chooses; counts the open requests."""

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


def test_batches_run_in_parallel_and_keep_their_order():
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


def test_failed_batch_cancels_the_others():
    async def run():
        server = Server()
        call = asyncio.ensure_future(embed(server.send, TARGET, request(20), concurrent=3))
        await server.until(3)
        server.waiting[1][1].set_exception(RateLimited("slow down", provider="mine"))
        server.waiting[2][1].set_result(answer(server.waiting[2][0]))  # which would start the next batch
        with pytest.raises(RateLimited, match="slow down"):
            await call
        return server, [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    server, left = asyncio.run(run())

    assert (server.cancelled, server.waiting, server.sent, left) == (1, [], 3, [])


def test_two_failed_batches_raise_one_error():
    """No warning about an exception that was never retrieved."""

    async def run():
        server = Server()
        call = asyncio.ensure_future(embed(server.send, TARGET, request(4)))
        await server.until(2)
        for _, future in server.waiting:
            future.set_exception(RateLimited("slow down", provider="mine"))
        await call

    with pytest.raises(RateLimited):
        asyncio.run(run())


def test_cancelling_cancels_all_batches():
    """The caller resumes after the last batch has ended."""

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


def recording_send(answers):
    """Return a `send` that records its requests and answers with the result of the function."""
    sent = []

    async def send(target, wire):
        sent.append((target, wire))
        return answers(wire)

    return send, sent


def test_no_texts_send_no_request():
    """A provider without embeddings is an error also in this case."""
    send, sent = recording_send(answer)
    found = asyncio.run(embed(send, TARGET, request(0)))

    assert (found.embeddings, found.usage, found.provider, found.model) == ((), EmbedUsage(0, 0), "mine", "m")
    with pytest.raises(UnsupportedModel):
        asyncio.run(embed(send, catalog.resolve("anthropic/claude-opus-4-6"), request(0)))
    assert sent == []


def test_one_text_is_one_embedding():
    """An empty text is sent, too: the provider refuses it."""
    send, sent = recording_send(answer)
    found = asyncio.run(embed(send, TARGET, EmbedRequest(model="mine/m", input="7")))

    assert found.embeddings == ((7.0,),)
    assert json.loads(sent[0][1].body)["input"] == "7"
    send, sent = recording_send(lambda wire: b'{"data": [{"embedding": [0.5]}]}')
    assert asyncio.run(embed(send, TARGET, EmbedRequest(model="mine/m", input=""))).embeddings == ((0.5,),)
    assert json.loads(sent[0][1].body)["input"] == ""


def test_usage_is_unknown_if_one_batch_has_none():
    send, _ = recording_send(lambda wire: answer(wire, {"prompt_tokens": 1} if b'"0"' in wire.body else {"other": 1}))

    assert asyncio.run(embed(send, TARGET, request(3))).usage == EmbedUsage(None, None)


def test_equal_losses_of_batches_are_one_loss():
    send, _ = recording_send(answer)
    found = asyncio.run(embed(send, TARGET, request(5, task="query")))

    assert [(loss.kind, str(loss.location)) for loss in found.losses] == [("unsupported-parameter", "task")]

    send, _ = recording_send(lambda wire: answer(wire).replace(b'"index": 1', b'"index": 0'))
    found = asyncio.run(embed(send, TARGET, request(4, task="query")))
    assert [str(loss.location) for loss in found.losses] == ["task", "input[0]", "input[2]"]


def test_embeddings_use_the_url_of_the_row():
    """The dialect of the model does not matter."""
    target = catalog.resolve("perplexity/openai/text-embedding-3-small")
    send, sent = recording_send(lambda wire: b'{"data": [{"embedding": [0.5]}]}')
    asyncio.run(embed(send, target, EmbedRequest(model="perplexity/x", input="a")))

    assert target.dialect == "openai-responses"
    assert catalog.base_url(sent[0][0]) + sent[0][1].path == "https://api.perplexity.ai/v1/embeddings"


def test_missing_vector_is_an_error():
    """Otherwise the remaining vectors would belong to other texts."""
    send, _ = recording_send(lambda wire: b'{"data": [{"index": 0, "embedding": [0.5]}]}')

    with pytest.raises(ProtocolError, match="2 texts went out, 1 embeddings came back"):
        asyncio.run(embed(send, TARGET, request(3)))


# --- models -----------------------------------------------------------------------------------------------------------


def pages(*answers):
    send, sent = recording_send(lambda wire: json.dumps(answers[len(sent) - 1]).encode())
    return send, sent


def test_all_pages_are_requested_in_order():
    send, sent = pages(
        {"data": [{"id": "a"}, {"id": "b"}], "has_more": True, "last_id": "b"},
        {"data": [{"id": "c"}], "has_more": False, "last_id": "c"},
    )
    found = asyncio.run(models(send, catalog.resolve("anthropic/any")))

    assert [info.id for info in found] == ["a", "b", "c"]
    assert [wire.path for _, wire in sent] == ["/models?limit=1000", "/models?limit=1000&after_id=b"]


def test_single_page_is_one_request():
    send, sent = pages({"data": [{"id": "a"}]})
    target = catalog.resolve("perplexity/openai/gpt-5.2")

    assert [info.id for info in asyncio.run(models(send, target))] == ["a"]
    assert catalog.base_url(sent[0][0]) + sent[0][1].path == "https://api.perplexity.ai/v1/models"


@pytest.mark.parametrize("fresh, requests", [(False, 2), (True, operations.MAX_PAGES)])
def test_endless_list_is_an_error(fresh, requests):
    send, sent = recording_send(lambda wire: json.dumps({"nextPageToken": f"p{len(sent) if fresh else 0}"}).encode())

    with pytest.raises(ProtocolError, match="does not end") as caught:
        asyncio.run(models(send, catalog.resolve("google/any")))
    assert len(sent) == requests
    assert caught.value.provider == "google"


def test_provider_without_list_sends_no_request():
    send, sent = pages()

    with pytest.raises(UnsupportedModel, match="no list"):
        asyncio.run(models(send, catalog.resolve("zai/glm-5.3")))
    assert sent == []
