"""Ask several models at once, awaited: the same names, on `AsyncClient`."""

import asyncio

from tenuto import AsyncClient

MODELS = ["anthropic/claude-sonnet-4-6", "openai/gpt-5.2", "google/gemini-3-flash-preview"]


async def main() -> None:
    """Ask all, then stream one."""
    async with AsyncClient() as ai:
        replies = await asyncio.gather(*(ai.chat(model, "Hello") for model in MODELS))
        for reply in replies:  # in the order of the models
            print(f"{reply.provider}: {reply.text}")

        async with ai.stream(MODELS[0], "Write a haiku.") as stream:
            async for piece in stream.text_deltas():
                print(piece, end="", flush=True)
        print()


asyncio.run(main())
