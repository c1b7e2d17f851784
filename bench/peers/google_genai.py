"""Drive the Google SDK: `generate_content_stream`, without assembling the message."""

from __future__ import annotations

import json

from google import genai

from bench.peers.driver import PROMPT, main

REQUEST = {"model": "gemini-3-flash-preview", "contents": PROMPT}


class Gemini:
    def __init__(self, base_url: str) -> None:
        self.client = genai.Client(
            api_key="none", http_options={"base_url": base_url}
        )  # a client without a reference closes its connections
        self.models = self.client.aio.models

    async def count_events(self) -> int:
        count = 0
        async for _ in await self.models.generate_content_stream(**REQUEST):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await self.models.generate_content_stream(**REQUEST):
            parts = chunk.candidates[0].content.parts
            text += [part.text for part in parts if part.text and not part.thought]
            calls = [part.function_call.args for part in parts if part.function_call]
            arguments += [json.dumps(call, separators=(",", ":")) for call in calls]
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return (await self.models.generate_content(**REQUEST)).text


if __name__ == "__main__":
    main({"gemini": Gemini})
