"""Send requests to several models concurrently with `AsyncClient`."""

import asyncio

from tenuto import AsyncClient

MODELS = ["anthropic/claude-sonnet-4-6", "openai/gpt-5.2", "google/gemini-3-flash-preview"]


async def main() -> None:
    """Send one prompt to all models, then stream a reply."""
    async with AsyncClient() as ai:
        replies = await asyncio.gather(*(ai.chat(model, "Hello") for model in MODELS))
        for reply in replies:  # in the order of the models
            print(f"{reply.provider}: {reply.text}")

        async with ai.stream(MODELS[0], "Write a haiku.") as stream:
            async for text in stream.text_deltas():
                print(text, end="", flush=True)
        print()


asyncio.run(main())
