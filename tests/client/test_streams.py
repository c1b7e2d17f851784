"""Many streams at once, on one client."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from scripted import ROW, frames
from serving import Gate, Request, Server, chunk, replies, reply, stream_head, streamed
from serving.client import QUICK, row
from tenuto import AsyncClient, Client
from tenuto.core.events import ContentDelta, TextDelta
from tenuto.testing import ScriptedResponse, ScriptedTransport

MANY = 200


def prompt(number: int) -> str:
    return f"Count to {number}, ☃."


def expected_answer(asked: str) -> str:
    return f"{asked} " * 20 + "Ü"


def prompt_of(request: Request) -> str:
    """Return the prompt of a request in any dialect."""
    body = request.json()
    if "contents" in body:
        return body["contents"][-1]["parts"][0]["text"]
    content = (body.get("messages") or body.get("input"))[-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def dialect_of(request: Request) -> str:
    return request.path.split("/")[1]


def rows(url: str):
    return [row(f"{url}/{dialect}", dialect, name=dialect) for dialect in replies.DIALECTS]


def test_200_streams_at_once_are_complete():
    """All are open at the same time: none continues before the last one has started."""
    gate = Gate()

    def answer(request: Request):
        dialect = dialect_of(request)
        first, *rest = replies.events(dialect, expected_answer(prompt_of(request)))
        yield stream_head() + chunk(first)
        yield gate
        for event in (*rest, b""):
            yield chunk(event)

    async def run() -> None:
        begun = 0

        async def one(ai: AsyncClient, number: int) -> None:
            nonlocal begun
            model = f"{replies.DIALECTS[number % 4]}/m"
            text = ""
            async with ai.stream(model, prompt(number)) as stream:
                seen = 0
                async for event in stream:
                    seen += 1
                    if seen == 1:
                        begun += 1
                        if begun == MANY:
                            gate.open()
                    if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
                        text += event.delta.text
                answer = stream.reply
            assert answer.text == text == expected_answer(prompt(number))
            assert answer.thinking == replies.THOUGHT
            assert answer.tool_calls[0].parse() == replies.ARGUMENTS
            assert answer.transcript.messages[0].content == prompt(number)

        async with Server(answer) as server:
            async with AsyncClient(providers=rows(server.url), middleware=[], timeout=QUICK) as ai:
                await asyncio.gather(*(one(ai, number) for number in range(MANY)))
            assert server.lines == len(server.requests) == MANY

    asyncio.run(run())


def test_threads_share_a_client():
    """Streams and plain requests from several threads."""

    def answer(request: Request):
        text = expected_answer(prompt_of(request))
        if request.json().get("stream"):
            return streamed(replies.events("openai-chat", text))
        return reply(replies.body("openai-chat", text))

    def work(ai: Client, thread: int) -> None:
        for number in range(thread * 100, thread * 100 + 5):
            assert ai.chat("mine/m", prompt(number)).text == expected_answer(prompt(number))
            with ai.stream("mine/m", prompt(number)) as stream:
                assert "".join(stream.text_deltas()) == expected_answer(prompt(number))
                assert stream.reply.text == expected_answer(prompt(number))

    with Server(answer) as server, Client(providers=[row(server.url)], middleware=[], timeout=QUICK) as ai:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(work, ai, thread) for thread in range(8)]:
                done.result(30)
        assert len(server.requests) == 80


def one_piece(texts, *more: bytes) -> ScriptedTransport:
    """Respond with a complete stream in one read."""
    return ScriptedTransport(ScriptedResponse.stream(b"".join((*frames(*texts), *more))))


def test_first_events_of_a_large_chunk_arrive_first():
    texts = ["word "] * 4_000

    async def run() -> str:
        async with AsyncClient(providers=[ROW], transport=one_piece(texts)) as ai:
            stream = ai.stream("mine/m", "Hi")
            await anext(aiter(stream))
            return (await stream.cancel()).text

    assert len(asyncio.run(run())) < 4_000


def test_events_after_the_last_text_in_one_read_are_seen():
    """At any distance."""
    behind = b": " + b"." * 100_000 + b"\n\ndata: {\n\n"

    async def run() -> list[str]:
        async with AsyncClient(providers=[ROW], transport=one_piece(["word"], behind)) as ai:
            return [loss.kind for loss in (await ai.stream("mine/m", "Hi").drain()).losses]

    assert asyncio.run(run()) == ["after-the-end"]
