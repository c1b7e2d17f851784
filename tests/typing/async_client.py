"""The asynchronous client, with the same names."""

from __future__ import annotations

import asyncio
from typing import assert_type

import msgspec

from tenuto import AsyncClient, EmbedResponse, Image, Reply
from tenuto.events import StreamEvent

MODELS = ("anthropic/claude-sonnet-4-6", "openai/gpt-5.2")


class City(msgspec.Struct):
    name: str


async def main() -> str:
    async with AsyncClient(middleware=[]) as ai:
        assert_type(ai, AsyncClient)
        assert_type(await ai.chat(MODELS[0], "Hello"), Reply)
        replies = await asyncio.gather(*(ai.chat(model, "Hello") for model in MODELS))
        assert_type(replies, list[Reply])

        async with ai.stream(MODELS[0], replies[0].transcript + "Go on.") as stream:
            async for event in stream:
                assert_type(event, StreamEvent)
        assert_type(stream.reply, Reply)

        pieces = [piece async for piece in ai.stream(MODELS[1], "Hello").text_deltas()]
        assert_type(pieces, list[str])
        assert_type(await ai.stream(MODELS[1], "Hello").drain(), Reply)
        assert_type((await ai.chat_structured(MODELS[1], "Largest city?", City)).data, City)
        assert_type(await ai.embed("openai/text-embedding-3-small", "hello"), EmbedResponse)
        assert_type(await ai.count_tokens(MODELS[0], "Hello", tools=[]), int)
        assert_type([model.id for model in await ai.models("openai")], list[str])
        assert_type(await ai.fetch(Image.from_url("https://example.com/a.png")), Image)
        return "".join(pieces)


print(asyncio.run(main()))
